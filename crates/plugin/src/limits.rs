//! Limits that plugins set for one exchange.

use std::time::Duration;

/// What holds for one exchange in place of the configuration's limits and of the route's or the upstream's timeouts.
/// `None` keeps these. Set in [`crate::Extras::limits`] by a hook that runs before an upstream is asked; the plugin that
/// sets a limit last decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExchangeLimits {
    /// The largest request body (`client_max_body_size`); 0 is no limit. A longer one is answered with 413, at the latest
    /// once the hooks before the upstream have run.
    pub body_bytes_max: Option<u64>,
    /// Between two successive reads of the request's body (`client_body_timeout`).
    pub body_timeout: Option<Duration>,
    /// To connect to a node.
    pub connect_timeout: Option<Duration>,
    /// Between two successive writes to a node.
    pub send_timeout: Option<Duration>,
    /// Between two successive reads from a node.
    pub read_timeout: Option<Duration>,
}
