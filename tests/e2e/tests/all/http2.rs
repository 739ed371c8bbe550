//! HTTP/2 with clients, asked for by curl and by a client that misbehaves.

use bytes::Bytes;
use e2e::{Gateway, Http2Client, Pattern, Upstream, asynchronously, eventually};
use h2::Reason;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::process::Signal;
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// What curl writes: status, version and length.
pub(crate) fn curl(args: &[&str], url: &str, out: &Path) -> String {
    let mut command = Command::new("curl");
    command.args(["-sk", "--max-time", "30", "-w", "%{http_code} %{http_version} %{size_download}", "-o"]);
    let output = command.arg(out).args(args).arg(url).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Gives the gateway a certificate for `name`.
pub(crate) fn certify(gateway: &Gateway, name: &str) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([name.to_owned()]).unwrap();
    let ssl = json!({ "snis": [name], "cert": cert.pem(), "key": signing_key.serialize_pem() });
    gateway.put("ssls/1", &ssl);
}

#[test]
fn requests_come_by_prior_knowledge_and_by_alpn() {
    let (upstream, seen) = Upstream::recording();
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    certify(&gateway, "a.test");
    let out = gateway.dir().join("out");
    let resolve = format!("a.test:{}:127.0.0.1", gateway.tls_port);
    let tls = format!("https://a.test:{}/x?y", gateway.tls_port);
    eventually("the certificate is in use", || {
        (curl(&["--resolve", &resolve, "--http2"], &tls, &out) == "200 2 5").then_some(())
    });
    seen.take();
    assert_eq!(curl(&["--resolve", &resolve, "--http1.1"], &tls, &out), "200 1.1 5");
    let clear = format!("http://127.0.0.1:{}/x?y", gateway.port);
    let cookies =
        ["--http2-prior-knowledge", "-H", "Cookie: a=1", "-H", "Cookie: b=2", "-H", "Host: b.test:99"];
    assert_eq!(curl(&cookies, &clear, &out), "200 2 5");
    let request = seen.take().pop().unwrap();
    assert_eq!(request.start, "GET /x?y HTTP/1.1");
    assert_eq!((request.field("host"), request.field("cookie")), (Some("b.test:99"), Some("a=1; b=2")));
    // Who asks for an upgrade stays with HTTP/1.1, as RFC 9113 wants it.
    assert_eq!(curl(&["--http2"], &clear, &out), "200 1.1 5");
    let lines = gateway.access_log(4).join("\n");
    assert!(lines.contains("\"GET /x?y HTTP/2.0\" 200"), "{lines}");
}

#[test]
fn it_can_be_switched_off() {
    let gateway = Gateway::with(json!({ "apisix": { "enable_http2": false } }));
    let mut client = gateway.connect();
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(client.response().status(), 505);
}

#[test]
fn large_bodies_pass_both_ways() {
    let size = 5 << 20;
    let upstream = Upstream::answering(move |request| {
        Pattern::check(&request.body, if request.start.starts_with("POST") { size } else { 0 });
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").into_bytes();
        answer.extend(Pattern::bytes(size));
        answer
    });
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let (out, body) = (gateway.dir().join("out"), gateway.dir().join("body"));
    std::fs::write(&body, Pattern::bytes(size)).unwrap();
    let url = format!("http://127.0.0.1:{}/", gateway.port);
    let data = format!("@{}", body.display());
    for length in ["Expect:", "Transfer-Encoding: chunked"] {
        let args = ["--http2-prior-knowledge", "--data-binary", &data, "-H", length];
        assert_eq!(curl(&args, &url, &out), format!("200 2 {size}"), "{length}");
        Pattern::check(&std::fs::read(&out).unwrap(), size);
    }
}

#[test]
fn files_are_served_among_many_streams() {
    let size = 3 << 20;
    let gateway = Gateway::start();
    let root = gateway.dir().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("large"), Pattern::bytes(size)).unwrap();
    std::fs::write(root.join("small"), "0123456789").unwrap();
    gateway.put("routes/1", &json!({ "uri": "/*", "static": { "root": root } }));
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let (large, _) = client.begin("GET", "/large", &[], true).await;
        let mut small = Vec::new();
        for _ in 0..100 {
            small.push(client.begin("GET", "/small", &[("range", "bytes=2-3")], true).await.0);
        }
        for response in small {
            let response = response.await.unwrap();
            assert_eq!(response.status(), 206);
            assert_eq!(response.into_body().data().await.unwrap().unwrap(), "23");
        }
        let mut large = large.await.unwrap().into_body();
        let mut whole = Vec::new();
        while let Some(data) = large.data().await {
            let data = data.unwrap();
            let _ = large.flow_control().release_capacity(data.len());
            whole.extend_from_slice(&data);
        }
        Pattern::check(&whole, size);
        let (head, _) = client.begin("HEAD", "/large", &[], true).await;
        let head = head.await.unwrap();
        assert_eq!(head.headers()["content-length"], size.to_string());
        assert!(head.body().is_end_stream());
        assert_eq!(client.get("/none").await.0, 404);
    });
}

#[test]
fn a_stream_that_is_taken_back_ends_alone() {
    let upstream = Upstream::serve(|mut peer, _| {
        while let Ok(request) = peer.request() {
            if request.start.starts_with("POST") {
                return;
            }
            if peer.try_send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").is_err() {
                return;
            }
        }
    });
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        for _ in 0..20 {
            let (response, mut send) = client.begin("POST", "/", &[], false).await;
            send.send_data(Bytes::from(vec![0; 1000]), false).unwrap();
            tokio::task::yield_now().await;
            send.send_reset(Reason::CANCEL);
            assert!(response.await.is_err());
        }
        assert_eq!(client.get("/").await, (200, b"hello".to_vec()));
    });
}

#[test]
fn long_heads_are_refused() {
    let upstream = Upstream::hello();
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let long = "x".repeat(9000);
        let (response, _) = client.begin("GET", "/", &[("x-long", &long)], true).await;
        assert_eq!(response.await.unwrap().status(), 431);
        assert_eq!(client.get("/").await.0, 200);
        let fields: Vec<(String, String)> = (0..40).map(|n| (format!("x-{n}"), "y".repeat(1000))).collect();
        let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let (response, _) = client.begin("GET", "/", &fields, true).await;
        assert_eq!(response.await.unwrap().status(), 431);
    });
    assert_eq!(gateway.get("/").status(), 200);
}

#[test]
fn a_drain_lets_streams_end_and_says_goodbye() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let upstream = Upstream::answering(move |_| {
        held.lock().unwrap().recv().unwrap();
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec()
    });
    let mut gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let (response, _) = client.begin("GET", "/", &[], true).await;
        let mut idle = Http2Client::connect(gateway.port).await;
        assert_eq!(idle.send.clone().ready().await.map(drop).ok(), Some(()));
        while upstream.connections() == 0 {
            tokio::task::yield_now().await;
        }
        gateway.process().signal(Signal::QUIT);
        // Who asks for nothing is told to leave at once, without an error.
        assert!((&mut idle.ended).await.unwrap().is_ok());
        release.send(()).unwrap();
        let mut body = response.await.unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "hello");
        drop(body);
        assert!((&mut client.ended).await.unwrap().is_ok());
    });
    assert!(gateway.process().wait().success());
}
