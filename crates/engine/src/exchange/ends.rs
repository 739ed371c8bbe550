//! The ends between which a response travels, and the wait for the upstream.

use super::transmit::Way;
use crate::clock::after_ms;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::timer::TimeLimit;
use crate::transport::ReadSide;
use std::task::{Context, Poll};
use std::time::Duration;
use wire::BodyLength;
use wire::http1::BodyDecoder;

/// The ends between which a response travels.
pub(super) struct Ends<'e, 'c, 'u> {
    pub(super) way: Way<'e, 'c>,
    pub(super) upstream: &'e mut ReadSide<'u>,
}

/// A wait for bytes of the upstream.
pub(super) struct Wait<'t> {
    limit: TimeLimit<'t>,
    /// When the client begins to be watched, in worker time; 0 before the wait begins.
    watch_from_ms: u64,
}

impl<'e> Ends<'e, '_, '_> {
    /// The decoder of a body of which `read` bytes came with its head.
    #[inline]
    pub(super) fn decoder(&self, length: BodyLength, read: usize) -> BodyDecoder {
        match self.upstream.http2() {
            None => BodyDecoder::new(length),
            Some(stream) => {
                let mut decoder = BodyDecoder::of_frames(length);
                if stream.is_over() {
                    decoder.end_after(read);
                }
                decoder
            }
        }
    }

    /// A wait for bytes of the upstream that begins when there are none.
    pub(super) fn wait(&self, timeout: Duration) -> Wait<'e> {
        Wait { limit: self.way.timer.within(timeout), watch_from_ms: 0 }
    }

    /// Goes on waiting, unless the time is up or the client is gone. The time is the upstream's only once the request's
    /// body is with it: before that, the upload has timeouts of its own.
    pub(super) fn pending(&mut self, wait: &mut Wait<'_>, cx: &mut Context<'_>) -> Poll<ProxyError> {
        let uploaded = self.way.upload.over.get();
        if uploaded && wait.limit.is_over() {
            return Poll::Ready(ProxyError::new(Side::Upstream, ErrorKind::Timeout, "upstream timed out"));
        }
        // HTTP/2 says it without being asked.
        let left =
            self.way.client.is_reset(cx) || (uploaded && self.way.watches && self.client_left(wait, cx));
        if left {
            let gone = "client closed while waiting for the upstream";
            return Poll::Ready(ProxyError::new(Side::Client, ErrorKind::Connection, gone));
        }
        Poll::Pending
    }

    /// Whether the client has closed its connection. Asked only in waits of more than a tick, because most answers come
    /// sooner. Bytes that wait there are the next request; then there is nothing to watch for.
    fn client_left(&mut self, wait: &mut Wait<'_>, cx: &mut Context<'_>) -> bool {
        let now_ms = self.way.worker.clock.now_ms();
        if wait.watch_from_ms == 0 {
            wait.watch_from_ms = after_ms(now_ms, Duration::ZERO);
        }
        if now_ms < wait.watch_from_ms {
            self.way.timer.wake_by(wait.watch_from_ms);
            return false;
        }
        match self.way.client.poll_left(cx) {
            Poll::Pending => false,
            Poll::Ready(left) => {
                self.way.watches = left;
                left
            }
        }
    }
}
