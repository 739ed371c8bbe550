//! A plugin's HTTP call: which node, over which connection, and how often it is tried.

use super::conversation::{Conversation, Opening};
use super::{Operation, call_error};
use crate::error::{ErrorKind, ProxyError, Side};
use crate::timer::attach;
use crate::timer::{TimeLimit, Timer};
use crate::upstream::{
    AddrPool, NodeState, REFUSALS_MAX, Served, State, connect, discovered_form, pool_of, secure_pool,
};
use crate::worker::Worker;
use model::resource::Scheme;
use plugin::{Answer, BodySource, Call, CallBody, CallError, Fields};
use snapshot::Upstream;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use stdx::Moment;
use wire::http2::RequestSection;
use wire::{FieldName, FieldSink, FieldValue, Framing, Method};

/// Sends `call` to a node of `upstream`, to another one where that is allowed.
pub(super) async fn run(
    worker: Rc<Worker>,
    upstream: Arc<Upstream>,
    mut call: Call,
    operation: Operation,
) -> Result<Answer, CallError> {
    let registration = worker.timers.register();
    let timer = &registration.timer;
    attach(timer).await;
    let discovered = match &upstream.discovered {
        None => None,
        Some(discovered) => discovered_form(discovered, timer.within(call.timeouts.connect)).await,
    };
    let upstream = discovered.as_ref().unwrap_or(&upstream);
    let state = worker.upstreams.state(upstream);
    let request = Request::take(&mut call);
    let mut attempt = Attempt {
        worker: &worker,
        state: &state,
        call: &call,
        request,
        timer,
        operation: &Rc::new(operation),
        tried_at: Vec::new(),
        sent: false,
    };
    let (begun, mut tried, mut tries) = (Moment::now(), Vec::new(), 0);
    let mut last = ProxyError::new(Side::Upstream, ErrorKind::NoNode, "no valid upstream node");
    state.begin();
    loop {
        let picked = state.pick(b"", worker.clock.now_ms(), &tried);
        let Some(node) = picked else { return Err(call_error(last)) };
        let started = Moment::now();
        attempt.sent = false;
        let result = attempt.run(&state.nodes[node]).await;
        let (status, error) = match &result {
            Ok((_, (status, _))) => (*status, None),
            Err(error) => (0, Some(*error)),
        };
        let served = Served { status, broke_off: false, error, latency: started.elapsed() };
        state.finished(node, &served, worker.clock.now_ms());
        last = match result {
            Ok((conversation, (status, fields))) => {
                return Ok(Answer { status, fields, body: Box::new(conversation) });
            }
            Err(error) => error,
        };
        let again = last.retry
            && upstream.may_retry(tries, begun.elapsed())
            && (!attempt.sent || state.may_send_again(worker.clock.now_ms()));
        if !again {
            return Err(call_error(last));
        }
        tries += 1;
        // A lone node is asked again, as with requests of clients.
        if state.nodes.len() > 1 {
            tried.push(node);
        }
    }
}

/// The request: its body is in memory, or read from a stream.
struct Request {
    method: Method,
    framing: Framing,
    body: Vec<u8>,
    stream: Option<Box<dyn BodySource>>,
    repeatable: bool,
}

impl Request {
    /// Takes the body of `call`, and the fields that are not for the caller to write.
    fn take(call: &mut Call) -> Self {
        let repeatable = call.is_repeatable();
        call.headers.remove("Content-Length");
        call.headers.remove("Transfer-Encoding");
        call.headers.remove("Host");
        let method = Method::from_token(call.method().as_bytes());
        let (framing, body, stream) = match std::mem::take(&mut call.body) {
            CallBody::Empty => (Framing::None, Vec::new(), None),
            CallBody::Bytes(body) => (Framing::Exact(body.len() as u64), body.to_vec(), None),
            CallBody::Stream(source) => (Framing::Chunked, Vec::new(), Some(source)),
        };
        Self { method, framing, body, stream, repeatable }
    }

