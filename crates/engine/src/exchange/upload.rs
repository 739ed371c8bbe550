//! A request's body on its way to the upstream, while the response may come already.

use super::body::RequestBody;
use super::client_head::send_continue;
use super::ends::Ends;
use super::job::Job;
use super::limits;
use super::outcome;
use super::outcome::RelayOutcome;
use super::progress::Upload;
use super::pump;
use super::request_pump::{self, Pace};
use super::transmit::Way;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io;
use crate::link::Link;
use crate::upstream::Connection;
use plugin::{BodyFilters, Exchange};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use stdx::Moment;

/// Gives the body the filters that plugins want it to pass, and waits for its first byte, so that a client that announces one and stays silent holds no connection to an
/// upstream.
///
/// Not for HTTP/2: a gRPC client may wait for the response's head before it sends its first message. HTTP/1.1 clients get
/// no response before they have begun to send: APISIX doesn't connect either before it has the whole body.
pub(super) async fn begin(
    link: &mut Link<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
) -> Result<(), ProxyError> {
    if let Some(filters) = exchange.take_request_filters() {
        filter(link, body, exchange, filters).await?;
    }
    if exchange.request.view.head.facts.http2 || body.has_begun() {
        return Ok(());
    }
    if exchange.request.view.head.facts.expects_continue {
        send_continue(link).await?;
    }
    let timeout = limits::body_timeout(link.config.client.body_timeout, exchange);
    body.begin(link.stream, link.timer.within(timeout)).await?;
    exchange.upstream.started = Moment::now();
    Ok(())
}

/// Has the body pass `filters` while it is sent. One that a plugin has replaced is in memory, and passes them now.
async fn filter(
    link: &mut Link<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    filters: BodyFilters,
) -> Result<(), ProxyError> {
    let Some(replaced) = exchange.request.edits.as_ref().and_then(|edits| edits.body.clone()) else {
        if filters.change_anything() {
            exchange.request.edit().body_changes = true;
        }
        body.filters = Some(Box::new(filters));
        return Ok(());
    };
    let (_, mut client) = link.stream.split();
    let upload = Upload::done();
    let mut way = Way::new((link.worker, link.config, link.timer), &mut client, &upload);
    let made = pump::whole(&mut way, exchange, filters, &replaced, request_pump::refused).await?;
    exchange.request.edit().body = Some(made.into());
    Ok(())
}

/// Sends a head, and a body that is still coming while the response may come already.
pub(super) async fn both_ways(
    link: &mut Link<'_>,
    body: &mut RequestBody<'_>,
    job: &mut Job<'_, '_, '_>,
    connection: &mut Connection,
) -> Result<RelayOutcome, ProxyError> {
    let (worker, timer, timeouts) = (link.worker, link.timer, job.timeouts);
    let limit = timer.within(timeouts.send);
    let sent = io::write_all(&mut connection.stream, job.message.out, limit).await;
    sent.map_err(|error| ProxyError::io(Side::Upstream, &error).retriable())?;
    if job.exchange.request.view.head.facts.expects_continue && !body.has_begun() {
        send_continue(link).await?;
    }
    let upload = Upload::default();
    let pace = Pace {
        timer,
        now: worker.clock.now(),
        body_timeout: limits::body_timeout(link.config.client.body_timeout, job.exchange),
        send_timeout: timeouts.send,
        upload: &upload,
        request: job.exchange.request.view,
        vars: RefCell::default(),
    };
    let (mut client_read, mut client_write) = link.stream.split();
    let (mut upstream_read, mut upstream_write) = connection.stream.split();
    let mut sending = pin!(body.send(&mut client_read, &mut upstream_write, &pace));
    let way = Way::new((worker, link.config, timer), &mut client_write, &upload);
    let mut ends = Ends { way, upstream: &mut upstream_read };
    let mut cut = None;
    let delivered = {
        let mut delivery = pin!(ends.deliver(job, false));
        poll_fn(|cx| {
            // The upload first: it says when the response's time begins.
            if !upload.over.get()
                && let Poll::Ready(sent) = sending.as_mut().poll(cx)
            {
                upload.over.set(true);
                match sent {
                    Ok(()) => upload.sent.set(true),
                    Err(error) if is_the_end(&error, upload.answering.get()) => {
                        cut = Some(error);
                        return Poll::Ready(Err(error));
                    }
                    // The upstream stopped listening, or has answered already: its response decides.
                    Err(_) => {}
                }
            }
            delivery.as_mut().poll(cx)
        })
        .await
    };
    job.exchange.vars.append(&mut pace.vars.borrow_mut());
    match cut {
        Some(error) if upload.answering.get() => {
            job.exchange.upstream.time = Some(job.exchange.upstream.started.elapsed());
            Ok(outcome::cut_off(job.exchange, &error))
        }
        _ => delivered,
    }
}

/// Whether an upload that failed ends the exchange. Once there is a response, only a client that has fallen silent while
/// nothing of the response came either does: what it sent later would be lost.
fn is_the_end(error: &ProxyError, answering: bool) -> bool {
    match (error.side, error.kind) {
        (Side::Client, ErrorKind::Timeout) => true,
        (Side::Client | Side::Gateway, _) | (_, ErrorKind::Timeout) => !answering,
        _ => false,
    }
}
