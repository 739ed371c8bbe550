//! Services without a network: calls are answered by the test.

use crate::{
    Answer, Call, CallBody, CallError, CallErrorKind, Fields, Io, LocalFuture, Services, Task, UpstreamChoice,
};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::ready;
use std::path::Path;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::DuplexStream;

/// Room in each direction of a fake connection.
const CONNECTION_BYTES: usize = 64 * 1024;

type Answers = RefCell<VecDeque<Result<(u16, Fields, Vec<u8>), CallError>>>;

/// Services for a plugin's test. No time passes: a sleep is over at once and added up.
#[derive(Default)]
pub struct FakeServices {
    slept: Cell<Duration>,
    answers: Answers,
    calls: RefCell<Vec<MadeCall>>,
    connections: RefCell<Vec<DuplexStream>>,
}

/// A call that a plugin made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeCall {
    /// The method.
    pub method: String,
    /// The value of `Host`.
    pub authority: String,
    /// Path and query.
    pub target: String,
    /// The fields as they would be sent: `Name: value\r\n` each.
    pub headers: String,
    /// The body.
    pub body: Vec<u8>,
}

impl FakeServices {
    /// Answers the next call that has no answer yet. Calls without one fail to connect.
    pub fn answer(&self, status: u16, fields: &[(&str, &str)], body: &str) {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        self.answers.borrow_mut().push_back(Ok((status, Fields(fields.collect()), body.as_bytes().to_vec())));
    }

    /// Fails the next call that has no answer yet.
    pub fn fail(&self, kind: CallErrorKind) {
        self.answers.borrow_mut().push_back(Err(CallError { kind, reason: "the test lets it fail" }));
    }

    /// The calls made since the last time this was asked.
    pub fn calls(&self) -> Vec<MadeCall> {
        self.calls.take()
    }

    /// The servers' ends of the connections opened since the last time this was asked.
    pub fn connections(&self) -> Vec<DuplexStream> {
        self.connections.take()
    }

    /// The time that hooks wanted to let pass, in all.
    #[must_use]
    pub fn slept(&self) -> Duration {
        self.slept.get()
    }

    fn connection(&self) -> LocalFuture<Result<Box<dyn Io>, CallError>> {
        let (near, far) = tokio::io::duplex(CONNECTION_BYTES);
        self.connections.borrow_mut().push(far);
        Box::pin(ready(Ok(Box::new(near) as Box<dyn Io>)))
    }
}

impl Services for FakeServices {
    fn sleep(&self, time: Duration) -> LocalFuture<()> {
        self.slept.set(self.slept.get() + time);
        Box::pin(ready(()))
    }

    fn call(&self, _: &UpstreamChoice, call: Call) -> LocalFuture<Result<Answer, CallError>> {
        let mut headers = Vec::new();
        call.headers.write(&mut headers);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.calls.borrow_mut().push(MadeCall {
            method: call.method().to_owned(),
            authority: text(call.authority()),
            target: text(call.target()),
            headers: text(&headers),
            body: whole(call.body),
        });
        let refused = CallError { kind: CallErrorKind::Connection, reason: "connection refused" };
        let answer = self.answers.borrow_mut().pop_front().unwrap_or(Err(refused));
        Box::pin(ready(answer.map(|(status, fields, body)| Answer {
            status,
            fields,
            body: Box::new(Some(Bytes::from(body))),
        })))
    }

    fn connect(&self, _: &UpstreamChoice, _: Duration) -> LocalFuture<Result<Box<dyn Io>, CallError>> {
        self.connection()
    }

    fn connect_unix(&self, _: &Path, _: Duration) -> LocalFuture<Result<Box<dyn Io>, CallError>> {
        self.connection()
    }

    /// Runs the task as far as it comes without waiting.
    fn spawn(&self, mut task: LocalFuture<()>) -> Task {
        let _ = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        Task::new(move || drop(task))
    }
}

/// The bytes of a body that does not wait.
fn whole(body: CallBody) -> Vec<u8> {
    match body {
        CallBody::Empty => Vec::new(),
        CallBody::Bytes(bytes) => bytes.to_vec(),
        CallBody::Stream(mut source) => {
            let mut whole = Vec::new();
            while let Poll::Ready(Some(Ok(piece))) = source.poll_next(&mut Context::from_waker(Waker::noop()))
            {
                whole.extend_from_slice(&piece);
            }
            whole
        }
    }
}

impl fmt::Debug for FakeServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeServices").field("calls", &self.calls.borrow().len()).finish_non_exhaustive()
    }
}
