//! One request of an HTTP/2 connection.

use super::Shared;
use crate::buffers::Scratch;
use crate::connection::{Link, Named, attach, named_by_proxy};
use crate::exchange;
use crate::transport::{Http2Stream, Stream};
use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::Request;
use std::rc::Rc;
use wire::http1::HEAD_MAX;
use wire::http2::write_request;
use wire::{BodyLength, HeadError, Method};

/// Begins to serve a request: its number on the connection, from 1.
pub(super) fn start(shared: &Rc<Shared>, request: Request<RecvStream>, respond: SendResponse<Bytes>) -> u64 {
    let number = shared.number.get() + 1;
    shared.number.set(number);
    let active = Active::new(Rc::clone(shared));
    drop(tokio::task::spawn_local(async move {
        serve(&active.0, request, respond, number).await;
    }));
    number
}

async fn serve(shared: &Shared, request: Request<RecvStream>, respond: SendResponse<Bytes>, number: u64) {
    let worker = &*shared.worker;
    let registration = worker.timers.register();
    attach(&registration.timer).await;
    let config = worker.config();
    let (parts, body) = request.into_parts();
    let mut scratch = worker.buffers.take_scratch();
    let read = read_head(&parts, body.is_end_stream(), &mut scratch);
    let chunked = read.is_ok() && scratch.head.facts.body == BodyLength::Chunked;
    let method = Method::from_token(parts.method.as_str().as_bytes());
    drop(parts);
    let mut stream = Stream::Http2(Http2Stream::of_client(body, chunked, respond, method));
    let mut link = Link {
        worker,
        config: &config,
        stream: &mut stream,
        client: &shared.client,
        timer: &registration.timer,
        forwarded: &shared.forwarded,
        trusted: config.trusts(shared.client.peer),
        number,
    };
    // What is to become of the connection is not for one of its streams to say.
    let named;
    let _ = match read {
        Ok(()) => {
            let believed = config.real_ip.believes(shared.client.ip());
            named = if believed { named_by_proxy(&link, &scratch) } else { None };
            if let Some(Named { client, forwarded }) = named.as_deref() {
                (link.client, link.forwarded) = (client, forwarded);
            }
            exchange::run(&mut link, &mut scratch).await
        }
        Err(error) => {
            name_version(&mut scratch);
            exchange::refuse(&mut link, &mut scratch, error.status(), error.reason()).await
        }
    };
    worker.buffers.put_scratch(scratch);
    if let Stream::Http2(stream) = &stream
        && stream.is_cut()
    {
        shared.cut.set(shared.cut.get() + 1);
    }
}

/// Puts the head into `scratch` as if it had come by HTTP/1.1, and reads it as such.
fn read_head(parts: &http::request::Parts, ends: bool, scratch: &mut Scratch) -> Result<(), HeadError> {
    let Scratch { input, filled, head, out, .. } = scratch;
    out.clear();
    let written = write_request(parts, ends, out);
    *filled = out.len().min(HEAD_MAX).min(input.len());
    input[..*filled].copy_from_slice(&out[..*filled]);
    written?;
    if out.len() > HEAD_MAX {
        return Err(HeadError::FieldsTooLarge);
    }
    if !head.parse(&input[..*filled])? {
        return Err(HeadError::Bad("incomplete head"));
    }
    head.facts.http2 = true;
    Ok(())
}

/// Has the first line of a refused head say the version that the client speaks, for the log.
fn name_version(scratch: &mut Scratch) {
    let line = &mut scratch.input[..scratch.filled];
    let end = memchr::memchr(b'\r', line).unwrap_or(line.len());
    if let Some(version) = line[..end].last_chunk_mut::<8>()
        && version == b"HTTP/1.1"
    {
        *version = *b"HTTP/2.0";
    }
}

/// A request under way; with the last of them the connection rests.
struct Active(Rc<Shared>);

impl Active {
    fn new(shared: Rc<Shared>) -> Self {
        if shared.active.replace(shared.active.get() + 1) == 0 {
            shared.idle_until_ms.set(u64::MAX);
        }
        Self(shared)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let left = self.0.active.get().saturating_sub(1);
        self.0.active.set(left);
        if left == 0 {
            self.0.rests();
        }
    }
}
