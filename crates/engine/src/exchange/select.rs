//! Which route a request matches. First, because everything after depends on it.

use super::ahead;
use super::body::RequestBody;
use crate::error::ProxyError;
use crate::link::Link;
use model::var::BodyNeed;
use plugin::{BodyVars, Exchange, HeldBytes, Reply};
use snapshot::{Route, Snapshot};
use std::sync::Arc;

/// The route of a request, `None` where it is for an API of the process; or the answer to one that has no route, boxed,
/// because it is much larger and seldom there.
type Selected<'s> = Result<Option<&'s Arc<Route>>, Box<Reply>>;

/// The route that the request matches, or the answer to one that matches none. `None` where a condition looks at the
/// body, which has to be read first: see [`with_body`].
#[inline]
pub(super) fn at_once<'s>(
    link: &Link<'_>,
    snapshot: &'s Arc<Snapshot>,
    valid_path: bool,
    body: &RequestBody<'_>,
    exchange: &mut Exchange<'s>,
) -> Option<Selected<'s>> {
    if !snapshot.router.body_need().is_none() {
        return None;
    }
    let selected = route(link, snapshot, valid_path, body, exchange);
    let looks = matches!(selected, Ok(Some(route)) if !of_plugins(snapshot, route).is_none());
    (!looks).then_some(selected)
}

/// The same, and with it the body where conditions look at it: those of any route before the choice, those of the plugins
/// after it. Or the answer to a request that can't be read.
pub(super) async fn with_body<'s>(
    link: &mut Link<'_>,
    snapshot: &'s Arc<Snapshot>,
    valid_path: bool,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'s>,
) -> Selected<'s> {
    let of_routes = snapshot.router.body_need();
    look_ahead(link, of_routes, body, exchange).await?;
    let route = route(link, snapshot, valid_path, body, exchange)?;
    if let Some(route) = route {
        let all = of_routes.or(of_plugins(snapshot, route));
        if all != of_routes {
            look_ahead(link, all, body, exchange).await?;
        }
    }
    Ok(route)
}

/// What the conditions of the plugins that may run look at.
#[inline]
fn of_plugins(snapshot: &Snapshot, route: &Route) -> BodyNeed {
    snapshot.global.body_need().or(snapshot.consumer_plugins.body_need()).or(route.chain.body_need())
}

/// Reads the body where it is needed; what was read of it before is read again, and still sent.
async fn look_ahead(
    link: &mut Link<'_>,
    need: BodyNeed,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
) -> Result<(), Box<Reply>> {
    if need.is_none() || mounted(link, exchange) || body.too_large() {
        return Ok(());
    }
    let result = read(link, need, body, exchange).await;
    result.map_err(|error| Box::new(ahead::refusal(error, exchange)))
}

async fn read(
    link: &mut Link<'_>,
    need: BodyNeed,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
) -> Result<(), ProxyError> {
    let limits = link.config.body_vars;
    let content_type = exchange.request.header(b"content-type");
    // A body that nothing can be found in streams, whatever its size.
    let fields = need.fields && content_type.is_some_and(BodyVars::has_fields);
    let graphql = need.graphql && exchange.request.method() == b"POST";
    let most = match (fields, graphql) {
        (true, true) => limits.fields.max(limits.graphql),
        (true, false) => limits.fields,
        (false, true) => limits.graphql,
        (false, false) => 0,
    };
    if most == 0 || body.is_done() {
        ahead::note(link, exchange, None, 0, HeldBytes::of_request());
        return Ok(());
    }
    ahead::read(link, body, exchange, most).await
}

/// The route that `exchange` matches, noted in it; or the answer to a request that matches none.
fn route<'s>(
    link: &Link<'_>,
    snapshot: &'s Arc<Snapshot>,
    valid_path: bool,
    body: &RequestBody<'_>,
    exchange: &mut Exchange<'s>,
) -> Selected<'s> {
    if !valid_path {
        return Err(refused(400));
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
                Some(status) => Err(refused(status)),
                None => Ok(Some(found.payload)),
            }
        }
        // Whoever matches no route meets the configuration's limit, and the others those of their plugins.
        None if body.too_large() => Err(refused(413)),
        None => Err(Box::new(Reply::error(404, "404 Route Not Found"))),
    }
}

#[cold]
fn refused(status: u16) -> Box<Reply> {
    Box::new(Reply::status(status))
}

/// Refuses a request that its client, or the name by which it came, does not entitle it to.
#[inline(never)]
fn admit(peer: &tls::Peer, snapshot: &Snapshot, exchange: &Exchange<'_>) -> Result<(), Box<Reply>> {
    if !peer.site.asks_clients() && !snapshot.tls.ask_clients() {
        return Ok(());
    }
    let host = std::str::from_utf8(&exchange.request.host).unwrap_or_default();
    let wanted = snapshot.tls.find(host).map(|site| &**site);
    peer.admits(host, &exchange.request.path, wanted).map_err(|why| {
        tracing::error!(client = %exchange.client.addr, "{why}");
        refused(400)
    })
}

/// Whether the request is for the API that the process itself serves on the data port, and the client may see it.
fn mounted(link: &Link<'_>, exchange: &Exchange<'_>) -> bool {
    link.config.mount.as_ref().is_some_and(|mount| {
        exchange.request.path.starts_with(mount.prefix.as_bytes())
            && (!mount.loopback_only || link.client.ip().is_loopback())
    })
}
