//! What relaying a response leaves behind: of the response, and of both connections.

use crate::error::{ErrorKind, ProxyError, Side};
use plugin::Exchange;

/// How relaying a response ended, and what may become of both connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RelayOutcome {
    /// The client got all of it.
    Completed {
        /// Whether the client's connection may carry another request.
        client_keeps: bool,
        upstream: UpstreamReuse,
    },
    /// The upstream switched protocols, and the client got the head that says so: neither connection speaks HTTP any
    /// longer.
    Switched,
    /// Broken off after the head was sent: only closing the client's connection can tell it so.
    Aborted,
}

impl RelayOutcome {
    pub(super) fn of(complete: bool, switches: bool, client_keeps: bool, upstream: UpstreamReuse) -> Self {
        match complete {
            false => Self::Aborted,
            true if switches => Self::Switched,
            true => Self::Completed { client_keeps, upstream },
        }
    }
}

/// Whether an upstream's connection may carry another request, as far as its response decides that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpstreamReuse {
    /// The next byte that it sends begins a response.
    Reusable,
    /// Its state is unknown, or it closes.
    Dirty,
}

impl UpstreamReuse {
    pub(super) fn when(reusable: bool) -> Self {
        if reusable { Self::Reusable } else { Self::Dirty }
    }
}

/// Returns whether an upstream's response switches protocols.
///
/// # Errors
/// Where it does and plugins have made another status of it: the client would not speak the other protocol, and nothing
/// else can be spoken with the upstream.
#[inline]
pub(super) fn check_switch(upstream: u16, client: u16) -> Result<bool, ProxyError> {
    if upstream == 101 && client != 101 {
        let changed = "a plugin changed the status of 101 Switching Protocols";
        return Err(ProxyError::new(Side::Upstream, ErrorKind::Protocol, changed));
    }
    Ok(upstream == 101)
}

/// Notes why a response broke off that had begun.
pub(super) fn cut_off(exchange: &mut Exchange<'_>, error: &ProxyError) -> RelayOutcome {
    let (client, upstream) = (&exchange.client.addr, exchange.upstream.addr());
    let route = exchange.route.map_or("", |route| route.id.as_str());
    let said = format_args!("{:?}: {}, the response is cut off", error.side, error.reason);
    match error.side {
        Side::Upstream | Side::Gateway => tracing::error!(%client, upstream, route, "{said}"),
        // That clients leave is no fault of ours or of the operator's.
        Side::Client => tracing::info!(%client, upstream, route, "{said}"),
    }
    exchange.upstream.broke_off = error.side == Side::Upstream;
    RelayOutcome::Aborted
}
