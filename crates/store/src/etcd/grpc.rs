//! gRPC on one HTTP/2 connection: a message is a length and bytes, a call a POST whose answer ends in trailers.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{Ping, RecvStream, SendStream};
use http::{HeaderMap, Request};
use prost::Message;
use tokio::task::JoinHandle;

use super::endpoint::{Endpoint, EtcdTls};
use super::failure::Failure;

/// What may be under way on a stream and on the connection: 4 MiB, so that a listing of 100 MB doesn't wait for
/// acknowledgements, and no more is ever held here than that and one message.
const WINDOW: u32 = 4 << 20;

/// Largest message taken. A page of a listing has 512 values of at most 1.5 MiB; no cluster holds so many of them.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// How often a quiet connection is asked for a sign of life. etcd closes connections of clients that ask more often
/// than every 5 s (`--grpc-keepalive-min-time`).
const PING_INTERVAL: Duration = Duration::from_secs(6);

/// How long a sign of life may take.
const PONG_TIMEOUT: Duration = Duration::from_secs(4);

/// A connection to one member. Calls share it; dropping the last share closes it.
#[derive(Debug)]
pub(crate) struct Channel {
    send: SendRequest<Bytes>,
    endpoint: Endpoint,
    driver: JoinHandle<()>,
    /// Whether the member is known to have the configuration in use.
    pub(super) verified: AtomicBool,
}

/// The answers of a call that goes on.
#[derive(Debug)]
pub(crate) struct Stream {
    answers: Answers,
    /// Held open: etcd ends a watch when the client's side closes.
    _requests: SendStream<Bytes>,
    /// Keeps the connection.
    _channel: Arc<Channel>,
}

impl Channel {
    /// Connects, and drives the connection from then on.
    pub(crate) async fn connect(endpoint: &Endpoint, tls: Option<&EtcdTls>) -> Result<Self, Failure> {
        let unsent = |error: String| Failure::Unsent(format!("{endpoint}: {error}"));
        let transport = endpoint.connect(tls).await.map_err(unsent)?;
        let (send, mut connection) = h2::client::Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(transport)
            .await
            .map_err(|error| unsent(error.to_string()))?;
        let ping = connection.ping_pong();
        let driver = tokio::spawn(async move {
            tokio::select! {
                // Whoever waits for an answer is told by the connection's end.
                _ = connection => {}
                () = silence(ping) => {}
            }
        });
        Ok(Self { send, endpoint: endpoint.clone(), driver, verified: AtomicBool::new(false) })
    }

    /// The member.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether it is of use for a next call.
    pub(crate) fn is_open(&self) -> bool {
        !self.driver.is_finished()
    }

    /// One request, one answer.
    pub(crate) async fn call<Q: Message, A: Message + Default>(
        &self,
        path: &str,
        request: &Q,
        token: Option<&str>,
    ) -> Result<A, Failure> {
        let (_requests, mut answers) = self.begin(path, request, token, true).await?;
        let answer = answers.next().await?;
        answer.ok_or_else(|| Failure::Lost(format!("{}: an answer without content", self.endpoint)))
    }

    /// A request that is answered again and again.
    pub(crate) async fn stream<Q: Message>(
        self: &Arc<Self>,
        path: &str,
        request: &Q,
        token: Option<&str>,
    ) -> Result<Stream, Failure> {
        let (requests, answers) = self.begin(path, request, token, false).await?;
        Ok(Stream { answers, _requests: requests, _channel: Arc::clone(self) })
    }

