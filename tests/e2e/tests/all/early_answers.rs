//! Answers that the gateway makes itself, to requests whose bodies are still under way.

use e2e::{Gateway, Http2Client, asynchronously};
use h2::Reason;
use serde_json::json;
use std::time::{Duration, Instant};

/// A gateway whose timeouts are all long, with a route that answers by itself: `/denied` with 401.
fn denying() -> Gateway {
    let gateway = Gateway::start();
    gateway.put("routes/denied", &json!({ "uri": "/denied", "plugins": { "key-auth": {} } }));
    gateway
}

#[test]
fn an_answer_of_the_gateway_does_not_wait_for_the_body() {
    let gateway = denying();
    let started = Instant::now();
    for (framing, first, rest, keeps) in [
        ("Content-Length: 10", "abc", "defghij", true),
        ("Content-Length: 10", "", "abcdefghij", true),
        ("Transfer-Encoding: chunked", "3\r\nabc\r\n", "0\r\n\r\n", true),
        ("Content-Length: 1000000", "abc", "", false),
        ("Content-Length: 10\r\nExpect: 100-continue", "", "", false),
    ] {
        let mut client = gateway.connect();
        client.send(format!("POST /denied HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{first}"));
        let answer = client.response();
        assert_eq!((answer.status(), answer.lists("connection", "close")), (401, !keeps), "{framing}");
        if keeps {
            client.send(format!("{rest}GET /denied HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(client.response().status(), 401, "{framing}");
        } else {
            assert!(client.is_closed(), "{framing}");
        }
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(gateway.access_log(8).len(), 8);
}

#[test]
fn an_answer_of_the_gateway_ends_a_stream_that_still_sends() {
    let gateway = denying();
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let (response, mut send) = client.begin("POST", "/denied", &[], false).await;
        let response =
            tokio::time::timeout(Duration::from_secs(5), response).await.expect("at once").unwrap();
        assert_eq!(response.status(), 401);
        let mut body = response.into_body();
        while let Some(data) = body.data().await {
            data.unwrap();
        }
        let reason = std::future::poll_fn(|cx| send.poll_reset(cx)).await.unwrap();
        assert_eq!(reason, Reason::NO_ERROR);
        assert_eq!(client.get("/denied").await.0, 401, "other streams go on");
    });
}
