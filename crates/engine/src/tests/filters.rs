//! Bodies that pass taps and filters on their way, in both directions: filters that wait for a service, clients that leave
//! meanwhile, services that hang, upstreams that break off.

use super::fixture::{Peer, Served, engine, peer};
use plugin::{
    Awaited, BodyFilter, BodyView, Call, CallBody, CallErrorKind, CallTimeouts, Exchange, Flow, Hooks,
    OnAccess, OnLog, OnResponse, Rejected, UpstreamChoice, UpstreamResponse,
};
use serde_json::json;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::spawn;
use std::time::Duration;

/// How long something may take that is expected.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Which body passes the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Response,
}

/// Has a service asked about each piece of a body, and notes how exchanges end.
struct Asks {
    direction: Direction,
    ended: Sender<(u16, usize)>,
}

impl Asks {
    /// Asks with `POST /piece`; the answer takes the piece's place behind the request's path.
    fn filter(exchange: &Exchange<'_>) -> impl BodyFilter + use<> {
        let services = Rc::clone(exchange.services);
        Awaited::new(move |view: &mut BodyView<'_>, piece: Vec<u8>| {
            view.vars.push(("asked".to_owned(), piece.clone()));
            let path = view.request.head.path.get(view.request.bytes).to_vec();
            let services = Rc::clone(&services);
            async move {
                let call = Call::new("POST", "service", "/piece", CallTimeouts::all(PATIENCE));
                let mut call = call.map_err(io::Error::other)?;
                call.body = CallBody::Bytes(piece.into());
                let service = UpstreamChoice::Id("service".into());
                let answer = services.call(&service, call).await.map_err(|error| match error.kind {
                    CallErrorKind::Timeout => io::ErrorKind::TimedOut.into(),
                    _ => io::Error::other(error.reason),
                })?;
                let (status, _, made) =
                    answer.collect(1 << 20).await.map_err(|error| io::Error::other(error.reason))?;
                if status != 200 {
                    return Err(io::Error::other(Rejected(status)));
                }
                Ok([&path[..], &made].concat())
            }
        })
    }
}

impl OnAccess for Asks {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        if self.direction == Direction::Request {
            let filter = Self::filter(exchange);
            exchange.extras().request_filters.push(filter);
        }
        Flow::Next
    }
}

impl OnResponse for Asks {
    fn response(&self, exchange: &mut Exchange<'_>, _: &UpstreamResponse<'_>) {
        if self.direction == Direction::Response && exchange.upstream.status != 0 {
            let filter = Self::filter(exchange);
            exchange.extras().body_filters.push(filter);
        }
    }
}

impl OnLog for Asks {
    fn log(&self, exchange: &Exchange<'_>) {
        let asked = exchange.vars.iter().filter(|(name, _)| name == "asked").count();
        let _ = self.ended.send((exchange.status, asked));
    }
}

/// A service that answers each piece with itself in brackets: a piece with `gate` once the test lets it, one with `reject`
/// with 403, one with `hang` not at all.
struct Service {
    address: SocketAddr,
    asked: Receiver<String>,
    go: Sender<()>,
    /// Told when the client of an unanswered call has gone.
    left: Receiver<()>,
}

fn service() -> Service {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let ((ask, asked), (go, gate), (leave, left)) = (channel(), channel(), channel());
    let gate = Arc::new(Mutex::new(gate));
    spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, ask, gate, leave) =
                (stream.expect("a connection"), ask.clone(), Arc::clone(&gate), leave.clone());
            spawn(move || {
                while let Some(piece) = call(&mut stream) {
                    let _ = ask.send(piece.clone());
                    if piece.contains("hang") {
                        while stream.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
                        return leave.send(());
                    }
                    if piece.contains("gate") {
                        let _ = gate.lock().expect("no panic").recv();
                    }
                    let status = if piece.contains("reject") { "403 Forbidden" } else { "200 OK" };
                    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", piece.len() + 2);
                    if stream.write_all(format!("{head}[{piece}]").as_bytes()).is_err() {
                        break;
                    }
                }
                Ok(())
            });
        }
    });
    Service { address, asked, go, left }
}