    async fn begin<Q: Message>(
        &self,
        path: &str,
        request: &Q,
        token: Option<&str>,
        only: bool,
    ) -> Result<(SendStream<Bytes>, Answers), Failure> {
        let unsent = |error: &dyn std::fmt::Display| Failure::Unsent(format!("{}: {error}", self.endpoint));
        let scheme = if self.endpoint.tls { "https" } else { "http" };
        let mut head = Request::post(format!("{scheme}://{}{path}", self.endpoint.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(token) = token {
            head = head.header("token", token);
        }
        let head = head.body(()).map_err(|error| unsent(&error))?;
        let mut send = self.send.clone().ready().await.map_err(|error| unsent(&error))?;
        let (response, mut requests) = send.send_request(head, false).map_err(|error| unsent(&error))?;
        let lost = |error: &h2::Error| Failure::Lost(format!("{}: {error}", self.endpoint));
        requests.send_data(frame(request), only).map_err(|error| lost(&error))?;
        let response = response.await.map_err(|error| lost(&error))?;
        if let Some(failure) = status(response.headers()) {
            return Err(failure);
        }
        if response.status() != 200 {
            return Err(Failure::Lost(format!("{}: HTTP status {}", self.endpoint, response.status())));
        }
        let body = response.into_body();
        Ok((requests, Answers { body, read: BytesMut::new(), member: self.endpoint.to_string() }))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Stream {
    /// The next answer; `None` at a regular end. Dropping the future loses nothing.
    pub(crate) async fn next<A: Message + Default>(&mut self) -> Result<Option<A>, Failure> {
        self.answers.next().await
    }
}

/// What comes back on one call.
#[derive(Debug)]
struct Answers {
    body: RecvStream,
    read: BytesMut,
    member: String,
}

impl Answers {
    async fn next<A: Message + Default>(&mut self) -> Result<Option<A>, Failure> {
        loop {
            if let Some(message) = self.take()? {
                let decoded = A::decode(message);
                return decoded.map(Some).map_err(|error| self.lost(&error));
            }
            match self.body.data().await {
                Some(Ok(data)) => {
                    self.body
                        .flow_control()
                        .release_capacity(data.len())
                        .map_err(|error| self.lost(&error))?;
                    self.read.extend_from_slice(&data);
                }
                Some(Err(error)) => return Err(self.lost(&error)),
                None => {
                    let trailers = self.body.trailers().await.map_err(|error| self.lost(&error))?;
                    return trailers.as_ref().and_then(status).map_or(Ok(None), Err);
                }
            }
        }
    }

    /// A message that is there in full.
    fn take(&mut self) -> Result<Option<Bytes>, Failure> {
        let Some(mut head) = self.read.get(..5) else { return Ok(None) };
        if head.get_u8() != 0 {
            return Err(self.lost(&"a compressed message, which was not asked for"));
        }
        let length = usize::try_from(head.get_u32()).unwrap_or(usize::MAX);
        if length > MESSAGE_BYTES_MAX {
            return Err(self.lost(&format!("a message of {length} bytes")));
        }
        if self.read.len() < 5 + length {
            self.read.reserve(5 + length - self.read.len());
            return Ok(None);
        }
        self.read.advance(5);
        Ok(Some(self.read.split_to(length).freeze()))
    }

    fn lost(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::Lost(format!("{}: {error}", self.member))
    }
}

/// Ends when the other side gives no sign of life: one that is stopped keeps its sockets open.
async fn silence(ping: Option<h2::PingPong>) {
    let Some(mut ping) = ping else { return std::future::pending().await };
    loop {
        tokio::time::sleep(PING_INTERVAL).await;
        if !matches!(tokio::time::timeout(PONG_TIMEOUT, ping.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
        }
    }
}

fn frame<Q: Message>(message: &Q) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(5 + length);
    frame.put_u8(0);
    // Requests have at most some 4 MiB.
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode_raw(&mut frame);
    frame.freeze()
}

/// What `grpc-status` says, if it is an error.
fn status(headers: &HeaderMap) -> Option<Failure> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let code: u32 = text("grpc-status")?.parse().unwrap_or(2);
    if code == 0 {
        return None;
    }
    let message = text("grpc-message").unwrap_or("no reason given");
    let message = percent_encoding::percent_decode_str(message).decode_utf8_lossy().into_owned();
    Some(Failure::Refused { code, message })
}
