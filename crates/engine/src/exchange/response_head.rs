//! The head of the upstream's response, those of interim responses before it passed on.

use super::client_head;
use super::ends::Ends;
use super::job::Job;
use super::respond::Message;
use crate::error::{ErrorKind, ProxyError, Side};
use plugin::Exchange;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use wire::{Method, ResponseError};

/// Interim responses before the final one; more make it 502. Servers that send 102 every 20 seconds while they work may
/// take 40 minutes.
const INTERIM_MAX: usize = 128;

/// Whether `bytes`, the first that came, hold the whole of a head that ends the wait, as nearly all of HTTP/1.1 do. Those
/// of HTTP/2 are no text, see [`Ends::final_head`].
#[inline]
pub(super) fn at_once(bytes: &[u8], job: &mut Job<'_, '_, '_>) -> bool {
    let method = asked_with(job.exchange);
    let response = &mut job.message.response;
    matches!(response.parse(bytes, method), Ok(true)) && response.status >= 200
}

/// The method that the upstream was asked with.
#[inline]
fn asked_with(exchange: &Exchange<'_>) -> Method {
    match exchange.request.edits.as_ref().and_then(|edits| edits.method.as_deref()) {
        Some(method) => Method::from_token(method.as_bytes()),
        None => exchange.request.view.head.facts.method,
    }
}

impl Ends<'_, '_, '_> {
    /// Reads up to the end of the head that is no interim one, and passes those on.
    pub(super) async fn final_head(
        &mut self,
        buffer: &mut [u8],
        filled: &mut usize,
        job: &mut Job<'_, '_, '_>,
    ) -> Result<(), ProxyError> {
        let Job { message, exchange, route, timeouts, .. } = job;
        let facts = exchange.request.view.head.facts;
        let mut interim = 0;
        loop {
            self.complete_head(buffer, filled, message, exchange, timeouts.read).await?;
            let (status, length) = (message.response.status, message.response.length);
            if status == 101 && !(route.websocket && facts.upgrade) {
                let unasked = "upstream switched protocols unasked";
                return Err(ProxyError::new(Side::Upstream, ErrorKind::Protocol, unasked));
            }
            if status >= 200 || status == 101 {
                return Ok(());
            }
            interim += 1;
            if interim > INTERIM_MAX {
                let endless = "upstream sent too many interim responses";
                return Err(ProxyError::new(Side::Upstream, ErrorKind::Protocol, endless));
            }
            self.pass_interim(buffer, message, facts.http11).await?;
            buffer.copy_within(length..*filled, 0);
            *filled -= length;
        }
    }

    /// Reads until the head is complete; `timeout` is the time between two reads.
    async fn complete_head(
        &mut self,
        buffer: &mut [u8],
        filled: &mut usize,
        message: &mut Message<'_>,
        exchange: &Exchange<'_>,
        timeout: Duration,
    ) -> Result<(), ProxyError> {
        let method = asked_with(exchange);
        loop {
            let refuse = |error: ResponseError| ProxyError::new(Side::Upstream, ErrorKind::Protocol, error.0);
            match self.upstream.http2() {
                None if *filled > 0
                    && message.response.parse(&buffer[..*filled], method).map_err(refuse)? =>
                {
                    return Ok(());
                }
                // All of it came at once, and as what it is.
                Some(stream) if let Some(head) = stream.take_head() => {
                    *message.response = *head;
                    return Ok(());
                }
                _ => {}
            }
            let mut wait = self.wait(timeout);
            let count = poll_fn(|cx| {
                let mut slot = ReadBuf::new(&mut buffer[*filled..]);
                match Pin::new(&mut *self.upstream).poll_read(cx, &mut slot) {
                    Poll::Pending => self.pending(&mut wait, cx).map(Err),
                    Poll::Ready(Ok(())) => Poll::Ready(Ok(slot.filled().len())),
                    Poll::Ready(Err(error)) => Poll::Ready(Err(ProxyError::io(Side::Upstream, &error))),
                }
            })
            .await?;
            if count == 0 {
                let early = "upstream closed before its response's head was complete";
                return Err(ProxyError::new(Side::Upstream, ErrorKind::Connection, early));
            }
            *filled += count;
        }
    }

    /// Passes an interim response on (RFC 9110 section 15.2), but for 100, which the gateway has answered itself, and
    /// to HTTP/1.0 clients, which know none.
    async fn pass_interim(
        &mut self,
        buffer: &[u8],
        message: &mut Message<'_>,
        http11: bool,
    ) -> Result<(), ProxyError> {
        let Message { response, out, .. } = message;
        if response.status == 100 || !http11 {
            return Ok(());
        }
        let begun = client_head::interim(response, buffer, self.way.client.http2(), out);
        begun.map_err(|error| ProxyError::io(Side::Client, &error))?;
        self.way.send(out, &[]).await
    }
}
