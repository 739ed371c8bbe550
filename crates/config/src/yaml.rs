//! The YAML tree that settings are read from.

pub(crate) use document::{Entry, Node, Value};

use super::problem::Problem;

/// Reads one document; an empty text is `Value::Null`. The parser stops at the first syntax error, so at most one
/// problem comes back.
pub(crate) fn parse(text: &str) -> Result<Node, Problem> {
    document::parse_yaml(text).map_err(Problem::from)
}
