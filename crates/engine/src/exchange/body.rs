//! The request's body: what is in the buffer, and what is still to come.

use crate::error::{ErrorKind, ProxyError, Side};
use crate::io::{self, Source};
use crate::timer::TimeLimit;
use plugin::BodyFilters;
use std::ops::{Deref, DerefMut};
use wire::BodyLength;
use wire::http1::BodyDecoder;
use wire::http1::request::RequestFacts;

/// Smaller pieces are copied behind the bytes before them, larger ones leave by a gathering write.
pub(super) const COPY_MAX: usize = 4 * 1024;

/// How much of a body is asked for at once when it is read ahead.
const AHEAD_STEP: u64 = 64 * 1024;

/// The body of a request, read through the part of the head's buffer that the head left free.
pub(super) struct RequestBody<'b> {
    buffer: Buffer<'b>,
    /// `buffer[start..end]` is read and not yet decoded.
    start: usize,
    end: usize,
    decoder: BodyDecoder,
    length: BodyLength,
    /// Body bytes decoded so far.
    pub(super) decoded: u64,
    /// Bytes of the connection that belonged to the body so far.
    consumed: u64,
    pub(super) limit: u64,
    /// Whether an upstream, or a filter before it, has a piece of it, and perhaps not all of that piece is sent.
    pub(super) sending: bool,
    /// What it passes on its way to the upstream.
    pub(super) filters: Option<Box<BodyFilters>>,
}

/// Where a body's bytes are.
enum Buffer<'b> {
    /// In the part of the head's buffer that the head left free.
    Lent(&'b mut [u8]),
    /// In memory of its own: it was read ahead, and was too large for that part. Boxed, because it is rare.
    Own(Box<Own<'b>>),
}

struct Own<'b> {
    bytes: Vec<u8>,
    /// For what follows the body.
    lent: &'b mut [u8],
}

impl<'b> RequestBody<'b> {
    /// The body of the request of which `facts` are known; `filled` bytes of it are in `buffer` (along with what follows
    /// it). `limit` is the largest length accepted, 0 for any.
    pub(super) fn new(buffer: &'b mut [u8], filled: usize, facts: &RequestFacts, limit: u64) -> Self {
        let length = facts.body;
        let decoder = match length {
            BodyLength::Chunked if facts.http2 => BodyDecoder::of_frames(length),
            _ => BodyDecoder::new(length),
        };
        Self {
            buffer: Buffer::Lent(buffer),
            start: 0,
            end: filled,
            decoder,
            length,
            decoded: 0,
            consumed: 0,
            limit: if limit == 0 { u64::MAX } else { limit },
            sending: false,
            filters: None,
        }
    }

    /// How long the head says it is.
    pub(super) fn length(&self) -> BodyLength {
        self.length
    }

    /// Whether the upstream may get another body than the client sends.
    pub(super) fn is_changed(&self) -> bool {
        self.filters.as_ref().is_some_and(|filters| filters.change_anything())
    }

    /// Whether the head announces more than is accepted.
    pub(super) fn too_large(&self) -> bool {
        matches!(self.length, BodyLength::Exact(length) if length > self.limit)
    }

