//! `proxy-mirror`: copies arrive, and no mirror, however bad, costs a client anything.

use e2e::{
    Gateway, Http2Client, Http2Upstream, Message, Pattern, Seen, Upstream, asynchronously, eventually,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A gateway that mirrors to `host` what goes to `upstream`.
fn mirrored(upstream: &Upstream, host: &str, config: &Value) -> Gateway {
    let gateway = Gateway::start();
    let mut mirror = json!({ "host": host });
    for (key, value) in config.as_object().into_iter().flatten() {
        mirror[key] = value.clone();
    }
    let route = json!({ "plugins": { "proxy-mirror": mirror } });
    gateway.route_with(&upstream.address(), &json!({}), &route);
    gateway
}

/// The copies that have arrived, once there are `count`.
fn copies(seen: &Seen, count: usize) -> Vec<Message> {
    let mut all = Vec::new();
    eventually("the copies arrive", || {
        all.extend(seen.take());
        (all.len() >= count).then_some(())
    });
    all
}

#[test]
fn a_copy_has_method_path_fields_and_body() {
    let (upstream, seen) = Upstream::recording();
    let (mirror, copied) = Upstream::recording();
    let host = format!("http://localhost:{}", mirror.port);
    let gateway = mirrored(&upstream, &host, &json!({ "path": "/v2", "path_concat_mode": "prefix" }));
    let mut client = gateway.connect();
    client.send("GET /a%20b?x=1 HTTP/1.1\r\nHost: a.test\r\nX-A: 1\r\n\r\n");
    assert_eq!(client.response().text(), "hello");
    let copy = copies(&copied, 1).remove(0);
    assert_eq!(copy.start, "GET /v2/a%20b?x=1 HTTP/1.1");
    assert_eq!((copy.field("host"), copy.field("x-a")), (Some("a.test"), Some("1")));
    let body = Pattern::bytes(1_000_000);
    client.send(format!("PUT /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(&body);
    assert_eq!(client.response().status(), 200);
    let copy = copies(&copied, 1).remove(0);
    assert_eq!(copy.start, "PUT /v2/up HTTP/1.1");
    Pattern::check(&copy.body, body.len());
    client.send("POST /c HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    for piece in ["5\r\nhello\r\n", "6\r\n world\r\n0\r\n\r\n"] {
        client.send(piece);
    }
    assert_eq!(client.response().status(), 200);
    assert_eq!(copies(&copied, 1).remove(0).text(), "hello world");
    let all = seen.take();
    assert_eq!(all.len(), 3);
    Pattern::check(&all[1].body, body.len());
    assert_eq!(all[2].text(), "hello world");
}

#[test]
fn a_body_that_is_too_large_reaches_the_upstream_and_not_the_mirror() {
    let (upstream, seen) = Upstream::recording();
    let (mirror, copied) = Upstream::recording();
    let gateway = mirrored(&upstream, &format!("http://{}", mirror.address()), &json!({}));
    let body = Pattern::bytes((8 << 20) + 1);
    let mut client = gateway.connect();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(&body);
    assert_eq!(client.response().status(), 200);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for piece in body.chunks(1 << 20) {
        client.send(format!("{:x}\r\n", piece.len()));
        client.send(piece);
        client.send("\r\n");
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    for request in seen.take() {
        Pattern::check(&request.body, body.len());
    }
    assert_eq!(client.get("/small").status(), 200);
    assert_eq!(copies(&copied, 1)[0].start, "GET /small HTTP/1.1");
    assert!(gateway.stderr().contains("request not mirrored: its body is too large"));
}

#[test]
fn no_mirror_costs_a_client_anything() {
    let upstream = Upstream::hello();
    let gone = Upstream::hello().address();
    let silent = Upstream::serve(|mut peer, _| while matches!(peer.fill(), Ok(true)) {});
    // Reads nothing.
    let deaf = Upstream::serve(|_peer, _| std::thread::sleep(Duration::from_secs(20)));
    let resetting = Upstream::serve(|mut peer, _| {
        let _ = peer.request();
        peer.reset();
    });
    let lying = Upstream::answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nnonsense".to_vec());
    let endless = Upstream::serve(|mut peer, _| {
        let _ = peer.request();
        let _ = peer.try_send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while peer.try_send(b"1000\r\n").is_ok() && peer.try_send(&[b'x'; 4096]).is_ok() {
            if peer.try_send(b"\r\n").is_err() {
                return;
            }
        }
    });
    let body = Pattern::bytes(500_000);
    for mirror in [
        gone,
        silent.address(),
        deaf.address(),
        resetting.address(),
        lying.address(),
        endless.address(),
        "no-such-name.invalid:80".to_owned(),
    ] {
        let gateway = mirrored(&upstream, &format!("http://{mirror}"), &json!({}));
        let started = Instant::now();
        let mut client = gateway.connect();
        for _ in 0..20 {
            assert_eq!(client.get("/").text(), "hello", "{mirror}");
        }
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
        client.send(&body);
        assert_eq!(client.response().text(), "hello", "{mirror}");
        assert!(started.elapsed() < Duration::from_secs(5), "{mirror}: {:?}", started.elapsed());
        assert!(!gateway.stderr().contains("panicked"), "{}", gateway.stderr());
    }
}

#[test]
fn copies_under_way_are_bounded() {
    let upstream = Upstream::hello();
    let silent = Upstream::serve(|mut peer, _| while matches!(peer.fill(), Ok(true)) {});
    let gateway = mirrored(&upstream, &format!("http://{}", silent.address()), &json!({}));
    let mut client = gateway.connect();
    for _ in 0..700 {
        assert_eq!(client.get("/").status(), 200);
    }
    eventually("the log tells", || {
        gateway.stderr().contains("as many copies under way as it allows").then_some(())
    });
    assert!(silent.connections() <= 512, "{}", silent.connections());
    assert_eq!(client.get("/").status(), 200);
}

#[test]
fn a_copy_outlives_its_client_and_its_route() {
    let upstream = Upstream::hello();
    let (mirror, copied) = Upstream::recording();
    let gateway = mirrored(&upstream, &format!("http://{}", mirror.address()), &json!({}));
    for number in 0..20 {
        let mut client = gateway.connect();
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        eventually("the request arrives", || (upstream.connections() > 0).then_some(()));
        drop(client);
    }
    gateway.put("routes/all", &json!({ "uri": "/*", "upstream": { "nodes": { upstream.address(): 1 } } }));
    let mut client = gateway.connect();
    assert_eq!(client.get("/after").status(), 200);
    assert!(copies(&copied, 1).iter().all(|copy| copy.start != "GET /after HTTP/1.1"));
}

#[test]
fn grpc_is_mirrored_over_http2() {
    let (upstream, mirror) = (Http2Upstream::start(), Http2Upstream::start());
    let gateway = Gateway::start();
    let plugins = json!({ "proxy-mirror": { "host": format!("grpc://{}", mirror.address()) } });
    gateway.route_with(&upstream.address(), &json!({ "scheme": "grpc" }), &json!({ "plugins": plugins }));
    for number in 1..=3 {
        asynchronously(async {
            let mut client = Http2Client::connect(gateway.port).await;
            let fields = [("content-type", "application/grpc"), ("te", "trailers")];
            let (response, mut send) = client.begin("POST", "/echo", &fields, false).await;
            send.send_data("call".into(), true).unwrap();
            let mut body = response.await.unwrap().into_body();
            assert_eq!(body.data().await.unwrap().unwrap(), "call");
        });
        eventually("the copy arrives", || (mirror.requests() == number).then_some(()));
    }
    assert_eq!(mirror.connections(), 1);
}

#[test]
fn a_mirror_and_a_logger_see_the_same_bodies_and_change_nothing() {
    let body = "text ".repeat(200_000);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{body}").into_bytes();
    let upstream = Upstream::answering(move |_| answer.clone());
    let ((mirror, copied), (collector, logged)) = (Upstream::recording(), Upstream::recording());
    let gateway = Gateway::start();
    let plugins = json!({
        "proxy-mirror": { "host": format!("http://{}", mirror.address()) },
        "http-logger": {
            "uri": format!("http://{}/", collector.address()), "batch_max_size": 1,
            "include_req_body": true, "include_resp_body": true, "max_resp_body_bytes": 1000,
        },
    });
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": plugins }));
    let mut client = gateway.connect();
    for number in ["one", "two"] {
        client.send(format!("POST /{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n{number}"));
        let answer = client.response();
        assert_eq!(answer.field("content-length"), Some("1000000"), "the length is the upstream's");
        assert!(answer.text() == body, "the body is the upstream's");
        assert_eq!(copies(&copied, 1).remove(0).text(), number);
        let entry = eventually("the entry arrives", || logged.take().pop()).json();
        let of = |place: &str| entry.pointer(place).or(entry.pointer(&format!("/0{place}"))).cloned();
        assert_eq!(of("/request/body"), Some(json!(number)));
        assert_eq!(of("/response/body"), Some(json!(body[..1000])));
    }
}