/// The body of a call.
fn call(stream: &mut TcpStream) -> Option<String> {
    let head = until(stream, "\r\n\r\n").ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    let mut piece = vec![0; length.parse().expect("a number")];
    stream.read_exact(&mut piece).ok()?;
    Some(String::from_utf8(piece).expect("text"))
}

/// Reads up to and with `end`.
pub(super) fn until(stream: &mut TcpStream, end: &str) -> io::Result<String> {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        let mut byte = [0];
        if let Err(error) = stream.read_exact(&mut byte) {
            return Err(io::Error::new(error.kind(), format!("after {}", read.escape_ascii())));
        }
        read.push(byte[0]);
    }
    Ok(String::from_utf8(read).expect("text"))
}

/// Nothing comes for a while.
fn assert_silent(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(Duration::from_millis(150))).expect("a timeout");
    let read = stream.read(&mut [0; 64]);
    assert!(read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock), "{read:?}");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
}

/// A gateway whose filter asks `service`: with how its exchanges ended, status and questions.
fn gateway(direction: Direction, node: &Peer, service: &Service) -> (Served, Receiver<(u16, usize)>) {
    let (ended, ends) = channel();
    let mut served = engine(&[node.address], move || {
        let asks = Arc::new(Asks { direction, ended: ended.clone() });
        Hooks {
            access: Some(Arc::clone(&asks) as Arc<dyn OnAccess>),
            response: Some(Arc::clone(&asks) as Arc<dyn OnResponse>),
            log: Some(asks),
            ..Hooks::default()
        }
    });
    let nodes = json!({ "type": "roundrobin", "nodes": { service.address.to_string(): 1 } });
    served.control.put("/upstreams/service", &nodes);
    (served, ends)
}

/// A client that has sent this.
pub(super) fn client(served: &Served, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).expect("listened on");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(sent.as_bytes()).expect("sent");
    stream
}

pub(super) const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
pub(super) const POST: &str = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
pub(super) const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
pub(super) const DONE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone";

fn chunk(piece: &str) -> String {
    format!("{:x}\r\n{piece}\r\n", piece.len())
}

impl Service {
    /// Waits for a question.
    fn expect(&self, piece: &str) {
        assert_eq!(self.asked.recv_timeout(PATIENCE).as_deref(), Ok(piece));
    }
}

#[test]
fn a_response_filter_waits_in_the_middle_of_a_streamed_body() {
    let (node, service) = (peer(), service());
    let (served, ends) = gateway(Direction::Response, &node, &service);
    let mut client = client(&served, GET);
    node.expect("\r\n\r\n");
    node.say(CHUNKED);
    node.say(chunk("one"));
    service.expect("one");
    let head = until(&mut client, "\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("Transfer-Encoding: chunked"), "{head}");
    assert_eq!(until(&mut client, "]\r\n").expect("a piece"), "7\r\n/a[one]\r\n");
    // The service thinks about the second piece: the client gets nothing of it, nor of the third.
    node.say(chunk("gate"));
    service.expect("gate");
    node.say(chunk("three"));
    assert_silent(&mut client);
    service.go.send(()).expect("a service");
    service.expect("three");
    node.say("0\r\n\r\n".to_owned());
    let rest = until(&mut client, "\r\n0\r\n\r\n").expect("the rest");
    assert_eq!(rest, "8\r\n/a[gate]\r\n9\r\n/a[three]\r\n0\r\n\r\n");
    // Both connections carry another request.
    client.write_all(GET.replace("/a", "/b").as_bytes()).expect("sent");
    node.expect("\r\n\r\n");
    node.say(format!("{CHUNKED}{}0\r\n\r\n", chunk("four")));
    let head = until(&mut client, "\r\n\r\n").expect("a head");
    assert!(head.contains("Content-Length: 8"), "it was over before it was sent: {head}");
    until(&mut client, "/b[four]").expect("a body");
    assert_eq!([ends.recv_timeout(PATIENCE), ends.recv_timeout(PATIENCE)], [Ok((200, 3)), Ok((200, 1))]);
}

#[test]
fn a_request_filter_waits_in_the_middle_of_a_streamed_body() {
    let (node, service) = (peer(), service());
    let (served, ends) = gateway(Direction::Request, &node, &service);
    // A length that the filter changes is not passed on.
    for head in ["POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n", POST] {
        let framed = |piece: &str| if head == POST { chunk(piece) } else { piece.to_owned() };
        let mut client = client(&served, &(head.to_owned() + &framed("one")));
        service.expect("one");
        let sent = node.expect("]\r\n");
        assert!(
            sent.contains("Transfer-Encoding: chunked\r\n") && !sent.contains("Content-Length"),
            "{sent}"
        );
        assert!(sent.ends_with("\r\n\r\n7\r\n/a[one]\r\n"), "{sent}");
        client.write_all(framed("gate").as_bytes()).expect("sent");
        service.expect("gate");
        client.write_all(framed("three").as_bytes()).expect("sent");
        assert!(node.got.recv_timeout(Duration::from_millis(150)).is_err(), "nothing may come");
        service.go.send(()).expect("a service");
        service.expect("three");
        if head == POST {
            client.write_all(b"0\r\n\r\n").expect("sent");
        }
        assert_eq!(node.expect("\r\n0\r\n\r\n"), "8\r\n/a[gate]\r\n9\r\n/a[three]\r\n0\r\n\r\n");
        node.say(DONE);
        until(&mut client, "done").expect("an answer");
        assert_eq!(ends.recv_timeout(PATIENCE), Ok((200, 3)));
    }
}

/// Runs a client of HTTP/2.
fn http2<T>(served: &Served, test: impl AsyncFnOnce(h2::client::SendRequest<bytes::Bytes>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(served.address).await.expect("listened on");
        let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        let connection = tokio::spawn(connection);
        let done = tokio::time::timeout(PATIENCE, test(send)).await.expect("the test hangs");
        connection.abort();
        done
    })
}

