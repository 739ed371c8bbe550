//! Clients that leave while the gateway waits for somebody else.

use e2e::{Gateway, Http2Client, Upstream, asynchronously, eventually};
use h2::Reason;
use serde_json::json;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn a_client_that_leaves_after_its_upload_is_noticed() {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::serve(move |mut peer, _| {
        if peer.request().is_ok() {
            let _ = tell.send("asked");
            // Until the gateway closes.
            let _ = peer.fill();
            let _ = tell.send("left");
        }
    });
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    client.send("0\r\n\r\n");
    assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok("asked"));
    drop(client);
    assert_eq!(told.recv_timeout(Duration::from_secs(5)), Ok("left"));
    assert!(gateway.access_log(1)[0].contains(" 499 "));
}

#[test]
fn a_client_that_leaves_while_a_response_is_silent_is_noticed() {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::serve(move |mut peer, _| {
        if peer.request().is_ok() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
            let _ = peer.fill();
            let _ = tell.send("left");
        }
    });
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    drop(client);
    assert_eq!(told.recv_timeout(Duration::from_secs(5)), Ok("left"));
}

#[test]
fn a_client_that_leaves_ends_a_plugins_wait() {
    let gateway = Gateway::start();
    let delay = json!({ "fault-injection": { "delay": { "duration": 60 } } });
    gateway.put("routes/1", &json!({ "uri": "/*", "plugins": delay }));
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    sleep(Duration::from_millis(300));
    drop(client);
    let line = eventually("the request is recorded", || gateway.access_log(0).pop());
    assert!(line.contains(" 499 "), "{line}");
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let (_, mut send) = client.begin("POST", "/", &[], false).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        send.send_reset(Reason::CANCEL);
        tokio::time::sleep(Duration::from_millis(100)).await;
    });
    assert!(gateway.access_log(2)[1].contains(" 499 "));
}
