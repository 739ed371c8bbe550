//! One request of an HTTP/2 connection.

use super::Shared;
use crate::buffers::Scratch;
use crate::exchange;
use crate::link::Link;
use crate::named::{Named, named_by_proxy};
use crate::timer::attach;
use crate::transport::{Http2Stream, Stream};
use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::Request;
use std::rc::Rc;
use wire::Method;
use wire::http2::read_request;

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
    let Scratch { input, filled, head, .. } = &mut *scratch;
    let read;
    (*filled, read) = read_request(&parts, body.is_end_stream(), head, input);
    let method = Method::from_token(parts.method.as_str().as_bytes());
    drop(parts);
    let mut stream = Stream::Http2(Http2Stream::of_client(body, respond, method));
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
        Err(error) => exchange::refuse(&mut link, &mut scratch, error.status(), error.reason()).await,
    };
    worker.buffers.put_scratch(scratch);
    if let Stream::Http2(stream) = &stream
        && stream.is_cut()
    {
        shared.cut.set(shared.cut.get() + 1);
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
