//! What an exchange has of its client's connection.

use crate::config::EngineConfig;
use crate::timer::Timer;
use crate::transport::Stream;
use crate::worker::Worker;
use plugin::Client;
use std::time::Duration;
use wire::FieldLines;

/// What an exchange needs of its connection.
pub(crate) struct Link<'c> {
    pub(crate) worker: &'c Worker,
    /// The configuration that the exchange began with.
    pub(crate) config: &'c EngineConfig,
    pub(crate) stream: &'c mut Stream,
    pub(crate) client: &'c Client,
    pub(crate) timer: &'c Timer,
    /// `X-Real-IP`, `X-Forwarded-For` and `X-Forwarded-Proto` lines, the same for every request of the connection.
    pub(crate) forwarded: &'c FieldLines,
    /// Whether the peer's own `X-Forwarded-*` are believed.
    pub(crate) trusted: bool,
    /// Number of the request on the connection, from 1.
    pub(crate) number: u64,
}

/// How long a closing connection is read on, so that the client can read the answer before the reset that unread
/// bytes would cause: nginx's `lingering_time`, and its default.
pub(crate) const LINGERING_TIME: Duration = Duration::from_secs(30);
