//! Bodies that are there, in memory or in files, sent to the client: no more is read than it takes.

use super::progress::Upload;
use crate::buffers::RELAY_BUFFER;
use crate::config::EngineConfig;
use crate::error::{ProxyError, Side};
use crate::io;
use crate::timer::{TimeLimit, Timer};
use crate::transport::WriteSide;
use crate::worker::Worker;
use bytes::Bytes;
use rustix::buffer::spare_capacity;
use std::fs::File;
use std::future::poll_fn;
use std::io::{ErrorKind, Result};
use stdx::Segment;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// The largest piece sent by one call, `sendfile` among them. A larger one would let a client hold the worker for long.
const PIECE_MAX: usize = 512 * 1024;

/// The way to the client.
pub(super) struct Way<'w, 'c> {
    pub(super) worker: &'w Worker,
    pub(super) config: &'w EngineConfig,
    pub(super) timer: &'w Timer,
    pub(super) client: &'w mut WriteSide<'c>,
    /// The other direction.
    pub(super) upload: &'w Upload,
    /// Whether the client is watched for its end while another side is waited for: not once bytes of its next request wait.
    pub(super) watches: bool,
}

impl<'w, 'c> Way<'w, 'c> {
    pub(super) fn new(
        (worker, config, timer): (&'w Worker, &'w EngineConfig, &'w Timer),
        client: &'w mut WriteSide<'c>,
        upload: &'w Upload,
    ) -> Self {
        Self { worker, config, timer, client, upload, watches: true }
    }

    /// Sends to the client. The time that it takes is not the upstream's.
    pub(super) async fn send(&mut self, head: &[u8], data: &[u8]) -> std::result::Result<(), ProxyError> {
        let mut write = io::Write::new(self.limit());
        let mut since = None;
        poll_fn(|cx| {
            let polled = write.poll(self.client, cx, head, data);
            self.upload.note_wait(&mut since, polled.is_ready());
            polled
        })
        .await
        .map_err(|error| ProxyError::io(Side::Client, &error))
    }

    /// Sends head and segments: the head together with the first bytes. How many bytes of segments there were.
    pub(super) async fn transmit(&mut self, head: &[u8], segments: &[Segment]) -> Result<u64> {
        let first = match segments.first() {
            // A stream of HTTP/2 takes the bytes as they are and not a copy, but not together with others.
            _ if matches!(self.client, WriteSide::Http2(_)) => &[],
            Some(Segment::Memory(bytes, start, length)) => &bytes[*start..start + length.min(&PIECE_MAX)],
            _ => &[],
        };
        io::write_both(self.client, head, first, self.limit()).await?;
        let (mut at, mut sent) = (first.len() as u64, 0);
        for segment in segments {
            while at < segment.length() {
                at += self.piece(segment, at).await?;
            }
            sent += at;
            at = 0;
        }
        Ok(sent)
    }

    /// Returns the limit of the next write: `send_timeout`, counted from the last byte that the client took.
    pub(super) fn limit(&self) -> TimeLimit<'w> {
        self.timer.within(self.config.client.send_timeout)
    }

    /// Sends what comes at `at`: by the kernel alone where a file goes to a connection in the clear, and without a copy to
    /// a stream of HTTP/2. How many bytes that were.
    async fn piece(&mut self, segment: &Segment, at: u64) -> Result<u64> {
        match (segment, &*self.client) {
            (Segment::File(file, start, length), WriteSide::Plain(half)) => {
                send_file(half.as_ref(), file, start + at, length - at, self.limit()).await
            }
            (_, WriteSide::Http2(stream)) => {
                let bytes = shared(segment.slice(at, PIECE_MAX as u64))?;
                let count = bytes.len() as u64;
                io::share(stream, bytes, self.limit()).await.map(|()| count)
            }
            _ => self.copy(segment, at).await,
        }
    }

    async fn copy(&mut self, segment: &Segment, at: u64) -> Result<u64> {
        let mut buffer = self.worker.buffers.take_relay();
        let sent = match segment.piece(at, &mut buffer) {
            Ok(piece) => {
                let piece = &piece[..piece.len().min(PIECE_MAX)];
                io::write_all(self.client, piece, self.limit()).await.map(|()| piece.len() as u64)
            }
            Err(error) => Err(error),
        };
        self.worker.buffers.put_relay(buffer);
        sent
    }
}

/// Bytes of a segment to be kept until they are sent: of a file, as many as one read brings.
fn shared(segment: Segment) -> Result<Bytes> {
    match segment {
        Segment::Memory(bytes, start, length) => Ok(Bytes::from_owner(bytes).slice(start..start + length)),
        Segment::File(file, start, length) => {
            let room = usize::try_from(length).unwrap_or(usize::MAX).min(RELAY_BUFFER);
            let mut piece = Vec::with_capacity(room);
            rustix::io::pread(&file, spare_capacity(&mut piece), start)?;
            piece.truncate(room);
            if piece.is_empty() { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(piece.into()) }
        }
    }
}

async fn send_file(
    stream: &TcpStream,
    file: &File,
    from: u64,
    length: u64,
    limit: TimeLimit<'_>,
) -> Result<u64> {
    let count = usize::try_from(length).unwrap_or(usize::MAX).min(PIECE_MAX);
    loop {
        let mut at = from;
        let send = || Ok(rustix::fs::sendfile(stream, file, Some(&mut at), count)?);
        match stream.try_io(Interest::WRITABLE, send) {
            // The file has become shorter than the head said: all that is left is to cut the answer off.
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => return Ok(count as u64),
            Err(error) if error.kind() == ErrorKind::WouldBlock => io::writable(stream, limit).await?,
            Err(error) => return Err(error),
        }
    }
}
