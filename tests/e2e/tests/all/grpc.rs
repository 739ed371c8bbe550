//! gRPC and other HTTP/2 upstreams: heads, pieces and trailers arrive, both ways, from clients of both versions.

use bytes::Bytes;
use e2e::{Gateway, Http2Client, Http2Upstream, asynchronously, free_ports};
use h2::Reason;
use serde_json::json;

const GRPC: &[(&str, &str)] = &[("content-type", "application/grpc"), ("te", "trailers")];

fn gateway(address: &str) -> Gateway {
    let gateway = Gateway::start();
    gateway.route_with(address, &json!({ "scheme": "grpc" }), &json!({}));
    gateway
}

#[test]
fn calls_stream_both_ways_and_keep_their_trailers() {
    let upstream = Http2Upstream::start();
    let gateway = gateway(&upstream.address());
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let (response, mut send) = client.begin("POST", "/echo", GRPC, false).await;
        // The answer begins before the question is over, and each piece comes back by itself.
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/grpc");
        let mut body = response.into_body();
        for piece in ["one", "two", "three"] {
            send.send_data(Bytes::from(piece), false).unwrap();
            assert_eq!(body.data().await.unwrap().unwrap(), piece);
        }
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-asked", "yes".parse().unwrap());
        send.send_trailers(trailers).unwrap();
        assert!(body.data().await.is_none());
        let trailers = body.trailers().await.unwrap().unwrap();
        assert_eq!(
            (&trailers["grpc-status"], &trailers["x-asked"]),
            (&"0".parse().unwrap(), &"yes".parse().unwrap())
        );
    });
}

#[test]
fn an_error_that_is_a_head_alone_stays_one() {
    let upstream = Http2Upstream::start();
    let gateway = gateway(&upstream.address());
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let (response, mut send) = client.begin("POST", "/error", GRPC, false).await;
        send.send_data(Bytes::from("question"), true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.headers()["grpc-status"], "5");
        assert!(response.headers().get("content-length").is_none());
        assert!(response.body().is_end_stream());
    });
}

#[test]
fn a_call_that_is_taken_back_is_taken_back_from_the_node() {
    let upstream = Http2Upstream::start();
    let gateway = gateway(&upstream.address());
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        for ends in [true, false] {
            let (response, mut send) = client.begin("POST", "/wait", GRPC, ends).await;
            let response = response.await.unwrap();
            send.send_reset(Reason::CANCEL);
            drop(response);
        }
        while upstream.cancelled() < 2 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn many_calls_share_one_connection() {
    let upstream = Http2Upstream::start();
    let gateway = gateway(&upstream.address());
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let mut calls = Vec::new();
        for number in 0..60 {
            let (response, mut send) = client.begin("POST", "/echo", GRPC, false).await;
            send.send_data(Bytes::from(format!("call {number}")), true).unwrap();
            calls.push(response);
        }
        for (number, response) in calls.into_iter().enumerate() {
            let mut body = response.await.unwrap().into_body();
            assert_eq!(body.data().await.unwrap().unwrap(), format!("call {number}"));
            while body.data().await.is_some() {}
            assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
        }
    });
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_client_of_http1_gets_the_trailers_behind_its_chunks() {
    let upstream = Http2Upstream::start();
    let gateway = gateway(&upstream.address());
    let mut client = gateway.connect();
    client.send(
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n0\r\nx-asked: yes\r\n\r\n",
    );
    let head = client.head();
    assert_eq!((head.status(), head.field("transfer-encoding")), (200, Some("chunked")));
    let rest = b"3\r\nabc\r\n0\r\nx-asked: yes\r\ngrpc-status: 0\r\n\r\n";
    assert_eq!(String::from_utf8(client.bytes(rest.len())).unwrap(), String::from_utf8_lossy(rest));
    // The connection goes on, and so does the upstream's.
    let answer = client.get("/what?x=y");
    assert_eq!(answer.text(), "GET http://e2e/what?x=y te=trailers");
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_node_that_is_not_there_is_a_bad_gateway() {
    let [port] = free_ports();
    let gateway = gateway(&format!("127.0.0.1:{port}"));
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let (response, mut send) = client.begin("POST", "/echo", GRPC, false).await;
        let _ = send.send_data(Bytes::from("question"), true);
        assert_eq!(response.await.unwrap().status(), 502);
    });
}

#[test]
fn a_request_that_the_node_resets_is_not_sent_again() {
    let upstream = Http2Upstream::start();
    let gateway = Gateway::start();
    gateway.route_with(&upstream.address(), &json!({ "scheme": "grpc", "retries": 0 }), &json!({}));
    let mut client = gateway.connect();
    assert_eq!(client.get("/first").status(), 200);
    assert_eq!(client.get("/reset").status(), 502);
    assert_eq!((upstream.requests(), upstream.connections()), (2, 1));
}
