//! Environment variables in `config.yaml`: in keys and strings of the parsed document, as APISIX has them there.

pub(crate) use document::variables::{Lookup, join};

use super::problem::{Problem, Problems};
use super::yaml::Node;

/// Substitutes in every key and string below `node`. A variable that is missing and has no default is an error at the
/// position of the string that names it.
pub(crate) fn substitute(node: &mut Node, path: &str, lookup: Lookup<'_>, problems: &Problems) {
    document::variables::in_tree(node, path, lookup, &mut |at, path, name| {
        let message = format!("the environment variable {name} is not set");
        problems.add(Problem::error(Some(at), path, message).hint(document::variables::default_hint(name)));
    });
}
