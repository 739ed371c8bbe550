//! What a request says that matters to files.

/// A request for a file. Fields are as they were sent, `None` where absent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<'a> {
    /// The path, decoded once and its dots resolved.
    pub path: &'a [u8],
    /// The query with its question mark, as sent: kept where a folder's slash is added.
    pub query: &'a [u8],
    /// `Accept-Encoding`.
    pub accept_encoding: Option<&'a [u8]>,
    /// `Range`.
    pub range: Option<&'a [u8]>,
    /// `If-Range`.
    pub if_range: Option<&'a [u8]>,
    /// `If-Match`.
    pub if_match: Option<&'a [u8]>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a [u8]>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'a [u8]>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'a [u8]>,
}