    /// Whether all of it has been decoded.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.decoder.is_done()
    }

    /// Whether the upstream that it was meant for has got all of it: only then is its connection where the next request
    /// starts.
    #[inline]
    pub(super) fn is_sent(&self) -> bool {
        self.is_done() && !self.sending
    }

    /// Bytes of the connection that belonged to it so far.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Bytes in the buffer that belong to the next request; meaningful once [`Self::is_done`].
    pub(super) fn unread(&self) -> usize {
        self.end - self.start
    }

    /// Whether the client has begun to send it.
    pub(super) fn has_begun(&self) -> bool {
        self.end > self.start || self.consumed > 0
    }

    /// Leaves what came after it, which begins the next request, where the head's buffer is filled to: so many bytes behind
    /// the head.
    pub(super) fn give_back(self) -> usize {
        match self.buffer {
            Buffer::Lent(_) => self.end,
            Buffer::Own(own) => {
                // No more than fit were read: see `fill`. While the body itself is not over, nothing follows it.
                let unread = &own.bytes[self.start..self.end];
                let kept = unread.len().min(own.lent.len());
                own.lent[..kept].copy_from_slice(&unread[..kept]);
                kept
            }
        }
    }

    /// Bytes in the buffer after it; meaningful once [`Self::is_done`].
    pub(super) fn ahead(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// All of it, where it is of known length, small, in the buffer already, and passes no filter. Nothing is consumed, so that it can
    /// be sent again.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        match self.length {
            BodyLength::None => Some(&[]),
            BodyLength::Exact(length) if self.filters.is_none() => {
                let length =
                    usize::try_from(length).ok().filter(|length| *length <= self.end - self.start)?;
                (self.consumed == 0).then(|| &self.buffer[self.start..self.start + length])
            }
            _ => None,
        }
    }

    /// Takes note that what [`Self::whole`] gave, or what a plugin put in the place of a body read ahead, has been sent.
    pub(super) fn consume_whole(&mut self) {
        if !self.is_done() {
            // It was decoded once before.
            let _ = self.decode(&mut Vec::new(), |_| {});
        }
    }

    /// Waits for its first byte.
    pub(super) async fn begin<R: Source>(
        &mut self,
        client: &mut R,
        limit: TimeLimit<'_>,
    ) -> Result<(), ProxyError> {
        if self.has_begun() { Ok(()) } else { self.fill(client, limit).await }
    }

    /// Decodes what has been read, and throws it away.
    pub(super) fn skip_read(&mut self) -> Result<(), ProxyError> {
        self.decode(&mut Vec::new(), |_| {}).map(drop)
    }

    /// Decodes what has been read: each piece goes to `piece`, the lines of a trailer section to `trailers`. Returns
    /// whether the body is complete.
    pub(super) fn decode(
        &mut self,
        trailers: &mut Vec<u8>,
        mut piece: impl FnMut(&[u8]),
    ) -> Result<bool, ProxyError> {
        let Self { buffer, start, end, decoder, decoded, consumed, .. } = self;
        let before = *start;
        let over = decoder.drain(&buffer[..*end], start, trailers, |data| {
            *decoded += data.len() as u64;
            piece(data);
        });
        *consumed += (*start - before) as u64;
        over.map_err(bad_body)
    }

    /// Reads all of it, at most `limit` bytes, and leaves it to be sent as if it were still to come. `None` where there is
    /// more; what was read of it is sent later as well. Nothing that follows the body is read. `wait` limits each read.
    pub(super) async fn read_ahead<R: Source>(
        &mut self,
        client: &mut R,
        limit: usize,
        wait: TimeLimit<'_>,
    ) -> Result<Option<Vec<u8>>, ProxyError> {
        if matches!(self.length, BodyLength::Exact(length) if length > limit as u64) {
            return Ok(None);
        }
        let (mut decoder, mut at, mut whole) = (self.decoder, self.start, Vec::new());
        loop {
            let read = &self.buffer[..self.end];
            let over = decoder.drain(read, &mut at, &mut Vec::new(), |piece| whole.extend_from_slice(piece));
            let over = over.map_err(bad_body)?;
            if whole.len() > limit {
                return Ok(None);
            }
            if over {
                return Ok(Some(whole));
            }
            let known = (self.end - at) as u64;
            let wanted = decoder.at_least().saturating_sub(known).clamp(1, AHEAD_STEP);
            let more = self.fill_more(client, wait, usize::try_from(wanted).unwrap_or(1)).await?;
            if !more {
                decoder.end_after(self.end - at);
            }
        }
    }

    /// Reads at most `most` bytes behind those that are there, with more room where there is none left. Returns whether
    /// more may come.
    async fn fill_more<R: Source>(
        &mut self,
        client: &mut R,
        wait: TimeLimit<'_>,
        most: usize,
    ) -> Result<bool, ProxyError> {
        let end = self.end + most;
        if end > self.buffer.len() {
            match &mut self.buffer {
                Buffer::Lent(lent) => {
                    let bytes = [&lent[..self.end], &vec![0; most]].concat();
                    self.buffer = Buffer::Own(Box::new(Own { bytes, lent: std::mem::take(lent) }));
                }
                Buffer::Own(own) => own.bytes.resize(end, 0),
            }
        }
        self.read(client, end, wait).await
    }

    /// Reads at least one byte of a body that is not over, or its end; no further than to `most` in the buffer. Returns
    /// whether more may come.
    async fn read<R: Source>(
        &mut self,
        client: &mut R,
        most: usize,
        wait: TimeLimit<'_>,
    ) -> Result<bool, ProxyError> {
        let read = io::read(client, &mut self.buffer[self.end..most], wait).await;
        let count = read.map_err(|error| ProxyError::io(Side::Client, &error))?;
        self.end += count;
        let ends = count == 0 || client.is_over();
        if ends && !self.decoder.end_after(self.end - self.start) && count == 0 {
            let reason = "client closed while sending its body";
            return Err(ProxyError::new(Side::Client, ErrorKind::Connection, reason));
        }
        Ok(!ends)
    }

    /// Reads and decodes what is left, and throws it away; an error when there is more than `limit`, or it takes longer
    /// than `wait` allows.
    pub(super) async fn discard<R: Source>(
        &mut self,
        client: &mut R,
        limit: u64,
        wait: TimeLimit<'_>,
    ) -> Result<(), ProxyError> {
        let start = self.consumed;
        loop {
            let over = self.decode(&mut Vec::new(), |_| {})?;
            if self.consumed - start > limit {
                return Err(ProxyError::new(
                    Side::Client,
                    ErrorKind::TooLarge,
                    "unread request body too large",
                ));
            }
            if over {
                return Ok(());
            }
            self.fill(client, wait).await?;
        }
    }

    /// Reads all of it into memory, at most `limit` bytes. `wait` limits each read.
    pub(super) async fn collect<R: Source>(
        &mut self,
        client: &mut R,
        limit: usize,
        wait: TimeLimit<'_>,
    ) -> Result<Vec<u8>, ProxyError> {
        let mut whole = Vec::new();
        loop {
            let over = self.decode(&mut Vec::new(), |piece| whole.extend_from_slice(piece))?;
            if whole.len() > limit {
                return Err(ProxyError::new(Side::Client, ErrorKind::TooLarge, "request body too large"));
            }
            if over {
                return Ok(whole);
            }
            self.fill(client, wait).await?;
        }
    }

    /// Reads more of it. An incomplete piece of framing moves to the front to make room. No more is read than the part
    /// of the head's buffer holds, because all of it may follow the body.
    pub(super) async fn fill<R: Source>(
        &mut self,
        client: &mut R,
        wait: TimeLimit<'_>,
    ) -> Result<(), ProxyError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let room = match &self.buffer {
            Buffer::Lent(lent) => lent.len(),
            Buffer::Own(own) => own.lent.len(),
        };
        if self.end >= room {
            return Err(bad_body(wire::http1::BodyError("framing larger than the buffer")));
        }
        self.read(client, room, wait).await.map(drop)
    }
}

