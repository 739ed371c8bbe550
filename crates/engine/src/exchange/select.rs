//! Which route a request matches. First, because everything after depends on it.

use super::body::RequestBody;
use crate::connection::Link;
use plugin::{Exchange, Reply};
use snapshot::{Route, Snapshot};
use std::sync::Arc;

/// The route that `exchange` matches, noted in it; or the answer to a request that matches none.
pub(super) fn route<'s>(
    link: &Link<'_>,
    snapshot: &'s Arc<Snapshot>,
    valid_path: bool,
    body: &RequestBody<'_>,
    exchange: &mut Exchange<'s>,
) -> Result<Option<&'s Arc<Route>>, Reply> {
    if !valid_path {
        return Err(Reply::status(400));
    }
    if body.too_large() {
        return Err(Reply::status(413));
    }
    if let Some(peer) = &link.client.tls {
        admit(peer, snapshot, exchange)?;
    }
    if mounted(link, exchange) {
        return Ok(None);
    }
    match snapshot.router.find(exchange) {
        Some(found) => {
            exchange.route = Some(&found.payload.info);
            exchange.matched_uri = found.path;
            exchange.matched_host = found.host.unwrap_or_default();
            match found.payload.refusal() {
                Some(status) => Err(Reply::status(status)),
                None => Ok(Some(found.payload)),
            }
        }
        None => Err(Reply::error(404, "404 Route Not Found")),
    }
}

/// Refuses a request that its client, or the name by which it came, does not entitle it to.
#[inline(never)]
fn admit(peer: &tls::Peer, snapshot: &Snapshot, exchange: &Exchange<'_>) -> Result<(), Reply> {
    if !peer.site.asks_clients() && !snapshot.tls.ask_clients() {
        return Ok(());
    }
    let host = std::str::from_utf8(&exchange.request.host).unwrap_or_default();
    let wanted = snapshot.tls.find(host).map(|site| &**site);
    peer.admits(host, &exchange.request.path, wanted).map_err(|why| {
        tracing::error!(client = %exchange.client.addr, "{why}");
        Reply::status(400)
    })
}

/// Whether the request is for the API that the process itself serves on the data port, and the client may see it.
fn mounted(link: &Link<'_>, exchange: &Exchange<'_>) -> bool {
    link.config.mount.as_ref().is_some_and(|mount| {
        exchange.request.path.starts_with(mount.prefix.as_bytes())
            && (!mount.loopback_only || link.client.ip().is_loopback())
    })
}
