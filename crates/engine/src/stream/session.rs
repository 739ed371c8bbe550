//! What TCP and UDP sessions have in common: their route, its hooks, their end.

use super::limits::PREREAD_MAX;
use crate::services;
use crate::worker::Worker;
use plugin::{Chain, Client, Session, StreamFlow};
use snapshot::{Snapshot, StreamFacts, StreamRoute, Upstream};
use std::sync::Arc;
use tls::Verdict;

/// How a session ended that was relayed: nginx's numbers for `$status` of streams.
pub(super) const DONE: u16 = 200;
/// The client did not send what was waited for.
pub(super) const BAD_CLIENT: u16 = 400;
/// The client may not.
pub(super) const FORBIDDEN: u16 = 403;
/// There is no route, or nothing behind it.
pub(super) const NO_ROUTE: u16 = 500;
/// No node could be reached.
pub(super) const BAD_UPSTREAM: u16 = 502;

/// The route for a client.
pub(super) fn route<'s>(snapshot: &'s Snapshot, client: &Client) -> Option<&'s Arc<StreamRoute>> {
    let found = snapshot.streams.find(StreamFacts {
        client: client.ip(),
        local: client.local,
        server_name: client.tls.as_ref().map(|peer| &*peer.server_name),
    });
    if found.is_none() {
        tracing::info!(client = %client.addr, server = %client.local, "no stream route matches");
    }
    found
}

/// Whether a client that speaks TLS has shown what its site asks for.
pub(super) fn is_verified(client: &Client) -> bool {
    let Some(peer) = client.tls.as_ref().filter(|peer| peer.site.asks_clients()) else { return true };
    match &peer.verdict {
        Verdict::Success => return true,
        Verdict::None => tracing::error!(client = %client.addr, "client certificate was not present"),
        failed @ Verdict::Failed(_) => {
            let reason = failed.text();
            tracing::error!(client = %client.addr, "client certificate verification is not passed: {reason}");
        }
    }
    false
}

/// A walk through the preread hooks of a chain, which goes on where it stopped.
#[derive(Default)]
pub(super) struct Walk {
    next: usize,
}

impl Walk {
    /// Runs hooks until one does not let the session go on at once: what it wants. `None`: all have run.
    pub(super) fn run(
        &mut self,
        chain: &Chain,
        session: &mut Session<'_>,
        bytes: &[u8],
    ) -> Option<StreamFlow> {
        while let Some(step) = chain.preread.get(self.next) {
            let admitted = step.meta.as_ref().is_none_or(|meta| meta.admits_session(session));
            let flow = if admitted { step.hook.preread(session, bytes) } else { StreamFlow::Next };
            match flow {
                StreamFlow::Next => {}
                StreamFlow::More if bytes.len() < PREREAD_MAX => return Some(flow),
                StreamFlow::More => return Some(StreamFlow::Refuse(BAD_CLIENT)),
                StreamFlow::Refuse(status) => {
                    let (plugin, client) = (&*step.def.name, &session.client.addr);
                    tracing::warn!(plugin, %client, "a session is refused with status {status}");
                    return Some(flow);
                }
                StreamFlow::Wait(_) => {
                    self.next += 1;
                    return Some(flow);
                }
            }
            self.next += 1;
        }
        None
    }
}

/// The upstream that a plugin chose, else the route's.
pub(super) fn upstream(
    snapshot: &Snapshot,
    route: &StreamRoute,
    session: &Session<'_>,
) -> Option<Arc<Upstream>> {
    let found = match &session.extras.upstream {
        None => route.upstream.clone(),
        Some(choice) => services::chosen(choice, snapshot),
    };
    if found.is_none() {
        tracing::error!(stream_route = route.info.id, "the session's upstream does not exist");
    }
    found
}

/// Records a session that is over.
pub(super) fn record(worker: &Worker, route: Option<&StreamRoute>, session: &mut Session<'_>) {
    session.total = session.started.elapsed();
    for step in route.iter().flat_map(|route| &route.chain.stream_log) {
        step.hook.log_stream(session);
    }
    if let Some(log) = &worker.config.borrow().streams.access_log {
        log.record(&worker.token, &*session, worker.clock.unix_ms());
    }
}
