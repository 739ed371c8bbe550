//! Every timeout, met by a peer that is slow at exactly that point: one of them is a second long and all others are half a
//! minute, so that a case that ends in time has met the right one. And the reverse: whoever is slow but moves is not cut.

use crate::http2::{certify, curl};
use bytes::Bytes;
use e2e::{Gateway, Http2Client, Http2Upstream, Pattern, Peer, Upstream, asynchronously};
use rustix::net::{AddressFamily, SocketType};
use serde_json::{Value, json};
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// A peer's slowness at one point: its name, the timeout that is short, what happens, and what comes of it; and whether the
/// short timeout ends it.
struct Case(&'static str, &'static str, fn(&Gateway) -> String, &'static str, bool);

const CUT: bool = true;
const WHOLE: bool = false;

const CASES: &[Case] = &[
    Case("connect", "connect", connect, "504", CUT),
    Case("handshake with the upstream", "connect", secure, "504", CUT),
    Case("silent upstream", "read", silent, "504", CUT),
    Case("head in two pieces", "read", split_head, "200", WHOLE),
    Case("early hints", "read", early_hints, "103 200", WHOLE),
    Case("no head after hints", "read", hints_alone, "103 504", CUT),
    Case("half a response", "read", half_response, "cut at 5", CUT),
    Case("slow response", "read", slow_response, "200", WHOLE),
    Case("slow upload", "read", slow_upload, "200", WHOLE),
    Case("upstream takes nothing", "send", takes_nothing, "504", CUT),
    Case("upstream takes little", "send", takes_little, "200", WHOLE),
    Case("head by bytes", "header", head_by_bytes, "408", CUT),
    Case("no byte of a body", "body", no_body, "408, 0 asked", CUT),
    Case("no chunk", "body", no_chunk, "408, 0 asked", CUT),
    Case("half a body", "body", half_body, "408", CUT),
    Case("half a body, HTTP/2", "body", half_body_http2, "408", CUT),
    Case("body by pieces", "body", slow_upload, "200", WHOLE),
    Case("silent beside its answer", "body", answered, "200", WHOLE),
    Case("call without a message", "body", call, "200", WHOLE),
    Case("client takes nothing", "write", reads_nothing, "cut", CUT),
    Case("nothing, HTTP/2", "write", reads_nothing_http2, "cut", CUT),
    Case("client takes little", "write", reads_little, "200", WHOLE),
    Case("little of a file", "write", reads_file, "200", WHOLE),
    Case("little, TLS", "write", reads_tls, "200 1.1 6000000", WHOLE),
    Case("little, HTTP/2", "write", reads_http2, "200 2 6000000", WHOLE),
    Case("idle", "keepalive", idle, "200 closed", CUT),
    Case("idle, HTTP/2", "keepalive", idle_http2, "200 closed", CUT),
    Case("half a hello", "handshake", half_hello, "closed", CUT),
];

#[test]
fn each_timeout_ends_what_it_is_for_and_nothing_else() {
    let mut shorts: Vec<&str> = CASES.iter().map(|case| case.1).collect();
    shorts.dedup();
    let wrong: Vec<String> = scope(|threads| {
        let groups = shorts.iter().map(|short| {
            threads.spawn(move || {
                let gateway = &gateway(short);
                let cases = CASES.iter().filter(|case| case.1 == *short);
                scope(|threads| {
                    let running: Vec<_> =
                        cases.map(|case| threads.spawn(move || judge(case, gateway))).collect();
                    running.into_iter().filter_map(|case| case.join().unwrap()).collect::<Vec<_>>()
                })
            })
        });
        let groups: Vec<_> = groups.collect();
        groups.into_iter().flat_map(|group| group.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn judge(Case(name, _, run, expected, cut): &Case, gateway: &Gateway) -> Option<String> {
    let started = Instant::now();
    let outcome = run(gateway);
    let took = started.elapsed();
    // No deadline comes early. Late by the resolution, and by what a busy machine adds.
    let timely = !cut || (Duration::from_millis(1000)..Duration::from_secs(12)).contains(&took);
    let right = outcome == *expected && timely;
    (!right).then(|| format!("{name}: {outcome:?} instead of {expected:?} after {took:?}"))
}

/// A gateway with one short timeout.
fn gateway(short: &str) -> Gateway {
    let time = |name: &str| if name == short { "1s" } else { "30s" };
    let gateway = Gateway::with_http(&json!({
        "ssl_handshake_timeout": time("handshake"),
        "client_header_timeout": time("header"),
        "client_body_timeout": time("body"),
        "send_timeout": time("write"),
        "keepalive_timeout": time("keepalive"),
    }));
    certify(&gateway, "a.test");
    gateway
}

/// Sends the path `/NAME` to `address`; the upstream's timeout that the case is about is short.
fn route(gateway: &Gateway, name: &str, address: &str, more: &Value) {
    let short = CASES.iter().find(|case| case.0 == name).map_or("", |case| case.1);
    let time = |name: &str| if name == short { 1 } else { 30 };
    let mut upstream = json!({
        "nodes": { address: 1 }, "type": "roundrobin", "retries": 0,
        "timeout": { "connect": time("connect"), "send": time("send"), "read": time("read") },
    });
    upstream.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let path = path(name);
    gateway.put(&format!("routes{path}"), &json!({ "uri": path, "upstream": upstream }));
}

/// The path of a case.
fn path(name: &str) -> String {
    format!("/{}", name.replace([' ', ',', '/'], "-"))
}

fn statuses(client: &mut Peer) -> String {
    let mut all = Vec::new();
    loop {
        let status = client.response().status();
        all.push(status.to_string());
        if status >= 200 {
            return all.join(" ");
        }
    }
}

/// Asks for the path of `name`.
fn begin(gateway: &Gateway, name: &str) -> Peer {
    let mut client = gateway.connect();
    client.send(format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", path(name)));
    client
}

/// The same, and the statuses that come.
fn ask(gateway: &Gateway, name: &str) -> String {
    statuses(&mut begin(gateway, name))
}

/// An upstream that reads a head and then does as it is told.
fn upstream(serve: fn(&mut Peer)) -> Upstream {
    Upstream::serve(move |mut peer, _| {
        while peer.try_head().is_ok() {
            serve(&mut peer);
        }
    })
}

fn pause(millis: u64) {
    sleep(Duration::from_millis(millis));
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A listener whose queue is full, so that a further connection is never made.
fn connect(gateway: &Gateway) -> String {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    let patience = Duration::from_millis(300);
    let mut held = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, patience) {
        held.push(stream);
    }
    route(gateway, "connect", &address.to_string(), &json!({}));
    ask(gateway, "connect")
}

fn secure(gateway: &Gateway) -> String {
    let upstream = Upstream::serve(|peer, _| {
        let _ = (&mut peer.stream()).read(&mut [0; 10_000]);
        pause(5000);
    });
    let name = "handshake with the upstream";
    route(gateway, name, &upstream.address(), &json!({ "scheme": "https" }));
    ask(gateway, name)
}

fn silent(gateway: &Gateway) -> String {
    let upstream = upstream(|peer| drop(peer.fill()));
    route(gateway, "silent upstream", &upstream.address(), &json!({}));
    ask(gateway, "silent upstream")
}

fn split_head(gateway: &Gateway) -> String {
    let upstream = upstream(|peer| {
        peer.send(&OK[..20]);
        pause(300);
        peer.send(&OK[20..30]);
        pause(700);
        peer.send(&OK[30..]);
    });
    route(gateway, "head in two pieces", &upstream.address(), &json!({}));
    ask(gateway, "head in two pieces")
}

fn early_hints(gateway: &Gateway) -> String {
    let upstream = upstream(|peer| {
        peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
        pause(300);
        peer.send(OK);
    });
    route(gateway, "early hints", &upstream.address(), &json!({}));
    ask(gateway, "early hints")
}

fn hints_alone(gateway: &Gateway) -> String {
    let upstream = upstream(|peer| {
        peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
        let _ = peer.fill();
    });
    route(gateway, "no head after hints", &upstream.address(), &json!({}));
    ask(gateway, "no head after hints")
}

fn half_response(gateway: &Gateway) -> String {
    let upstream = upstream(|peer| {
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
        let _ = peer.fill();
    });
    route(gateway, "half a response", &upstream.address(), &json!({}));
    let mut client = begin(gateway, "half a response");
    client.head();
    while client.fill().is_ok_and(|more| more) {}
    format!("cut at {}", client.unused().len())
}

fn slow_response(gateway: &Gateway) -> String {
    let upstream = upstream(|peer| {
        for piece in [&OK[..40], &OK[40..41], &OK[41..42], &OK[42..]] {
            peer.send(piece);
            pause(500);
        }
    });
    route(gateway, "slow response", &upstream.address(), &json!({}));
    ask(gateway, "slow response")
}

/// A body whose bytes come more often than `client_body_timeout` asks for, and which takes longer than `read`.
fn slow_upload(gateway: &Gateway) -> String {
    let (upstream, _) = Upstream::recording();
    route(gateway, "slow upload", &upstream.address(), &json!({}));
    let mut client = gateway.connect();
    client.send("POST /slow-upload HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    for byte in b"hello" {
        pause(500);
        client.send([*byte]);
    }
    statuses(&mut client)
}

const BIG: usize = 32 << 20;

/// Sends a large body from a thread of its own and reads the answer.
fn upload(gateway: &Gateway, name: &str) -> String {
    let mut client = gateway.connect();
    let mut sending = Peer::new(client.stream().try_clone().unwrap());
    let head = format!("POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: {BIG}\r\n\r\n", path(name));
    scope(|threads| {
        threads.spawn(move || {
            sending.send(head);
            let _ = sending.try_send(&vec![b'x'; BIG]);
        });
        let status = statuses(&mut client);
        let _ = client.stream().shutdown(std::net::Shutdown::Both);
        status
    })
}

fn takes_nothing(gateway: &Gateway) -> String {
    let upstream = Upstream::serve(|peer, _| {
        pause(8000);
        drop(peer);
    });
    route(gateway, "upstream takes nothing", &upstream.address(), &json!({}));
    upload(gateway, "upstream takes nothing")
}

fn takes_little(gateway: &Gateway) -> String {
    let upstream = upstream(|peer| {
        let mut left = BIG - peer.unused().len();
        let mut piece = vec![0; 2 << 20];
        while left > 0 {
            pause(100);
            let room = piece.len().min(left);
            (&mut peer.stream()).read_exact(&mut piece[..room]).unwrap();
            left -= room;
        }
        peer.send(OK);
    });
    route(gateway, "upstream takes little", &upstream.address(), &json!({}));
    upload(gateway, "upstream takes little")
}

fn head_by_bytes(gateway: &Gateway) -> String {
    let mut client = gateway.connect();
    for byte in b"GET / HTTP/1.1\r\nHost: a".iter().cycle().take(100) {
        if client.try_send(&[*byte]).is_err() || !client.is_quiet(Duration::from_millis(200)) {
            break;
        }
    }
    statuses(&mut client)
}

/// A request that announces a body and sends none of it holds no connection to the upstream.
fn bodiless(gateway: &Gateway, name: &str, framing: &str) -> String {
    let upstream = Upstream::hello();
    route(gateway, name, &upstream.address(), &json!({}));
    let mut client = gateway.connect();
    client.send(format!("POST {} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n", path(name)));
    let status = statuses(&mut client);
    format!("{status}, {} asked", upstream.connections())
}

fn no_body(gateway: &Gateway) -> String {
    bodiless(gateway, "no byte of a body", "Content-Length: 10")
}

fn no_chunk(gateway: &Gateway) -> String {
    bodiless(gateway, "no chunk", "Transfer-Encoding: chunked")
}

fn half_body(gateway: &Gateway) -> String {
    let upstream = Upstream::hello();
    route(gateway, "half a body", &upstream.address(), &json!({}));
    let mut client = gateway.connect();
    client.send("POST /half-a-body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    statuses(&mut client)
}

fn half_body_http2(gateway: &Gateway) -> String {
    let upstream = Upstream::hello();
    route(gateway, "half a body, HTTP/2", &upstream.address(), &json!({}));
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let (response, mut send) =
            client.begin("POST", &path("half a body, HTTP/2"), &[("content-length", "10")], false).await;
        send.send_data(Bytes::from("hello"), false).unwrap();
        response.await.unwrap().status().as_u16().to_string()
    })
}

/// The upstream answers before it has the body, slowly; the client is silent meanwhile, and is no longer asked for more.
fn answered(gateway: &Gateway) -> String {
    let upstream = upstream(|peer| {
        for piece in [&OK[..39], &OK[39..40], &OK[40..41], &OK[41..42], &OK[42..]] {
            peer.send(piece);
            pause(500);
        }
    });
    route(gateway, "silent beside its answer", &upstream.address(), &json!({}));
    let mut client = gateway.connect();
    client.send("POST /silent-beside-its-answer HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx");
    statuses(&mut client)
}

/// A gRPC client may wait for the response's head before it sends anything.
fn call(gateway: &Gateway) -> String {
    let upstream = Http2Upstream::start();
    let nodes = json!({ "scheme": "grpc", "nodes": { upstream.address(): 1 } });
    gateway.put("routes/call", &json!({ "uri": "/call/echo", "upstream": nodes }));
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let (response, mut send) =
            client.begin("POST", "/call/echo", &[("content-type", "application/grpc")], false).await;
        let response = response.await.unwrap();
        send.send_data(Bytes::new(), true).unwrap();
        response.status().as_u16().to_string()
    })
}

/// A response without end; the test sees when it was cut off.
fn endless(gateway: &Gateway, name: &str) -> (Upstream, std::sync::mpsc::Receiver<()>) {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::serve(move |mut peer, _| {
        if peer.request().is_ok() {
            peer.send("HTTP/1.1 200 OK\r\n\r\n");
            while peer.try_send(&[b'x'; 64 * 1024]).is_ok() {}
            let _ = tell.send(());
        }
    });
    route(gateway, name, &upstream.address(), &json!({}));
    (upstream, told)
}

fn cut(told: &std::sync::mpsc::Receiver<()>) -> String {
    if told.recv_timeout(Duration::from_secs(14)).is_ok() { "cut".to_owned() } else { "goes on".to_owned() }
}

fn reads_nothing(gateway: &Gateway) -> String {
    let (_upstream, told) = endless(gateway, "client takes nothing");
    let _client = begin(gateway, "client takes nothing");
    cut(&told)
}

fn reads_nothing_http2(gateway: &Gateway) -> String {
    let (_upstream, told) = endless(gateway, "nothing, HTTP/2");
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let (response, _send) = client.begin("GET", &path("nothing, HTTP/2"), &[], true).await;
        let held = response.await.unwrap();
        let outcome = tokio::task::spawn_blocking(move || cut(&told)).await.unwrap();
        drop(held);
        outcome
    })
}

/// A client with little room, so that what it doesn't read waits in the gateway.
fn small_client(gateway: &Gateway) -> Peer {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 32 * 1024).unwrap();
    rustix::net::connect(&socket, &SocketAddr::from(([127, 0, 0, 1], gateway.port))).unwrap();
    Peer::new(TcpStream::from(socket))
}

