//! How the client wants to be answered: `?errors=all`, and `?strict=true` or the header `strict: true`.

use crate::AdminRequest;
use crate::http::args::Args;

/// How the client wants to be answered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    /// A refusal names every mistake with its path, beside APISIX's one line.
    pub all_errors: bool,
    /// Fields that nobody knows are refused, rather than named in a `Warning` header.
    pub strict: bool,
}

impl Manner {
    /// What a request asks for.
    pub(crate) fn of(request: &AdminRequest, args: &Args) -> Self {
        let strict = args.get("strict").or_else(|| request.header("strict"));
        Self { all_errors: args.get("errors") == Some("all"), strict: strict == Some("true") }
    }
}
