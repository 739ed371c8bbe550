//! The pump of a request's body: from the client, past taps and through filters, into its framing and to the upstream.
//! Nothing more is read of the client while a filter waits or the upstream takes nothing.

use super::body::RequestBody;
use super::progress::Upload;
use super::pump::{self, poll_filters};
use crate::clock::{Now, after_ms};
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io::{self, Sink, Source};
use crate::services::PLUGIN_WAIT_MAX;
use crate::timer::{TimeLimit, Timer};
use plugin::{BodyView, Rejected};
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use wire::{BodyLength, Framing, RequestView};

/// How long an upload may make no progress.
pub(super) struct Pace<'p> {
    pub(super) timer: &'p Timer,
    pub(super) now: Now,
    /// Between two reads.
    pub(super) body_timeout: Duration,
    /// Between two writes.
    pub(super) send_timeout: Duration,
    pub(super) upload: &'p Upload,
    /// The head of the request, for filters.
    pub(super) request: RequestView<'p>,
    /// The variables that filters have set.
    pub(super) vars: RefCell<Vec<(String, Vec<u8>)>>,
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

impl RequestBody<'_> {
    /// Pumps the body from the client to the upstream until it ends, through its filters; framed as it came, where they
    /// don't change it.
    pub(super) async fn send<R, W>(
        &mut self,
        client: &mut R,
        upstream: &mut W,
        pace: &Pace<'_>,
    ) -> Result<(), ProxyError>
    where
        R: Source,
        W: Sink,
    {
        let framing = match self.length() {
            BodyLength::Exact(length) if !self.is_changed() => Framing::Exact(length),
            _ if upstream.is_framed() => Framing::Frames,
            _ => Framing::Chunked,
        };
        let failed = |error: std::io::Error| ProxyError::io(Side::Upstream, &error);
        let (mut read, mut out, mut trailers) = (Vec::new(), Vec::new(), Vec::new());
        let over = self.is_done();
        loop {
            out.clear();
            trailers.clear();
            self.sending = true;
            let ended = match self.filters {
                None => self.decode(&mut trailers, |data| framing.encode(data, &mut out))?,
                Some(_) => self.decode(&mut trailers, |data| read.extend_from_slice(data))?,
            };
            if self.decoded > self.limit {
                return Err(ProxyError::new(Side::Client, ErrorKind::TooLarge, "request body too large"));
            }
            if ended && !over && trailers.is_empty() {
                trailers = client.take_trailers();
            }
            if self.filters.is_some() {
                let passed = self.filter(client, pace, &read, ended.then_some(&mut trailers));
                framing.encode(&pace.upload.delay(passed).await?, &mut out);
                read.clear();
            }
            if ended && !over {
                framing.encode_end(&trailers, &mut out);
                upstream.end_after(out.len(), &trailers).map_err(failed)?;
            }
            let limit = pace.timer.within(pace.send_timeout);
            io::write_all(upstream, &out, limit).await.map_err(failed)?;
            self.sending = false;
            if ended {
                return Ok(());
            }
            pace.upload.delay(self.fill_at(client, pace)).await?;
        }
    }

    /// Passes a piece through the filters, the last one with the lines of the trailer section, and returns the result.
    async fn filter<R: Source>(
        &mut self,
        client: &R,
        pace: &Pace<'_>,
        piece: &[u8],
        mut over: Option<&mut Vec<u8>>,
    ) -> Result<Vec<u8>, ProxyError> {
        let mut made = Vec::new();
        let Some(filters) = &mut self.filters else { return Ok(made) };
        filters.write(piece, &mut made).map_err(|error| refused(&error))?;
        match over {
            None => filters.flush(&mut made).map_err(|error| refused(&error))?,
            Some(_) => filters.finish_taps(),
        }
        let (mut limit, mut watches) = (pace.timer.within(PLUGIN_WAIT_MAX), true);
        poll_fn(|cx| {
            let vars = &mut pace.vars.borrow_mut();
            let mut view = BodyView { request: pace.request, status: 0, vars };
            if let Poll::Ready(done) = poll_filters(filters, cx, &mut view, over.as_deref_mut(), &mut made) {
                return Poll::Ready(done.map_err(|error| refused(&error)));
            }
            if limit.is_over() {
                return Poll::Ready(Err(pump::too_late()));
            }
            if watches && let Poll::Ready(left) = client.poll_left(cx) {
                // Bytes that wait belong to the rest of the body: they hide the end of the connection.
                watches = false;
                if left {
                    return Poll::Ready(Err(pump::left()));
                }
            }
            Poll::Pending
        })
        .await?;
        Ok(made)
    }

    /// Reads more of it. Once there is a response, a client may be silent for as long as that moves.
    async fn fill_at<R: Source>(&mut self, client: &mut R, pace: &Pace<'_>) -> Result<(), ProxyError> {
        let mut limit = pace.timer.within(pace.body_timeout);
        loop {
            match self.fill(client, limit).await {
                Err(late) if late.kind == ErrorKind::Timeout && pace.is_answered() => {
                    limit = pace.after_answer();
                }
                filled => return filled,
            }
        }
    }
}

/// The failure of a filter of a request. Its error is logged here, but for one that rejects the request.
pub(super) fn refused(error: &std::io::Error) -> ProxyError {
    let status = Rejected::status(error);
    if status.is_none_or(|status| status >= 500) {
        tracing::error!(%error, "a plugin's filter failed on a request's body");
    }
    let reason = "a plugin's filter did not pass the request's body";
    ProxyError::new(Side::Gateway, ErrorKind::Plugin(status.unwrap_or(500)), reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::Timers;
    use std::future::Future;
    use std::pin::pin;
    use tokio::runtime::Builder;
    use wire::RequestHead;
    use wire::http1::request::RequestFacts;

    /// A response may come while the upstream takes no more of the body.
    #[test]
    fn a_body_is_sent_when_its_last_byte_is() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let timers = Timers::new(Now::default());
        let timer = &timers.register().timer;
        let mut facts = RequestFacts::default();
        facts.body = BodyLength::Exact(5);
        for (room, sent) in [(3, false), (5, true)] {
            let mut lent = [0; 64];
            let mut body = RequestBody::new(&mut lent, 0, &facts, 0);
            let (mut near, _far) = tokio::io::duplex(room);
            runtime.block_on(async {
                let mut client = &b"hello"[..];
                let pace = Pace {
                    timer,
                    now: Now::default(),
                    body_timeout: Duration::from_secs(1),
                    send_timeout: Duration::from_secs(1),
                    upload: &Upload::default(),
                    request: RequestView { head: &RequestHead::default(), bytes: &[] },
                    vars: RefCell::default(),
                };
                let mut sending = pin!(body.send(&mut client, &mut near, &pace));
                poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx).is_ready())).await;
            });
            assert_eq!((body.is_done(), body.is_sent()), (true, sent), "where there is room for {room}");
        }
    }
}