    /// Writes the fields of `call`.
    fn write(&self, call: &Call, out: &mut impl FieldSink) {
        call.headers.write(out);
        match self.framing {
            Framing::Exact(length) => out.number(FieldName::CONTENT_LENGTH, length),
            Framing::None if matches!(call.method(), "POST" | "PUT" | "PATCH") => {
                out.number(FieldName::CONTENT_LENGTH, 0);
            }
            Framing::Chunked => out.field(FieldName::TRANSFER_ENCODING, FieldValue::CHUNKED),
            _ => {}
        }
    }

    /// The request over HTTP/2, or as the bytes of HTTP/1.1.
    fn opening(&mut self, call: &Call, http2: bool) -> Opening {
        let (method, target, authority) = (call.method().as_bytes(), call.target(), call.authority());
        let (mut head, mut bytes) = (None, Vec::with_capacity(512));
        let mut framing = self.framing;
        if http2 {
            let mut section = RequestSection::new(method, target, authority);
            self.write(call, section.fields());
            head = Some(section);
            framing = if framing == Framing::Chunked { Framing::Frames } else { framing };
        } else {
            for piece in [method, b" ", target, b" HTTP/1.1\r\nHost: ", authority, b"\r\n"] {
                bytes.extend_from_slice(piece);
            }
            self.write(call, &mut bytes);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(&self.body);
        // A stream is sent once: what a second attempt would send is gone.
        Opening { method: self.method, head, framing, bytes, stream: self.stream.take() }
    }
}

/// One call while nodes are tried for it.
struct Attempt<'a> {
    worker: &'a Rc<Worker>,
    state: &'a State,
    call: &'a Call,
    request: Request,
    timer: &'a Timer,
    operation: &'a Rc<Operation>,
    tried_at: Vec<IpAddr>,
    /// Whether a node may have got something of the request.
    sent: bool,
}

impl Attempt<'_> {
    /// Asks one node: the conversation from the body on, and the head.
    async fn run(&mut self, node: &NodeState) -> Result<(Conversation, (u16, Fields)), ProxyError> {
        let pool = self.pool(node).await?;
        let mut connection = match pool.take() {
            Some(connection) => connection,
            None => connect(&pool, self.connect_limit()).await?,
        };
        self.sent = true;
        let mut refusals = 0;
        loop {
            let reused = connection.reused;
            let pulse = connection.pulse.clone();
            let opening = self.request.opening(self.call, connection.stream.http2().is_some());
            let streamed = opening.stream.is_some();
            let mut conversation = Conversation::new(
                self.worker,
                Rc::clone(&pool),
                connection,
                opening,
                self.call.timeouts,
                self.operation,
            );
            let asked = poll_fn(|cx| conversation.poll_head(cx)).await;
            if let (Some(pulse), Err(ProxyError { kind: ErrorKind::Timeout, .. })) = (pulse, &asked) {
                pulse.suspect();
            }
            match asked {
                Ok(head) => return Ok((conversation, head)),
                Err(error) if error.kind == ErrorKind::Refused && !streamed && refusals < REFUSALS_MAX => {
                    refusals += 1;
                    drop(conversation);
                    connection = connect(&pool, self.connect_limit()).await?;
                }
                Err(error) if conversation.answered || streamed || !self.request.repeatable => {
                    return Err(error);
                }
                // An idle connection may be closed by the server at any moment: that says nothing about the node.
                Err(error) if reused && error.kind == ErrorKind::Connection => {
                    drop(conversation);
                    connection = connect(&pool, self.connect_limit()).await?;
                }
                Err(error) => return Err(error.retriable()),
            }
        }
    }

    fn connect_limit(&self) -> TimeLimit<'_> {
        self.timer.by(self.worker.clock.deadline_ms(self.call.timeouts.connect))
    }

    async fn pool(&mut self, node: &NodeState) -> Result<Rc<AddrPool>, ProxyError> {
        let Self { worker, state, timer, tried_at, .. } = self;
        let timeout = self.call.timeouts.connect;
        let pool = pool_of(&worker.upstreams, &node.target, tried_at, timer, timeout).await?;
        match state.upstream.scheme {
            Scheme::Https | Scheme::Grpcs => {
                let host = self.call.authority();
                secure_pool(&worker.upstreams, &worker.snapshot(), &state.upstream, &pool, host)
            }
            _ => Ok(pool),
        }
    }
}