/// Reads `length` bytes of a body slowly: so many at once, ten times a second.
fn read_slowly(client: &mut Peer, length: usize, at_once: usize) -> String {
    let head = client.head();
    let mut got = client.unused().len();
    let mut piece = vec![0; at_once];
    while got < length {
        pause(100);
        match client.stream().read(&mut piece) {
            Ok(count) if count > 0 => got += count,
            _ => return format!("cut at {got}"),
        }
    }
    head.status().to_string()
}

fn reads_little(gateway: &Gateway) -> String {
    let upstream = Upstream::answering(|_| {
        [b"HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\n", &Pattern::bytes(4_000_000)[..]].concat()
    });
    route(gateway, "client takes little", &upstream.address(), &json!({}));
    let mut client = small_client(gateway);
    client.send("GET /client-takes-little HTTP/1.1\r\nHost: a\r\n\r\n");
    read_slowly(&mut client, 4_000_000, 128 * 1024)
}

/// A file that is kept in memory leaves in large pieces: each of them may take longer than `send_timeout`.
fn reads_file(gateway: &Gateway) -> String {
    std::fs::write(gateway.dir().join("file"), Pattern::bytes(1 << 20)).unwrap();
    gateway.put("routes/file", &json!({ "uri": "/file", "static": { "root": gateway.dir() } }));
    let mut client = small_client(gateway);
    client.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    read_slowly(&mut client, 1 << 20, 32 * 1024)
}

