//! Files as the origin: what `crates/files` answers, sent to the client.

use super::After;
use super::body::RequestBody;
use super::respond::{self, Message};
use crate::buffers::RELAY_BUFFER;
use crate::connection::Link;
use crate::io;
use crate::transport::Stream;
use bytes::Bytes;
use files::{Answer, Body, Outcome, Query, Segment, Site};
use plugin::{Exchange, Reply, Request, UpstreamResponse};
use rustix::buffer::spare_capacity;
use snapshot::Route;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tokio::io::Interest;
use wire::Method;

/// What one `sendfile` call is asked for: more would let one client hold the worker for long.
const SENDFILE_MAX: u64 = 512 * 1024;

/// Answers with a file of `site`.
pub(super) async fn answer(
    link: &mut Link<'_>,
    message: &mut Message<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    route: &Route,
    site: &Site,
) -> After {
    let method = exchange.request.view.head.facts.method;
    let found = match method {
        Method::Get | Method::Head => find(link, exchange, site).await,
        _ => {
            let reply = Reply::status(405).with_header("Allow", "GET, HEAD");
            return respond::reply(link, message, body, Some(route), exchange, &reply).await;
        }
    };
    let answer = match found {
        Ok(answer) => answer,
        Err(error) => {
            tracing::error!(route = route.info.id, root = %site.folder().display(), %error, "files can't be read");
            let reply = Reply::status(500);
            return respond::reply(link, message, body, Some(route), exchange, &reply).await;
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
        range: request.header(b"range"),
        if_range: request.header(b"if-range"),
        if_match: request.header(b"if-match"),
        if_none_match: request.header(b"if-none-match"),
        if_modified_since: request.header(b"if-modified-since"),
        if_unmodified_since: request.header(b"if-unmodified-since"),
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
    let settled = respond::settle(link, body, exchange).await;
    exchange.status = answer.status;
    let hooks = UpstreamResponse::default();
    respond::run_hooks(link.worker, message.snapshot, Some(&route.chain), exchange, hooks);
    let keep_alive = settled && respond::keeps_alive(link.worker, link.config, exchange);
    respond::write_file_head(link, exchange, answer, keep_alive, message.out);
    link.timer.arm(link.worker.clock.deadline_ms(link.config.client.send_timeout));
    let segments = match exchange.request.view.head.facts.method {
        Method::Head => &[],
        _ => answer.body.segments(),
    };
    let sent = transmit(link, message.out, segments).await;
    exchange.timing.sent_bytes = message.out.len() as u64;
    match sent {
        Ok(bytes) => {
            exchange.timing.sent_bytes += bytes;
            exchange.timing.sent_body_bytes = bytes;
            respond::after_reply(body, keep_alive, settled)
        }
        Err(error) => {
            tracing::info!(client = %link.client.addr, %error, "a file was not sent whole");
            After::Closed
        }
    }
}

/// Sends head and segments: the head together with the first bytes. How many bytes of segments there were.
async fn transmit(link: &mut Link<'_>, head: &[u8], segments: &[Segment]) -> std::io::Result<u64> {
    let (first, rest) = match segments {
        // A stream of HTTP/2 takes the bytes as they are and not a copy, but not together with others.
        [Segment::Memory(bytes, start, length), rest @ ..] if !matches!(link.stream, Stream::Http2(_)) => {
            (&bytes[*start..start + length], rest)
        }
        _ => (&[][..], segments),
    };
    io::write_both(link.stream, head, first, link.timer).await?;
    let mut sent = first.len() as u64;
    for segment in rest {
        match segment {
            Segment::Memory(bytes, start, length) => {
                let range = *start..start + length;
                match link.stream {
                    Stream::Http2(stream) => {
                        let bytes = Bytes::from_owner(Arc::clone(bytes)).slice(range);
                        io::share(stream, bytes, link.timer).await?;
                    }
                    _ => io::write_all(link.stream, &bytes[range], link.timer).await?,
                }
            }
            Segment::File(file, first, length) => from_file(link, file, *first, *length).await?,
        }
        sent += segment.length();
    }
    Ok(sent)
}

/// Sends a piece of a file: by the kernel alone where the connection is in the clear.
async fn from_file(link: &mut Link<'_>, file: &Arc<File>, first: u64, length: u64) -> std::io::Result<()> {
    let (mut offset, end) = (first, first + length);
    while offset < end {
        link.timer.arm(link.worker.clock.deadline_ms(link.config.client.send_timeout));
        let wanted = (end - offset).min(SENDFILE_MAX);
        let count = match link.stream {
            Stream::Plain(stream) => {
                let mut at = offset;
                let count = usize::try_from(wanted).unwrap_or(usize::MAX);
                let send = || Ok(rustix::fs::sendfile(&*stream, file, Some(&mut at), count)?);
                match stream.try_io(Interest::WRITABLE, send) {
                    Ok(count) => count,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        io::writable(stream, link.timer).await?;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            Stream::Http2(stream) => {
                let room = usize::try_from(wanted).unwrap_or(usize::MAX).min(RELAY_BUFFER);
                let mut piece = Vec::with_capacity(room);
                rustix::io::pread(file, spare_capacity(&mut piece), offset)?;
                piece.truncate(room);
                let count = piece.len();
                io::share(stream, piece.into(), link.timer).await?;
                count
            }
            Stream::Tls(_) | Stream::Nowhere => {
                let mut buffer = link.worker.buffers.take_relay();
                let room = buffer.len().min(usize::try_from(wanted).unwrap_or(usize::MAX));
                let read = file.read_at(&mut buffer[..room], offset);
                let written = match read {
                    Ok(count) => {
                        io::write_all(link.stream, &buffer[..count], link.timer).await.map(|()| count)
                    }
                    Err(error) => Err(error),
                };
                link.worker.buffers.put_relay(buffer);
                written?
            }
        };
        if count == 0 {
            // The file has become shorter than the head said: all that is left is to cut the answer off.
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        offset += count as u64;
    }
    Ok(())
}
