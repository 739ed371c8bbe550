//! Responses compressed on their way, whatever their length, framing and pace.

use e2e::{Gateway, Message, Pattern, Upstream};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// A page of the length that the request's path says, with a length or in chunks.
fn page(request: &Message) -> Vec<u8> {
    let target = request.start.split(' ').nth(1).unwrap();
    let (form, size) = target.trim_start_matches('/').split_once('/').unwrap();
    let body = Pattern::bytes(size.parse().unwrap());
    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"1\"\r\n".to_vec();
    if form == "chunked" {
        answer.extend(b"Transfer-Encoding: chunked\r\n\r\n");
        for piece in body.chunks(10_000) {
            answer.extend(format!("{:x}\r\n", piece.len()).bytes());
            answer.extend(piece);
            answer.extend(b"\r\n");
        }
        answer.extend(b"0\r\nX-Sum: 1\r\n\r\n");
    } else {
        answer.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
        answer.extend(body);
    }
    answer
}

fn route(gateway: &Gateway, address: &str, plugins: &Value) {
    gateway.route_with(address, &json!({}), &json!({ "plugins": plugins }));
}

#[test]
fn bodies_of_any_length_come_out_as_they_went_in() {
    let upstream = Upstream::answering(page);
    let gateway = Gateway::start();
    route(&gateway, &upstream.address(), &json!({"gzip": {"vary": true}, "brotli": {}}));
    let out = gateway.dir().join("out");
    for (encoding, protocol) in
        [("gzip", "--http1.1"), ("br", "--http1.1"), ("gzip", "--http1.0"), ("br", "--http2-prior-knowledge")]
    {
        for path in ["length/20", "length/65537", "length/5000001", "chunked/1", "chunked/300000"] {
            let mut curl = Command::new("curl");
            curl.args(["-s", "--max-time", "60", "--compressed", protocol, "-w", "%{http_code}", "-o"])
                .arg(&out);
            curl.arg("-H").arg(format!("Accept-Encoding: {encoding}"));
            let output = curl.arg(format!("http://127.0.0.1:{}/{path}", gateway.port)).output().unwrap();
            assert_eq!(output.stdout, b"200", "{encoding} {protocol} {path}");
            let size = path.split_once('/').unwrap().1.parse().unwrap();
            Pattern::check(&std::fs::read(&out).unwrap(), size);
        }
    }
    let mut client = gateway.connect();
    // A body that ends before anything of it has to leave has a length; a longer one goes in chunks, trailers kept.
    client.send("GET /length/2000 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let short = client.response();
    assert_eq!((short.field("content-encoding"), short.field("etag")), (Some("gzip"), Some("W/\"1\"")));
    assert_eq!(short.field("content-length"), Some(short.body.len().to_string().as_str()));
    client.send("GET /chunked/3000000 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let long = client.response();
    assert!(long.lists("transfer-encoding", "chunked") && long.field("content-length").is_none());
    assert_eq!(
        (long.field("vary"), &long.trailers[..]),
        (Some("Accept-Encoding"), &["X-Sum: 1".to_owned()][..])
    );
    client.send("HEAD /length/2000 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = client.try_response("HEAD").unwrap();
    assert_eq!((head.field("content-encoding"), head.field("content-length")), (Some("gzip"), None));
    // The connections on both sides went on to be used.
    assert_eq!(client.get("/length/20").body.len(), 20);
}

#[test]
fn events_are_not_held_back() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Upstream::serve(move |mut peer, _| {
        peer.request().unwrap();
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
        wait.lock().unwrap().recv().unwrap();
        peer.send("data: 2\n\n");
    });
    let gateway = Gateway::start();
    route(&gateway, &upstream.address(), &json!({"gzip": {"types": ["text/event-stream"]}}));
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(client.head().field("content-encoding"), Some("gzip"));
    // The first event, 10 bytes of gzip's head before it, while the upstream keeps the second to itself.
    while client.unused().len() < 20 {
        assert!(client.fill().unwrap(), "it goes on");
    }
    go.send(()).unwrap();
    let end = b"0\r\n\r\n";
    while !client.unused().ends_with(end) {
        assert!(client.fill().unwrap(), "it goes on");
    }
}

#[test]
fn a_rewritten_body_is_compressed_after_that() {
    let upstream = Upstream::answering(page);
    let gateway = Gateway::start();
    let filters = json!([{"regex": "^", "replace": "first "}]);
    route(&gateway, &upstream.address(), &json!({"gzip": {}, "response-rewrite": {"filters": filters}}));
    let output = Command::new("curl")
        .args([
            "-s",
            "--max-time",
            "30",
            "--compressed",
            &format!("http://127.0.0.1:{}/chunked/30", gateway.port),
        ])
        .output()
        .unwrap();
    assert_eq!(output.stdout, [b"first ".to_vec(), Pattern::bytes(30)].concat());
}

#[test]
fn a_response_that_breaks_off_is_not_made_to_look_whole() {
    let upstream = Upstream::serve(|mut peer, _| {
        peer.request().unwrap();
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n");
        peer.send(vec![b'x'; 50_000]);
    });
    let gateway = Gateway::start();
    route(&gateway, &upstream.address(), &json!({"gzip": {}}));
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    // What had come when it broke off may have been sent or not.
    assert!(client.try_response("GET").map_or(true, |answer| answer.status() == 502));
}
