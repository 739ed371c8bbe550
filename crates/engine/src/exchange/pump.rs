//! The pump: a response's body on its way from its origin, past taps and through filters, into its framing and to the
//! client. Nothing more is read of the origin while a filter waits or the client takes nothing. What passes unchanged and
//! unseen takes shorter ways: [`super::download::BodyFlow`] and [`Way::transmit`].

use super::client_head::{self, ClientHead, Fields};
use super::transmit::Way;
use crate::buffers::RELAY_BUFFER;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io::Sink;
use crate::services::PLUGIN_WAIT_MAX;
use crate::timer::TimeLimit;
use plugin::{BodyFilters, BodyView, Exchange, Rejected};
use std::future::poll_fn;
use std::task::{Context, Poll};
use wire::{BodyLength, Framing};

/// The origin of a body: an upstream, memory or a file, a plugin.
pub(super) trait BodyOrigin<'w, 'c: 'w> {
    /// Waits for the next part of the body.
    ///
    /// # Errors
    /// When the body breaks off, or the client leaves meanwhile.
    async fn next(&mut self) -> Result<Next<'_>, ProxyError>;

    /// Whether the end is the next part, as far as that can be said at once.
    fn is_over(&self) -> bool;

    /// Returns the lines of the trailer section, once the body is over.
    fn take_trailers(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// The way to the client.
    fn way(&mut self) -> &mut Way<'w, 'c>;
}

/// The next part of a body.
pub(super) enum Next<'n> {
    /// Some of its bytes.
    Data(&'n [u8]),
    /// Nothing more is at hand: the bytes before it are to be sent now.
    Pause,
    /// Its end.
    End,
}

/// A response whose body passes taps and filters. The length of a changed body is known only when it ends: where that is
/// before anything was sent, the head says it.
pub(super) struct Pump<'p> {
    filters: BodyFilters,
    /// The response's own fields.
    fields: Fields<'p>,
    /// The framing of a body that no filter changes; `None` for any other.
    pub(super) unchanged: Option<Framing>,
    /// Whether the client's connection may carry another request, as far as the framing doesn't decide that.
    may_keep: bool,
    /// The output of the filters that is not sent yet.
    made: Vec<u8>,
    trailers: Vec<u8>,
    /// How the body is framed; `None` until the head is sent.
    framing: Option<Framing>,
}

impl<'p> Pump<'p> {
    /// Makes the pump of a response with `fields`, for a body that is changed.
    pub(super) fn new(fields: Fields<'p>, filters: BodyFilters, may_keep: bool) -> Self {
        let (made, trailers) = (Vec::new(), Vec::new());
        Self { filters, fields, unchanged: None, may_keep, made, trailers, framing: None }
    }

    /// Whether the client has been sent something.
    pub(super) fn has_begun(&self) -> bool {
        self.framing.is_some()
    }

    /// Whether the client's connection may carry another request, once all is sent.
    pub(super) fn keeps(&self) -> bool {
        self.may_keep && self.framing != Some(Framing::Close)
    }

    /// Sends head and body. Returns whether the origin came to its end: it is read no further than somebody wants it.
    ///
    /// # Errors
    /// When either side breaks off, or a filter fails.
    pub(super) async fn run<'w, 'c: 'w, O: BodyOrigin<'w, 'c>>(
        &mut self,
        origin: &mut O,
        exchange: &mut Exchange<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, ProxyError> {
        out.clear();
        let is_sent = !exchange.is_bodiless();
        loop {
            let (mut over, mut pauses) = (false, true);
            match origin.next().await? {
                Next::Data(piece) => {
                    self.filters.write(piece, &mut self.made).map_err(|error| refused(&error))?;
                    pauses = false;
                }
                Next::Pause => self.filters.flush(&mut self.made).map_err(|error| refused(&error))?,
                Next::End => {
                    self.filters.finish_taps();
                    self.trailers = origin.take_trailers();
                    over = true;
                }
            }
            // The output of a filter that waits doesn't wait for its next piece.
            if self.settle(origin.way(), exchange, false).await? && !over && !origin.is_over() {
                self.filters.flush(&mut self.made).map_err(|error| refused(&error))?;
                self.settle(origin.way(), exchange, false).await?;
                pauses = true;
            }
            let last = over || !self.filters.want_more(is_sent);
            if last && is_sent {
                self.settle(origin.way(), exchange, true).await?;
            }
            // The head of an unchanged body needs none of its bytes.
            let opens = pauses && self.unchanged.is_some() && !self.has_begun();
            let due = (pauses || self.made.len() >= RELAY_BUFFER) && !self.made.is_empty();
            if last || due || opens {
                self.send(origin.way(), exchange, out, last).await?;
            }
            if last {
                return Ok(over);
            }
        }
    }

    /// Waits until the filters are done with what they were given, and with the whole body if that is `over`; whether
    /// they had to be waited for. This is not the upstream's time.
    async fn settle(
        &mut self,
        way: &mut Way<'_, '_>,
        exchange: &mut Exchange<'_>,
        over: bool,
    ) -> Result<bool, ProxyError> {
        let Self { filters, made, trailers, .. } = self;
        let (mut limit, mut since) = (way.timer.within(PLUGIN_WAIT_MAX), None);
        poll_fn(|cx| {
            let polled =
                poll_filters(filters, cx, &mut exchange.body_view(), over.then_some(&mut *trailers), made);
            way.upload.note_wait(&mut since, polled.is_ready());
            match polled {
                Poll::Ready(settled) => Poll::Ready(settled.map_err(|error| refused(&error))),
                Poll::Pending => way.pending(&mut limit, cx),
            }
        })
        .await?;
        Ok(since.is_some())
    }

