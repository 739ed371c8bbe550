//! The phases a plugin can listen to, in the order in which they run.
//!
//! rewrite -> access -> before-proxy -> (upstream) -> response -> log
//!
//! Sessions of stream routes have two of their own: preread -> (upstream) -> stream log

use crate::{Background, Exchange, Flow, Session, StreamFlow, UpstreamResponse};
use model::var::BodyNeed;
use std::sync::Arc;

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

/// Runs when a session's route is known, before its upstream is chosen.
pub trait OnPreread: Send + Sync {
    /// Decides what happens next. `bytes` is what the client has sent so far, of a UDP session its first datagram;
    /// nothing of it is taken away.
    fn preread(&self, session: &mut Session<'_>, bytes: &[u8]) -> StreamFlow;
}

/// Runs when a session that reached its route is over, however it ended.
pub trait OnStreamLog: Send + Sync {
    /// Takes note of it.
    fn log_stream(&self, session: &Session<'_>);
}

/// The hooks of one compiled configuration, at most one for each phase.
#[derive(Clone, Default)]
pub struct Hooks {
    /// The rewrite phase.
    pub rewrite: Option<Arc<dyn OnRewrite>>,
    /// The access phase.
    pub access: Option<Arc<dyn OnAccess>>,
    /// Before an upstream is asked.
    pub before_proxy: Option<Arc<dyn OnBeforeProxy>>,
    /// The response's head.
    pub response: Option<Arc<dyn OnResponse>>,
    /// The end of the exchange.
    pub log: Option<Arc<dyn OnLog>>,
    /// The beginning of a session.
    pub preread: Option<Arc<dyn OnPreread>>,
    /// Its end.
    pub stream_log: Option<Arc<dyn OnStreamLog>>,
    /// The work that goes on while the configuration is in use.
    pub background: Vec<Background>,
    /// What of the request's body the plugin's conditions ask about; it is read before the plugins run.
    pub body_need: BodyNeed,
}
