//! What the exchange with an upstream is about.

use super::respond::Message;
use plugin::Exchange;
use snapshot::{Route, Timeouts};
use std::net::IpAddr;
use std::time::Duration;

/// What is done for a client, and by what rules.
pub(super) struct Job<'j, 'm, 'x> {
    pub(super) message: &'j mut Message<'m>,
    pub(super) exchange: &'j mut Exchange<'x>,
    pub(super) route: &'j Route,
    pub(super) timeouts: &'j Timeouts,
    /// The addresses of names that were tried.
    pub(super) tried_at: &'j mut Vec<IpAddr>,
    /// Whether a node may have got something of the request.
    pub(super) sent: bool,
    /// How long the upstream took for its response, without the time that it waited for the client; zero without one.
    pub(super) latency: Duration,
}
