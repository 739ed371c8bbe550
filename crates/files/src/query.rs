//! What a request says that matters to files.

use wire::conditional::Conditions;

/// A request for a file. Fields are as they were sent, `None` where absent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<'a> {
    /// The path, decoded once and its dots resolved.
    pub path: &'a [u8],
    /// The query with its question mark, as sent: kept where a folder's slash is added.
    pub query: &'a [u8],
    /// `Accept-Encoding`.
    pub accept_encoding: Option<&'a [u8]>,
    /// Its preconditions, and the part that it wants.
    pub conditions: Conditions<'a>,
}
