//! A request's body on its way to the upstream, while the response may come already.

use super::body::RequestBody;
use super::client_head::send_continue;
use super::download;
use super::outcome::RelayOutcome;
use super::relay::Job;
use super::{limits, rewritten};
use crate::clock::{Now, after_ms};
use crate::connection::Link;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io;
use crate::timer::{TimeLimit, Timer};
use crate::upstream::Connection;
use plugin::Exchange;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use stdx::Moment;

/// What the two directions of an exchange have to know of each other.
#[derive(Debug, Default)]
pub(super) struct Upload {
    /// Whether all of the request's body was sent.
    pub(super) sent: Cell<bool>,
    /// Whether nothing more is sent. Only then is it the upstream that the gateway waits for.
    pub(super) over: Cell<bool>,
    /// Whether the response's final head is on its way: from then on nothing else can be answered.
    pub(super) answering: Cell<bool>,
    /// When something of the response last came, in worker time.
    pub(super) answered_ms: Cell<u64>,
    /// How long the upstream had to wait for the client: for its body, and until it took the response.
    pub(super) client_wait: Cell<Duration>,
}

/// How long an upload may make no progress.
pub(super) struct Pace<'p> {
    pub(super) timer: &'p Timer,
    pub(super) now: Now,
    /// Between two reads.
    pub(super) body_timeout: Duration,
    /// Between two writes.
    pub(super) send_timeout: Duration,
    pub(super) upload: &'p Upload,
}

impl<'p> Pace<'p> {
    /// Whether the response has moved within the time that a client may be silent.
    pub(super) fn is_answered(&self) -> bool {
        let ends_at_ms = after_ms(self.upload.answered_ms.get(), self.body_timeout);
        self.upload.answering.get() && self.now.ms() < ends_at_ms
    }

    /// The time of a client that was silent beside its answer.
    pub(super) fn after_answer(&self) -> TimeLimit<'p> {
        self.timer.by(after_ms(self.upload.answered_ms.get(), self.body_timeout))
    }
}

impl Upload {
    /// That of a request that has been sent whole.
    pub(super) fn done() -> Self {
        Self { sent: Cell::new(true), over: Cell::new(true), ..Self::default() }
    }

    /// Completes `operation`, for which the upstream has to wait. The clock is read only if that is pending.
    pub(super) async fn delay<F: Future>(&self, operation: F) -> F::Output {
        let mut operation = pin!(operation);
        let mut since = None;
        poll_fn(|cx| {
            let polled = operation.as_mut().poll(cx);
            self.note_wait(&mut since, polled.is_ready());
            polled
        })
        .await
    }

    /// Takes note that an operation for which the upstream has to wait was polled.
    #[inline]
    pub(super) fn note_wait(&self, since: &mut Option<Moment>, ready: bool) {
        match (*since, ready) {
            (None, false) => *since = Some(Moment::now()),
            (Some(since), true) => self.client_wait.set(self.client_wait.get() + since.elapsed()),
            _ => {}
        }
    }
}

/// Waits for the first byte of a body, so that a client that announces one and stays silent holds no connection to an
/// upstream.
///
/// Not for HTTP/2: a gRPC client may wait for the response's head before it sends its first message. HTTP/1.1 clients get
/// no response before they have begun to send: APISIX doesn't connect either before it has the whole body.
pub(super) async fn begin(
    link: &mut Link<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
) -> Result<(), ProxyError> {
    if exchange.request.view.head.facts.http2 {
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
    };
    let (mut client_read, mut client_write) = link.stream.split();
    let (mut upstream_read, mut upstream_write) = connection.stream.split();
    let mut sending = pin!(body.send(&mut client_read, &mut upstream_write, &pace));
    let mut ends = download::Ends {
        worker,
        config: link.config,
        timer,
        client: &mut client_write,
        watches: true,
        upstream: &mut upstream_read,
        buffers: &worker.buffers,
        upload: &upload,
    };
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
    match cut {
        Some(error) if upload.answering.get() => {
            job.exchange.upstream.time = Some(job.exchange.upstream.started.elapsed());
            Ok(rewritten::cut_off(job.exchange, &error))
        }
        _ => delivered,
    }
}

/// Whether an upload that failed ends the exchange. Once there is a response, only a client that has fallen silent while
/// nothing of the response came either does: what it sent later would be lost.
fn is_the_end(error: &ProxyError, answering: bool) -> bool {
    match (error.side, error.kind) {
        (Side::Client, ErrorKind::Timeout) => true,
        (Side::Client, _) | (_, ErrorKind::Timeout) => !answering,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    #[test]
    fn time_that_an_upstream_waits_for_the_client_is_not_its_own() {
        let upload = Upload::default();
        let ready = Cell::new(true);
        let operation = || poll_fn(|_| if ready.get() { Poll::Ready(()) } else { Poll::Pending });
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(upload.delay(operation())).poll(&mut cx).is_ready());
        assert_eq!(upload.client_wait.get(), Duration::ZERO);
        ready.set(false);
        let mut slow = pin!(upload.delay(operation()));
        assert!(slow.as_mut().poll(&mut cx).is_pending());
        let since = Moment::now();
        while since.elapsed() < Duration::from_millis(2) {
            assert!(slow.as_mut().poll(&mut cx).is_pending());
        }
        ready.set(true);
        assert!(slow.as_mut().poll(&mut cx).is_ready());
        assert!(upload.client_wait.get() >= Duration::from_millis(2));
    }
}