fn asked(method: &str) -> http::Request<()> {
    http::Request::builder().method(method).uri("http://a/a").body(()).expect("a request")
}

#[test]
fn filters_wait_for_clients_of_http2() {
    let (node, service) = (peer(), service());
    let (served, ends) = gateway(Direction::Response, &node, &service);
    http2(&served, async |mut send| {
        let (response, _) = send.send_request(asked("GET"), true).expect("sent");
        node.say(CHUNKED.to_owned() + &chunk("one"));
        let mut body = response.await.expect("a head").into_body();
        assert_eq!(body.data().await.expect("a piece").expect("whole"), "/a[one]");
        node.say(chunk("gate"));
        let silent = tokio::time::timeout(Duration::from_millis(150), body.data()).await;
        assert!(silent.is_err(), "nothing may come");
        service.go.send(()).expect("a service");
        assert_eq!(body.data().await.expect("a piece").expect("whole"), "/a[gate]");
        node.say("0\r\n\r\n".to_owned());
        let end = body.data().await;
        assert!(end.is_none_or(|end| end.is_ok_and(|data| data.is_empty())) && body.is_end_stream());
    });
    assert_eq!(ends.recv_timeout(PATIENCE), Ok((200, 2)));
    let node = peer();
    let (served, ends) = gateway(Direction::Request, &node, &service);
    http2(&served, async |mut send| {
        let (response, mut body) = send.send_request(asked("POST"), false).expect("sent");
        body.send_data("one".into(), false).expect("sent");
        tokio::task::yield_now().await;
        // The upstream answers while the filter waits for the second piece.
        node.say(DONE.replace("done", "so"));
        let mut answer = response.await.expect("a head").into_body();
        assert_eq!(answer.data().await.expect("a piece").expect("whole"), "so");
        body.send_data("two".into(), true).expect("sent");
        let mut sent = Vec::new();
        while !sent.ends_with(b"\r\n0\r\n\r\n") {
            match node.got.try_recv() {
                Ok(bytes) => sent.extend(bytes),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
        let sent = String::from_utf8(sent).expect("text");
        assert!(sent.ends_with("\r\n\r\n7\r\n/a[one]\r\n7\r\n/a[two]\r\n0\r\n\r\n"), "{sent}");
        node.say("me");
        assert_eq!(answer.data().await.expect("a piece").expect("whole"), "me");
    });
    assert_eq!(ends.recv_timeout(PATIENCE), Ok((200, 2)));
}

#[test]
fn a_filter_that_fails_ends_the_exchange_with_its_status() {
    let (node, service) = (peer(), service());
    let (served, ends) = gateway(Direction::Response, &node, &service);
    for (piece, status) in [("reject", 403), ("hang", 504)] {
        // Nothing was sent yet.
        let mut first = client(&served, GET);
        node.say(CHUNKED.to_owned() + &chunk(piece));
        let head = until(&mut first, "\r\n\r\n").expect("a head");
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert_eq!(ends.recv_timeout(PATIENCE), Ok((status, 1)));
        node.close();
        // The head is out: cut off.
        let mut second = client(&served, GET);
        node.say(CHUNKED.to_owned() + &chunk("one"));
        until(&mut second, "[one]\r\n").expect("a piece");
        node.say(chunk(piece));
        let cut = until(&mut second, "0\r\n\r\n").expect_err("cut off");
        assert_eq!(cut.to_string(), "after ", "{piece}");
        assert_eq!(ends.recv_timeout(PATIENCE), Ok((200, 2)));
        node.close();
    }
    let (served, ends) = gateway(Direction::Request, &node, &service);
    for (piece, status) in [("reject", 403), ("hang", 504)] {
        let mut client = client(&served, &(POST.to_owned() + &chunk("one")));
        node.expect("[one]\r\n");
        client.write_all(chunk(piece).as_bytes()).expect("sent");
        let head = until(&mut client, "\r\n\r\n").expect("a head");
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert_eq!(ends.recv_timeout(PATIENCE), Ok((status, 2)));
        node.expect_close();
        node.close();
    }
}

#[test]
fn a_filter_is_cancelled_when_the_client_leaves() {
    let (node, service) = (peer(), service());
    let (served, ends) = gateway(Direction::Response, &node, &service);
    let first = client(&served, GET);
    node.say(CHUNKED.to_owned() + &chunk("hang"));
    service.expect("hang");
    drop(first);
    service.left.recv_timeout(PATIENCE).expect("the call is dropped");
    assert_eq!(ends.recv_timeout(PATIENCE), Ok((499, 1)));
    node.close();
    http2(&served, async |mut send| {
        let (response, stream) = send.send_request(asked("GET"), true).expect("sent");
        tokio::task::yield_now().await;
        node.say(CHUNKED.to_owned() + &chunk("hang"));
        while service.asked.try_recv().is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop((response, stream));
        // The connection goes on.
        while service.left.try_recv().is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert_eq!(ends.recv_timeout(PATIENCE), Ok((499, 1)));
    node.close();
    let (served, ends) = gateway(Direction::Request, &node, &service);
    let third = client(&served, &(POST.to_owned() + &chunk("hang")));
    service.expect("hang");
    drop(third);
    service.left.recv_timeout(PATIENCE).expect("the call is dropped");
    assert_eq!(ends.recv_timeout(PATIENCE), Ok((499, 1)));
}

#[test]
fn a_filter_is_cancelled_when_the_upstream_breaks_off() {
    let (node, service) = (peer(), service());
    let (served, ends) = gateway(Direction::Request, &node, &service);
    let mut posted = client(&served, &(POST.to_owned() + &chunk("hang")));
    service.expect("hang");
    node.expect("\r\n\r\n");
    node.close();
    let head = until(&mut posted, "\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    service.left.recv_timeout(PATIENCE).expect("the call is dropped");
    assert_eq!(ends.recv_timeout(PATIENCE), Ok((502, 1)));
    // What came before the end is still filtered and sent.
    let (served, ends) = gateway(Direction::Response, &node, &service);
    let mut got = client(&served, GET);
    node.say(CHUNKED.to_owned() + &chunk("gate"));
    service.expect("gate");
    node.close();
    service.go.send(()).expect("a service");
    until(&mut got, "/a[gate]\r\n").expect("a piece");
    until(&mut got, "0\r\n\r\n").expect_err("cut off");
    assert_eq!(ends.recv_timeout(PATIENCE), Ok((200, 1)));
}
