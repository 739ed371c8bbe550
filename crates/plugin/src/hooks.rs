//! The phases a plugin can listen to, in the order in which they run.
//!
//! rewrite -> access -> before-proxy -> (upstream) -> response -> log

use crate::{Exchange, Flow, HeaderEdits};
use wire::ResponseHead;

/// Runs first, before the consumer is known: rewriting, authentication.
pub trait OnRewrite: Send + Sync {
    /// Decides what happens next.
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow;
}

/// Runs when route and consumer are settled: limits, permissions.
pub trait OnAccess: Send + Sync {
    /// Decides what happens next.
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow;
}

/// Runs after access, directly before an upstream node is asked.
pub trait OnBeforeProxy: Send + Sync {
    /// Decides what happens next.
    fn before_proxy(&self, exchange: &mut Exchange<'_>) -> Flow;
}

/// Runs when the response's head is known, whoever made it, and before it is sent.
pub trait OnResponse: Send + Sync {
    /// May change fields by `exchange.reply_headers` and the status by `exchange.status`.
    fn response(&self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>);
}

/// Runs when the exchange is over, however it ended.
pub trait OnLog: Send + Sync {
    /// Takes note of it.
    fn log(&self, exchange: &Exchange<'_>);
}

/// The upstream's response head, where an upstream answered.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamResponse<'b> {
    /// The head and its bytes; `None` where the gateway itself answers.
    pub head: Option<(&'b ResponseHead, &'b [u8])>,
}

impl<'b> UpstreamResponse<'b> {
    /// The value of the upstream's first field called `name` (any case), unless `edits` speak of it.
    #[must_use]
    pub fn header<'e>(&self, name: &[u8], edits: &'e HeaderEdits) -> Option<&'e [u8]>
    where
        'b: 'e,
    {
        match edits.get(name) {
            Some(edited) => edited,
            None => self.head.and_then(|(head, bytes)| head.header(bytes, name)),
        }
    }
}