impl Deref for Buffer<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Lent(lent) => lent,
            Self::Own(own) => &own.bytes,
        }
    }
}

impl DerefMut for Buffer<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Lent(lent) => lent,
            Self::Own(own) => &mut own.bytes,
        }
    }
}

fn bad_body(error: wire::http1::BodyError) -> ProxyError {
    ProxyError::new(Side::Client, ErrorKind::Protocol, error.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Now;
    use crate::timer::Timers;
    use tokio::runtime::Builder;

    fn facts(body: BodyLength) -> RequestFacts {
        let mut facts = RequestFacts::default();
        facts.body = body;
        facts
    }

    #[test]
    fn what_follows_a_body_is_left_behind_the_head() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let timers = Timers::new(Now::default());
        let timer = &timers.register().timer;
        let next = b"GET /next HTTP/1.1\r\n";
        let wire = [b"28\r\n", &[b'x'; 40][..], b"\r\n0\r\n\r\n", next].concat();
        // Read as it comes or ahead up to a limit, which takes more room than was lent.
        for ahead in [None, Some(20), Some(100)] {
            for already in [0, 3, 30] {
                let mut lent = [0; 64];
                lent[..already].copy_from_slice(&wire[..already]);
                let mut client = &wire[already..];
                let mut body = RequestBody::new(&mut lent, already, &facts(BodyLength::Chunked), 0);
                let (unread, end) = runtime.block_on(async {
                    if let Some(limit) = ahead {
                        body.read_ahead(&mut client, limit, timer.unlimited()).await.expect("sound");
                    }
                    body.discard(&mut client, 1000, timer.unlimited()).await.expect("sound");
                    (body.unread(), body.give_back())
                });
                let left = [&lent[end - unread..end], client].concat();
                assert_eq!(left.escape_ascii().to_string(), next.escape_ascii().to_string(), "{ahead:?}");
            }
        }
    }
}
