//! What log lines say of the exchange that they are about.

use crate::Exchange;
use tracing::Span;

impl Exchange<'_> {
    /// A span that adds client, route and the node asked last to the lines that are logged in it. Making one takes more
    /// than a request may cost: [`crate::log_for!`] makes it for a line that is logged, and for no other.
    #[must_use]
    pub fn log_span(&self) -> Span {
        tracing::error_span!(
            "exchange",
            client = %self.client.addr,
            route = self.route.map(|route| route.id.as_str()),
            upstream = self.upstream.addr.as_deref(),
        )
    }
}

/// Logs an event about an exchange: `log_for!(warn, exchange, plugin, "it can't {verb}")`. The level is one of `tracing`'s
/// macros, and what follows the exchange is what that macro takes. The line names client, route and upstream.
#[macro_export]
macro_rules! log_for {
    (error, $exchange:expr, $($event:tt)+) => { $crate::log_for!(@ ERROR, error, $exchange, $($event)+) };
    (warn, $exchange:expr, $($event:tt)+) => { $crate::log_for!(@ WARN, warn, $exchange, $($event)+) };
    (info, $exchange:expr, $($event:tt)+) => { $crate::log_for!(@ INFO, info, $exchange, $($event)+) };
    (@ $level:ident, $macro:ident, $exchange:expr, $($event:tt)+) => {
        if ::tracing::enabled!(::tracing::Level::$level) {
            $exchange.log_span().in_scope(|| ::tracing::$macro!($($event)+));
        }
    };
}
