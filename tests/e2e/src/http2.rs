//! Both ends of HTTP/2 without TLS: a client that can do what curl can't, and an upstream that speaks gRPC's way.

use bytes::Bytes;
use h2::client::SendRequest;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// How long a test may wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs an asynchronous test.
pub fn asynchronously<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("the test hangs") })
}

/// A client's connection.
#[derive(Debug)]
pub struct Http2Client {
    /// Where requests begin.
    pub send: SendRequest<Bytes>,
    /// Told how the connection ended.
    pub ended: oneshot::Receiver<Result<(), h2::Error>>,
}

impl Http2Client {
    /// A connection to `port` on 127.0.0.1.
    pub async fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap();
        // A stream that is not read must not keep the others waiting.
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(1 << 16).initial_connection_window_size(1 << 24);
        let (send, connection) = builder.handshake(stream).await.unwrap();
        let (end, ended) = oneshot::channel();
        tokio::spawn(async move {
            let _ = end.send(connection.await);
        });
        Self { send, ended }
    }

    /// Begins a request; its body is still to be sent unless `ends`.
    pub async fn begin(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        ends: bool,
    ) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
        let mut request = Request::builder().method(method).uri(format!("http://a.test{path}"));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut send = self.send.clone().ready().await.unwrap();
        send.send_request(request.body(()).unwrap(), ends).unwrap()
    }

    /// The response to a GET: status, body and trailers.
    pub async fn get(&mut self, path: &str) -> (u16, Vec<u8>) {
        let (response, _) = self.begin("GET", path, &[], true).await;
        let response = response.await.unwrap();
        let status = response.status().as_u16();
        (status, read(&mut response.into_body()).await.0)
    }
}

/// Reads a body to its end, and the trailers.
async fn read(body: &mut RecvStream) -> (Vec<u8>, HeaderMap) {
    let mut whole = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        let _ = body.flow_control().release_capacity(data.len());
        whole.extend_from_slice(&data);
    }
    (whole, body.trailers().await.unwrap().unwrap_or_default())
}

/// An upstream that answers as gRPC servers do.
///
/// By the last segment of the path, so that services may have any name: `echo` sends back each piece of the body as it comes, and then trailers: `grpc-status: 0`, and the request's own;
/// `error` answers with a head alone, `reset` not at all; `wait` with a head and no end, until it is told to stop; any other path with what it was asked, as text.
#[derive(Debug)]
pub struct Http2Upstream {
    /// Its port on 127.0.0.1.
    pub port: u16,
    counts: Arc<Counts>,
}

/// What an upstream has seen so far.
#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
    cancelled: AtomicUsize,
}

impl Http2Upstream {
    /// Starts one. It ends with the process.
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let counts = Arc::<Counts>::default();
        let counted = Arc::clone(&counts);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    counted.connections.fetch_add(1, Ordering::AcqRel);
                    tokio::spawn(serve(stream, Arc::clone(&counted)));
                }
            });
        });
        Self { port, counts }
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::Acquire)
    }

    /// Requests begun so far.
    pub fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::Acquire)
    }

    /// Calls of `/wait` that were taken back so far.
    pub fn cancelled(&self) -> usize {
        self.counts.cancelled.load(Ordering::Acquire)
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

async fn serve(stream: TcpStream, counts: Arc<Counts>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        counts.requests.fetch_add(1, Ordering::AcqRel);
        tokio::spawn(answer(request, respond, Arc::clone(&counts)));
    }
}

async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, counts: Arc<Counts>) {
    let (parts, mut body) = request.into_parts();
    let head = Response::builder().header("content-type", "application/grpc");
    match parts.uri.path().rsplit('/').next().unwrap_or_default() {
        "error" => {
            let head = head.header("grpc-status", "5").header("grpc-message", "nobody");
            // The same in protobuf.
            let head = head.header("grpc-status-details-bin", "CAUSBm5vYm9keQ");
            let _ = respond.send_response(head.body(()).unwrap(), true);
        }
        "reset" => respond.send_reset(Reason::INTERNAL_ERROR),
        "wait" => {
            let mut send = respond.send_response(head.body(()).unwrap(), false).unwrap();
            if poll_fn(|cx| send.poll_reset(cx)).await.is_ok() {
                counts.cancelled.fetch_add(1, Ordering::AcqRel);
            }
        }
        "echo" => {
            let mut send = respond.send_response(head.body(()).unwrap(), false).unwrap();
            while let Some(Ok(data)) = body.data().await {
                let _ = body.flow_control().release_capacity(data.len());
                let _ = send.send_data(data, false);
            }
            let Ok(trailers) = body.trailers().await else { return };
            let mut trailers = trailers.unwrap_or_default();
            trailers.insert("grpc-status", "0".parse().unwrap());
            let _ = send.send_trailers(trailers);
        }
        _ => {
            let field = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("-");
            let text = format!("{} {} te={}", parts.method, parts.uri, field("te"));
            let mut send = respond.send_response(Response::new(()), false).unwrap();
            let _ = send.send_data(text.into(), true);
        }
    }
}
