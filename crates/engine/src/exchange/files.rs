//! Files as the origin: what `crates/files` answers, sent to the client.

use super::After;
use super::body::RequestBody;
use super::client_head::{ClientHead, Fields};
use super::progress::Upload;
use super::respond::{self, Message, Rest};
use super::transmit::Way;
use crate::link::Link;
use files::{Answer, Body, Outcome, Query, Site};
use plugin::{Exchange, Reply, Request, UpstreamResponse};
use snapshot::Route;
use wire::Framing;
use wire::Method;
use wire::conditional::Conditions;

/// Answers with a file of `site`.
pub(super) async fn answer(
    link: &mut Link<'_>,
    message: &mut Message<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    route: &Route,
    site: &Site,
) -> After {
    let found = match exchange.request.view.head.facts.method {
        Method::Get | Method::Head => find(link, exchange, site).await,
        _ => {
            exchange.reply_headers.set("Allow", "GET, HEAD");
            link.worker.files.borrow_mut().page(site, 405)
        }
    };
    let answer = match found {
        Ok(answer) => answer,
        Err(error) => {
            tracing::error!(route = route.info.id, root = %site.folder().display(), %error, "files can't be read");
            let page = link.worker.files.borrow_mut().page(site, 500);
            page.unwrap_or_else(|_| Answer::status(500))
        }
    };
    if answer.status != 200 && matches!(answer.body, Body::None) && answer.status != 304 {
        // Statuses without a page of their own get the gateway's.
        let mut reply = Reply::status(answer.status);
        for (name, value) in answer.fields.iter() {
            reply = reply.with_header(name, value);
        }
        return respond::reply(link, message, body, Some(route), exchange, &reply).await;
    }
    send(link, message, body, exchange, route, &answer).await
}

/// Asks for the file; a long one is compressed on another thread first.
async fn find(link: &Link<'_>, exchange: &Exchange<'_>, site: &Site) -> std::io::Result<Answer> {
    let worker = link.worker;
    let now_ms = worker.clock.now_ms();
    let query = query(&exchange.request);
    // Kept short: nothing else of the worker runs between asking and the answer.
    let asked = worker.files.borrow_mut().answer(site, &query, now_ms, true)?;
    match asked {
        Outcome::Answer(answer) => Ok(answer),
        Outcome::Job(job) => {
            let compressed = tokio::task::spawn_blocking(move || job.run()).await;
            if let Ok(Err(error)) = compressed {
                tracing::warn!(%error, "a file could not be compressed");
            }
            match worker.files.borrow_mut().answer(site, &query, now_ms, false)? {
                Outcome::Answer(answer) => Ok(answer),
                // Never given to who does not wait.
                Outcome::Job(_) => Err(std::io::ErrorKind::WouldBlock.into()),
            }
        }
    }
}

fn query<'q>(request: &'q Request<'_>) -> Query<'q> {
    let target = request.target();
    let query = memchr::memchr(b'?', target).map_or(&[][..], |at| &target[at..]);
    Query {
        path: &request.path,
        query,
        accept_encoding: request.header(b"accept-encoding"),
        conditions: Conditions::of(request.view.head.facts.method, |name| request.header(name)),
    }
}

/// Sends the head and, but for HEAD, the body.
async fn send(
    link: &mut Link<'_>,
    message: &mut Message<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    route: &Route,
    answer: &Answer,
) -> After {
    let rest = respond::rest(body, exchange);
    exchange.status = answer.status;
    let hooks = UpstreamResponse::default();
    respond::run_hooks(link.worker, message.snapshot, Some(&route.chain), exchange, hooks);
    let keep_alive = rest != Rest::Much && respond::keeps_alive(link.worker, link.config, exchange);
    let framing = match exchange.is_bodiless() {
        true => Framing::None,
        false => Framing::Exact(answer.body.length()),
    };
    let head = ClientHead { fields: Fields::File(answer), framing, keep_alive };
    let begun = head.begin(link.worker, exchange, link.stream.http2(), message.out);
    let segments = if exchange.is_bodiless() { &[] } else { answer.body.segments() };
    let (_, mut client) = link.stream.split();
    let upload = Upload::done();
    let mut way = Way::new((link.worker, link.config, link.timer), &mut client, &upload);
    let sent = match begun {
        Ok(()) => way.transmit(message.out, segments).await,
        Err(error) => Err(error),
    };
    exchange.timing.sent_bytes += message.out.len() as u64;
    match sent {
        Ok(bytes) => {
            exchange.timing.sent_bytes += bytes;
            exchange.timing.sent_body_bytes = bytes;
            respond::after_reply(body, keep_alive, rest)
        }
        Err(error) => {
            tracing::info!(client = %link.client.addr, %error, "a file was not sent whole");
            After::Closed
        }
    }
}
