//! The `timeout` object of routes and upstreams.

use serde::Deserialize;

/// Upstream timeouts, in seconds, each greater than 0; fractions are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Timeout {
    /// To establish the connection.
    pub connect: f64,
    /// Between two successive writes.
    pub send: f64,
    /// Between two successive reads.
    pub read: f64,
}

impl Default for Timeout {
    /// nginx's and APISIX's 60 s each.
    fn default() -> Self {
        Self { connect: 60.0, send: 60.0, read: 60.0 }
    }
}