/// By curl, which reads 4 MB a second: the kernel's buffer, of which a third has to be free before the gateway can write
/// again, has up to 4 MB.
fn reads_by_curl(gateway: &Gateway, name: &str, version: &str) -> String {
    let upstream = Upstream::answering(|_| {
        [b"HTTP/1.1 200 OK\r\nContent-Length: 6000000\r\n\r\n", &Pattern::bytes(6_000_000)[..]].concat()
    });
    route(gateway, name, &upstream.address(), &json!({}));
    let (port, path) = (gateway.tls_port, path(name));
    let resolve = format!("a.test:{port}:127.0.0.1");
    let out = gateway.dir().join(&path[1..]);
    let url = format!("https://a.test:{port}{path}");
    curl(&["--resolve", &resolve, version, "--limit-rate", "4000k"], &url, &out)
}

fn reads_tls(gateway: &Gateway) -> String {
    reads_by_curl(gateway, "little, TLS", "--http1.1")
}

fn reads_http2(gateway: &Gateway) -> String {
    reads_by_curl(gateway, "little, HTTP/2", "--http2")
}

fn end(client: &mut Peer) -> String {
    if client.is_closed() { "closed".to_owned() } else { "open".to_owned() }
}

fn idle(gateway: &Gateway) -> String {
    let upstream = Upstream::hello();
    route(gateway, "idle", &upstream.address(), &json!({}));
    let mut client = gateway.connect();
    let status = client.get("/idle").status();
    format!("{status} {}", end(&mut client))
}

fn idle_http2(gateway: &Gateway) -> String {
    let upstream = Upstream::hello();
    route(gateway, "idle, HTTP/2", &upstream.address(), &json!({}));
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let (status, _) = client.get(&path("idle, HTTP/2")).await;
        let ended = tokio::time::timeout(Duration::from_secs(14), &mut client.ended).await;
        format!("{status} {}", if ended.is_ok() { "closed" } else { "open" })
    })
}

fn half_hello(gateway: &Gateway) -> String {
    let mut client = Peer::connect(gateway.tls_port);
    // The head of a record with a ClientHello of 512 bytes, and the beginning of that.
    client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    end(&mut client)
}
