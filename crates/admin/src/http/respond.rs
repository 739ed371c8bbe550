//! A response of the Admin API, before the wire.

use serde_json::{Value, json};
use store::StoreError;

/// A response of the Admin API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminResponse {
    /// The status.
    pub status: u16,
    /// Header fields; those of the connection (`Content-Length`, `Date`, `Server`) are the server's to add.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer, `Err` where the request is refused.
pub(crate) type Answer = Result<AdminResponse, AdminResponse>;

impl AdminResponse {
    /// No body.
    pub(crate) fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// A body that is no JSON, as APISIX has it in few places.
    pub(crate) fn text(status: u16, body: &str) -> Self {
        Self { body: body.as_bytes().to_vec(), ..Self::empty(status) }
    }

    /// A JSON body, with the line's end that APISIX writes.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self { body: format!("{body}\n").into_bytes(), ..Self::empty(status) }
    }

    /// `{"error_msg": ...}`
    pub(crate) fn error(status: u16, message: impl Into<String>) -> Self {
        Self::json(status, &json!({ "error_msg": message.into() }))
    }

    /// The answer for a key that isn't there.
    pub(crate) fn key_not_found() -> Self {
        Self::json(404, &json!({ "message": "Key not found" }))
    }

    /// The answer for a method that the path doesn't have.
    pub(crate) fn not_offered(method: &str) -> Self {
        Self::error(405, format!("not supported `{method}` method for this path"))
    }

    /// The same with one more header field.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Names the fields that were accepted although nobody knows them, in a `Warning` header and in the log.
    pub(crate) fn warned(self, unknown: &[String]) -> Self {
        /// Bytes of names shown; proxies limit header lines to 8 KiB, and who has more such fields reads the log.
        const NAMES_BYTES_MAX: usize = 1024;
        if unknown.is_empty() {
            return self;
        }
        let names = unknown.join(", ");
        tracing::warn!(fields = %names, "accepted fields that nobody knows");
        // A quoted string of a header is printable ASCII.
        let names: String = names.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect();
        let names = names.replace('\\', "\\\\").replace('"', "\\\"");
        let shown = names.get(..NAMES_BYTES_MAX).unwrap_or(&names).trim_end_matches('\\');
        self.with("Warning", format!("299 tidegate \"unknown fields: {shown}\""))
    }
}

/// What the store refuses as contradictory is the client's mistake; the rest is ours.
impl From<StoreError> for AdminResponse {
    fn from(error: StoreError) -> Self {
        let status = if matches!(error, StoreError::Invalid(_)) { 400 } else { 503 };
        if status == 503 {
            tracing::error!(%error, "the store failed");
        }
        Self::error(status, error.to_string())
    }
}
