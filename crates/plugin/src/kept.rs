//! Responses kept from before, and what a plugin that keeps some does about an upstream's answer.
//!
//! A plugin that has a response for a request puts it into [`crate::Extras::kept`]: it is sent as if its upstream had just
//! made it, but for the request's preconditions and ranges, which are answered here. One that wants the upstream's answer leaves a [`crate::Keeper`]. With both, the client gets the kept response, and the
//! upstream is asked afterwards, for the keeper alone.

use crate::Recorder;
use std::sync::Arc;
use stdx::Segment;

/// A response kept from before. Cheap to clone.
#[derive(Debug, Clone)]
pub struct KeptResponse {
    /// Status line, fields and empty line, as HTTP/1.1 has them; `Content-Length` among the fields.
    pub head: Arc<[u8]>,
    /// The body, in memory or in a file.
    pub body: Segment,
}

/// What becomes of an upstream's response.
pub enum Verdict {
    /// It goes to the client.
    Pass,
    /// It goes to the client, and its body to the recorder as well.
    Record(Box<dyn Recorder>),
    /// The client gets this.
    Instead(KeptResponse),
}
