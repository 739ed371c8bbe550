//! One request and its response. [`run`] tells the story; each step is a file of this folder.

mod ahead;
mod background;
mod body;
mod body_flow;
mod client_head;
mod download;
mod ends;
mod files;
mod finish;
mod job;
mod limits;
mod mount;
mod origin;
mod outcome;
mod partial;
mod phases;
mod progress;
mod pump;
mod refuse;
mod relay;
mod replay;
mod request_head;
mod request_pump;
mod respond;
mod response_head;
mod rewritten;
mod select;
mod streamed;
mod transmit;
mod upload;
mod wait;

pub(crate) use refuse::refuse;
pub(crate) use request_head::forwarded_lines;

use crate::buffers::Scratch;
use crate::link::Link;
use body::RequestBody;
use origin::Origin;
use plugin::{ClientView, Exchange, HeaderEdits, Request, Surroundings};
use snapshot::Snapshot;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use wire::{RequestHead, RequestView};

/// What becomes of the connection after an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The next request; so many bytes at the end of the buffer belong to it already.
    Next { unread: usize },
    /// The next request, after the rest of this one's body: only the connection waits for that, the exchange is over.
    Drain,
    /// It is closed, and what the client still sends is thrown away first.
    Linger,
    /// It is closed.
    Closed,
}

/// Withdraws the fields in which a peer outside of `trusted_addresses` says for whom it speaks, before routes and plugins see
/// them. As in APISIX, `X-Forwarded-For` stays where no address is trusted: the client's address is added to it. Fields with
/// underscores go where the configuration says so.
#[inline]
fn withdraw_untrusted(link: &Link<'_>, head: &mut RequestHead, bytes: &[u8]) {
    if head.facts.forwarded && !link.trusted {
        head.withdraw_forwarded(!link.config.trusted_addresses.is_empty());
    }
    if link.config.drops_underscores {
        drop_underscores(head, bytes);
    }
}

/// Drops the fields that applications may take for others: CGI turns hyphens into underscores.
#[cold]
fn drop_underscores(head: &mut RequestHead, bytes: &[u8]) {
    head.fields.retain(|field| !field.name.get(bytes).contains(&b'_'));
}

/// Runs one exchange, from a complete request head to the log.
pub(crate) async fn run(link: &mut Link<'_>, scratch: &mut Scratch) -> After {
    let worker = link.worker;
    // The snapshot is kept for the whole exchange: a change in between concerns the next request.
    let snapshot = worker.snapshot();
    scratch.fit_for_upgrade();
    let Scratch { input, filled, head, response, out, reply_headers } = scratch;
    withdraw_untrusted(link, head, input);
    let (bytes, rest) = input.split_at_mut(head.length);
    let mut body =
        RequestBody::new(rest, *filled - head.length, &head.facts, link.config.client.max_body_bytes);
    let view = RequestView { head, bytes };
    let (path, route_path) = link.config.paths.apply(head.path.get(bytes), view.normal_path());
    let (path, valid_path) = path.map_or_else(|| (Cow::default(), false), |path| (path, true));
    // No variable of its own: the future would keep room for it.
    let mut exchange = begin(link, &snapshot, Request::new(view, path, view.host()), reply_headers);
    route_path.into_iter().for_each(|path| exchange.request.set_route_path(path));
    worker.context.metrics.connections.requested(&worker.token);
    let selected = match select::at_once(link, &snapshot, valid_path, &body, &mut exchange) {
        Some(selected) => selected,
        None => Box::pin(select::with_body(link, &snapshot, valid_path, &mut body, &mut exchange)).await,
    };
    // Plugins may answer themselves, before anything is sent upstream.
    let route = selected.as_ref().ok().copied().flatten();
    let origin = match selected {
        Ok(route) => {
            let mut walk = phases::Walk::new(worker, &snapshot, route.map(|route| &route.chain));
            // An API of the process itself has no route, and no plugin stands before it.
            let settled = match route.map(|_| walk.run(&mut exchange)) {
                Some(ControlFlow::Break(stop)) => walk.settle(stop, link, &mut body, &mut exchange).await,
                _ => None,
            };
            settled
                .or_else(|| origin::refusal(&mut body, &exchange))
                .unwrap_or_else(|| origin::choose(link, &snapshot, route, &exchange))
        }
        Err(reply) => phases::unrouted(link, &snapshot, reply, &mut body, &mut exchange).await,
    };
    // Whoever answers, the response leaves through one place, `respond`, where the response hooks run.
    let message = &mut respond::Message::new(&snapshot, response, out);
    let mut after = match origin {
        Origin::Upstream(route, upstream) => {
            relay::run(link, message, &mut body, &mut exchange, route, &upstream).await
        }
        Origin::Kept(route, kept) => {
            let sent = Box::pin(replay::answer(link, message, &mut body, &mut exchange, route, &kept)).await;
            background::start(link, &snapshot, route, &mut exchange);
            sent
        }
        Origin::Files(route, site) => {
            Box::pin(files::answer(link, message, &mut body, &mut exchange, route, site)).await
        }
        Origin::Mount(mount) => Box::pin(mount::answer(link, message, &mut body, &mut exchange, mount)).await,
        Origin::Answer(answer) => {
            Box::pin(streamed::answer(link, message, &mut body, &mut exchange, route, *answer)).await
        }
        Origin::Reply(reply) => {
            respond::reply(link, message, &mut body, route.map(Arc::as_ref), &mut exchange, &reply).await
        }
        Origin::Nobody(error) => respond::give_up(&mut exchange, &error),
    };
    finish::record(worker, &snapshot, route, &body, &mut exchange);
    if after == After::Drain {
        after = Box::pin(respond::drain(link, &mut body)).await;
    }
    exchange.reply_headers.clear();
    scratch.filled = exchange.request.view.head.length + body.give_back();
    after
}

/// The exchange of `request`, with what the worker and its connection bring. Inlined, like what it calls.
#[inline(always)]
fn begin<'e>(
    link: &Link<'e>,
    snapshot: &'e Snapshot,
    request: Request<'e>,
    reply_headers: &'e mut HeaderEdits,
) -> Exchange<'e> {
    let surroundings = Surroundings {
        gateway: &link.config.gateway,
        worker: &link.worker.token,
        services: &link.worker.services,
        consumers: &snapshot.consumers,
        request_number: link.number,
    };
    Exchange::new(request, reply_headers, ClientView::Connected(link.client), surroundings)
}