    /// Sends the output so far, and the head before it where that is still to be sent.
    async fn send(
        &mut self,
        way: &mut Way<'_, '_>,
        exchange: &mut Exchange<'_>,
        out: &mut Vec<u8>,
        last: bool,
    ) -> Result<(), ProxyError> {
        let failed = |error: std::io::Error| ProxyError::io(Side::Client, &error);
        let framing = match self.framing {
            Some(framing) => framing,
            None => {
                let framing = self.choose_framing(exchange, last);
                self.framing = Some(framing);
                let head = ClientHead { fields: self.fields, framing, keep_alive: self.keeps() };
                head.begin(way.worker, exchange, way.client.http2(), out).map_err(failed)?;
                framing
            }
        };
        let head_len = out.len() as u64;
        framing.encode(&self.made, out);
        self.made.clear();
        if last {
            framing.encode_end(&self.trailers, out);
            way.client.end_after(out.len(), &self.trailers).map_err(failed)?;
        }
        way.send(out, &[]).await?;
        exchange.timing.sent_bytes += out.len() as u64;
        exchange.timing.sent_body_bytes += out.len() as u64 - head_len;
        out.clear();
        Ok(())
    }

    /// Returns the framing to the client: as the body came, or as its length is known. The head says that length.
    fn choose_framing(&self, exchange: &mut Exchange<'_>, last: bool) -> Framing {
        let bodiless = exchange.is_bodiless();
        if let Some(framing) = self.unchanged {
            return if bodiless { Framing::None } else { framing };
        }
        let framing = match last {
            _ if bodiless => Framing::None,
            true => Framing::Exact(self.made.len() as u64),
            false => client_head::framing(BodyLength::Chunked, &exchange.request.view.head.facts),
        };
        match framing {
            Framing::Exact(length) => exchange.reply_headers.set_number("Content-Length", length),
            _ => exchange.reply_headers.remove("Content-Length"),
        }
        framing
    }
}

/// Advances `filters`, and ends them where `over` has the lines of the trailer section.
pub(super) fn poll_filters(
    filters: &mut BodyFilters,
    cx: &mut Context<'_>,
    view: &mut BodyView<'_>,
    over: Option<&mut Vec<u8>>,
    made: &mut Vec<u8>,
) -> Poll<std::io::Result<()>> {
    match over {
        None => filters.poll(cx, view, made),
        Some(trailers) => filters.poll_finish(cx, view, trailers, made),
    }
}

/// Passes a body that is in memory through `filters`. `refused` makes the error of a filter that fails.
///
/// # Errors
/// When a filter fails or takes too long, or the client leaves.
pub(super) async fn whole(
    way: &mut Way<'_, '_>,
    exchange: &mut Exchange<'_>,
    filters: BodyFilters,
    body: &[u8],
    refused: fn(&std::io::Error) -> ProxyError,
) -> Result<Vec<u8>, ProxyError> {
    let mut limit = way.timer.within(PLUGIN_WAIT_MAX);
    let mut view = exchange.body_view();
    let mut made = std::pin::pin!(filters.whole(&mut view, body));
    poll_fn(|cx| match made.as_mut().poll(cx) {
        Poll::Ready(made) => Poll::Ready(made.map_err(|error| refused(&error))),
        Poll::Pending => way.pending(&mut limit, cx),
    })
    .await
}

impl Way<'_, '_> {
    /// Waits on for a plugin, until its time is up or the client has left.
    pub(super) fn pending<T>(
        &mut self,
        limit: &mut TimeLimit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, ProxyError>> {
        if limit.is_over() {
            return Poll::Ready(Err(too_late()));
        }
        // Before the request's body is over, its bytes hide the end of an HTTP/1.1 connection.
        let watched = self.watches && self.upload.over.get();
        if self.client.is_reset(cx) {
            return Poll::Ready(Err(left()));
        }
        if watched && let Poll::Ready(gone) = self.client.poll_left(cx) {
            // Bytes that wait are the client's next request: then there is nothing to watch for.
            self.watches = gone;
            if gone {
                return Poll::Ready(Err(left()));
            }
        }
        Poll::Pending
    }
}

pub(super) fn left() -> ProxyError {
    ProxyError::new(Side::Client, ErrorKind::Connection, "client closed while a plugin waited")
}

pub(super) fn too_late() -> ProxyError {
    let late = "a plugin made no progress with a body for too long";
    ProxyError::new(Side::Gateway, ErrorKind::Plugin(504), late)
}

/// The failure of a filter of a response, whose error is logged here.
pub(super) fn refused(error: &std::io::Error) -> ProxyError {
    tracing::error!(%error, "a plugin's filter failed on a response's body");
    let status = Rejected::status(error).unwrap_or(502);
    ProxyError::new(Side::Gateway, ErrorKind::Plugin(status), "a response's body could not be changed")
}
