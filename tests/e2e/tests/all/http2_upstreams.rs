//! Upstreams that speak HTTP/2, frame by frame: what they refuse, reset and flood.

use super::http2_floods::{END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, SETTINGS, frame};
use e2e::{Gateway, Http2Client, Http2Upstream, Message, Peer, Upstream, asynchronously};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const REFUSED_STREAM: u32 = 7;
const INTERNAL_ERROR: u32 = 2;

/// `:status: 200`, and 103 as a literal, in HPACK.
const OK: &[u8] = b"\x88";
const EARLY_HINTS: &[u8] = b"\x08\x03103";

/// An upstream that answers each request with the frames that `answer` makes for its stream and its number, from 0, and
/// how many requests it has had.
fn upstream(
    answer: impl Fn(u32, usize) -> Vec<Vec<u8>> + Send + Sync + 'static,
) -> (Upstream, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let upstream = Upstream::serve(move |mut peer, _| {
        peer.bytes(24);
        peer.send(frame(SETTINGS, 0, 0, &[]));
        while let Some((kind, stream)) = read(&mut peer) {
            let frames = match kind {
                HEADERS => answer(stream, counted.fetch_add(1, Ordering::AcqRel)),
                _ => continue,
            };
            let last = frames.iter().any(|frame| frame[3] == GOAWAY);
            if peer.try_send(&frames.concat()).is_err() || last {
                return;
            }
        }
    });
    (upstream, count)
}

/// Reads one frame: its type and stream.
fn read(peer: &mut Peer) -> Option<(u8, u32)> {
    while peer.unused().len() < 9 {
        if !peer.fill().unwrap_or(false) {
            return None;
        }
    }
    let head = peer.bytes(9);
    peer.bytes(u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize);
    Some((head[3], u32::from_be_bytes([head[5], head[6], head[7], head[8]])))
}

fn ok(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, OK)
}

fn reset(stream: u32, reason: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &reason.to_be_bytes())
}

fn gateway(upstream: &Upstream) -> Gateway {
    let gateway = Gateway::with(json!({ "nginx_config": { "worker_processes": 1 } }));
    gateway.route_with(&upstream.address(), &json!({ "scheme": "grpc", "retries": 0 }), &json!({}));
    gateway
}

fn ask(gateway: &Gateway, method: &str) -> Message {
    let mut client = gateway.connect();
    client.send(format!("{method} /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"));
    client.response()
}

/// RFC 9113 section 8.7: such requests were not processed.
#[test]
fn requests_that_are_refused_unprocessed_are_sent_again_whatever_their_method() {
    let goaway = || frame(GOAWAY, 0, 0, &[0; 8]);
    let refused = |stream| reset(stream, REFUSED_STREAM);
    type Answer = fn(u32, usize, Vec<u8>, Vec<u8>) -> Vec<u8>;
    let cases: [(&str, Answer, u16, usize); 3] = [
        ("GOAWAY", |stream, n, goaway, _| if n == 1 { goaway } else { ok(stream) }, 200, 3),
        ("RST_STREAM", |stream, n, _, refused| if n == 1 { refused } else { ok(stream) }, 200, 3),
        ("always", |stream, n, _, refused| if n > 0 { refused } else { ok(stream) }, 502, 1 + 4),
    ];
    for (name, answer, status, requests) in cases {
        let (upstream, count) =
            upstream(move |stream, number| vec![answer(stream, number, goaway(), refused(stream))]);
        let gateway = gateway(&upstream);
        assert_eq!(ask(&gateway, "POST").status(), 200);
        assert_eq!(ask(&gateway, "POST").status(), status, "{name}");
        assert_eq!(count.load(Ordering::Acquire), requests, "{name}");
    }
}

#[test]
fn a_request_that_was_begun_and_reset_is_not_sent_again() {
    let (upstream, count) =
        upstream(|stream, number| vec![if number == 0 { ok(stream) } else { reset(stream, INTERNAL_ERROR) }]);
    let gateway = gateway(&upstream);
    assert_eq!(gateway.get("/a").status(), 200);
    assert_eq!(gateway.get("/a").status(), 502);
    assert_eq!(count.load(Ordering::Acquire), 2);
}

#[test]
fn interim_responses_are_passed_on_up_to_a_limit() {
    let (upstream, _) = upstream(|stream, number| {
        let interim = frame(HEADERS, END_HEADERS, stream, EARLY_HINTS);
        let mut frames = vec![interim; if number == 0 { 3 } else { 100_000 }];
        frames.push(ok(stream));
        frames
    });
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let statuses = [(); 4].map(|()| client.head().status());
    assert_eq!(statuses, [103, 103, 103, 200]);
    let mut client = gateway.connect();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(std::iter::repeat_with(|| client.head().status()).find(|status| *status != 103), Some(502));
}

/// The same in HTTP/1.1, where 100 is not passed on.
#[test]
fn an_upstream_that_continues_without_end_is_given_up() {
    let upstream = Upstream::answering(|_| b"HTTP/1.1 100 Continue\r\n\r\n".repeat(300_000));
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    assert_eq!(gateway.get("/").status(), 502);
}

/// What the gateway and its plugins add comes on top of the limits for peers.
#[test]
fn long_heads_pass_where_http1_passes_them() {
    let fields: String = (0..127).map(|number| format!("x-{number}: {}\r\n", "y".repeat(240))).collect();
    let answer = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 5\r\n\r\nhello");
    let upstream = Upstream::answering(move |_| answer.clone().into_bytes());
    let grpc = Http2Upstream::start();
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let node = |address: &str, scheme: &str| json!({ "type": "roundrobin", "scheme": scheme, "nodes": { address: 1 } });
    let abort = json!({ "fault-injection": { "abort": { "http_status": 999 } } });
    gateway.put(
        "routes/odd",
        &json!({ "uri": "/odd", "plugins": abort, "upstream": node(&upstream.address(), "http") }),
    );
    let set = json!({ "proxy-rewrite": { "headers": { "set": { "x-long": "z".repeat(10_000) } } } });
    gateway.put(
        "routes/long",
        &json!({ "uri": "/long", "plugins": set, "upstream": node(&grpc.address(), "grpc") }),
    );
    e2e::eventually("the routes are in use", || (gateway.get("/long").status() == 200).then_some(()));
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        assert_eq!(client.get("/").await, (200, b"hello".to_vec()));
        assert_eq!(client.get("/odd").await.0, 999);
        assert_eq!(client.get("/long").await.0, 200);
    });
}
