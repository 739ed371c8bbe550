//! Who answers: an upstream, a response kept from before, files, an API of this process, or the gateway itself.

use super::body::RequestBody;
use super::limits;
use crate::config::Mount;
use crate::error::ProxyError;
use crate::link::Link;
use crate::services;
use files::Site;
use plugin::{Answer, Exchange, KeptResponse, Reply, UpstreamChoice};
use snapshot::{Route, Snapshot, Upstream};
use std::borrow::Cow;
use std::sync::Arc;

/// Who answers a request.
pub(super) enum Origin<'s> {
    /// A node of an upstream.
    Upstream(&'s Route, Cow<'s, Arc<Upstream>>),
    /// A response that a plugin kept.
    Kept(&'s Arc<Route>, KeptResponse),
    /// Files of this machine.
    Files(&'s Route, &'s Site),
    /// The API on the data port.
    Mount(&'s Mount),
    /// A plugin, with a body that comes piece by piece.
    Answer(Box<Answer>),
    /// The gateway.
    Reply(Box<Reply>),
    /// Nobody: the client left before one was chosen.
    Nobody(ProxyError),
}

impl Origin<'_> {
    pub(super) fn reply(reply: Reply) -> Self {
        Self::Reply(Box::new(reply))
    }
}

/// Who answers a request that no plugin answered.
pub(super) fn choose<'s>(
    link: &Link<'s>,
    snapshot: &Snapshot,
    route: Option<&'s Arc<Route>>,
    exchange: &Exchange<'_>,
) -> Origin<'s> {
    match (route, &link.config.mount) {
        (Some(route), _) if let Some(kept) = kept(exchange) => Origin::Kept(route, kept),
        (Some(route), _) => match upstream(snapshot, route, exchange) {
            // The resource that a plugin names is gone.
            None if let Some(UpstreamChoice::Id(id)) = chosen(exchange) => {
                let message = format!("failed to fetch upstream info by upstream id: {id}");
                Origin::reply(Reply::text(500, message))
            }
            Some(upstream) if upstream.scheme.is_http() => Origin::Upstream(route, upstream),
            // Written into the store by others: what is meant to be encrypted is not sent in the clear.
            Some(upstream) => {
                tracing::error!(
                    route = route.info.id,
                    scheme = upstream.scheme.as_str(),
                    "scheme not spoken yet"
                );
                Origin::reply(Reply::status(502))
            }
            None if let Some(site) = &route.site => Origin::Files(route, site),
            // A route that goes nowhere, and no plugin of it answered.
            None => Origin::reply(Reply::status(route.status_without_upstream())),
        },
        (None, Some(mount)) => Origin::Mount(mount),
        (None, None) => Origin::reply(Reply::error(404, "404 Route Not Found")),
    }
}

/// The answer to a request whose head announces a longer body than is accepted. For the time when plugins have had their
/// say: until then none may be refused that they accept.
#[inline]
pub(super) fn refusal(body: &mut RequestBody<'_>, exchange: &Exchange<'_>) -> Option<Origin<'static>> {
    if let Some(limit_bytes) = limits::body_bytes_max(exchange) {
        body.limit = limit_bytes;
    }
    body.too_large().then(|| Origin::reply(Reply::status(413)))
}

/// The upstream that a plugin chose for the request, else the route's.
fn upstream<'s>(
    snapshot: &Snapshot,
    route: &'s Route,
    exchange: &Exchange<'_>,
) -> Option<Cow<'s, Arc<Upstream>>> {
    match chosen(exchange) {
        None => route.upstream.as_ref().map(Cow::Borrowed),
        Some(choice) => services::chosen(choice, snapshot).map(Cow::Owned),
    }
}

fn kept(exchange: &Exchange<'_>) -> Option<KeptResponse> {
    exchange.extras.as_ref()?.kept.clone()
}

fn chosen<'x>(exchange: &'x Exchange<'_>) -> Option<&'x UpstreamChoice> {
    exchange.extras.as_ref()?.upstream.as_ref()
}
