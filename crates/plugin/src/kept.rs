//! Responses kept from before, and what a plugin that keeps some does about an upstream's answer.
//!
//! A plugin that has a response for a request puts it into [`crate::Extras::kept`]: it is sent as if its upstream had just
//! made it, but for the request's preconditions and ranges, which are answered here. One that wants the upstream's answer leaves a [`Keeper`]. With both, the client gets the kept response, and the
//! upstream is asked afterwards, for the keeper alone.

use crate::{Exchange, UpstreamResponse};
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

/// Is told what became of asking the upstream; of one that is neither told nor asked any more the exchange is over.
pub trait Keeper {
    /// The upstream answered with this head; `exchange` has its status. Comes before the response hooks.
    fn answered(&mut self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) -> Verdict;

    /// The upstream gave no usable answer: what the client gets instead of an error.
    fn failed(&mut self, exchange: &mut Exchange<'_>) -> Option<KeptResponse>;
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

/// Gets a response's body as the upstream sent it, while the client does. One that is dropped before it was finished got
/// only a part.
pub trait Recorder {
    /// The next piece.
    fn piece(&mut self, piece: &[u8]);

    /// That was all.
    fn finish(self: Box<Self>);
}
