//! `chaitin-waf`: a stand-in for SafeLine's detection service that passes, rejects, stalls and lies.

use e2e::{Gateway, Message, Peer, Upstream, eventually};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A frame: tag, length in little endian, data.
fn frame(tag: u8, data: &[u8]) -> Vec<u8> {
    [&[tag][..], &(data.len() as u32).to_le_bytes(), data].concat()
}

fn pass() -> Vec<u8> {
    [frame(0x41, b"."), frame(0xa5, b"{}")].concat()
}

fn reject() -> Vec<u8> {
    let cookie = b"Set-Cookie:sl=1; Path=/\nTransfer-Encoding: chunked\n";
    [frame(0x41, b"?"), frame(2, b"405"), frame(0x23, cookie), frame(0xa4, b"<!-- event_id: b3c6 -->")]
        .concat()
}

/// Reads one question: its head.
fn question(peer: &mut Peer) -> Option<String> {
    let mut head = None;
    loop {
        while peer.unused().len() < 5 {
            peer.fill().ok().filter(|more| *more)?;
        }
        let frame = peer.bytes(5);
        let length = u32::from_le_bytes(frame[1..].try_into().unwrap()) as usize;
        let data = peer.bytes(length);
        if frame[0] & 0x3f == 1 {
            head = Some(String::from_utf8(data).unwrap());
        }
        if frame[0] & 0x80 != 0 {
            return head;
        }
    }
}

/// A service that rejects what has `attack` in its request line.
fn service() -> Upstream {
    Upstream::serve(|mut peer, _| {
        while let Some(head) = question(&mut peer) {
            let answer = if head.lines().next().unwrap().contains("attack") { reject() } else { pass() };
            for part in answer.chunks(3) {
                if peer.try_send(part).is_err() {
                    return;
                }
            }
        }
    })
}

fn guarded(gateway: &Gateway, upstream: &Upstream, port: u16, config: &Value) {
    let metadata = json!({ "nodes": [{ "host": "127.0.0.1", "port": port }], "config": { "read_timeout": 300, "send_timeout": 200 } });
    gateway.put("plugin_metadata/chaitin-waf", &metadata);
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": { "chaitin-waf": config } }));
}

fn field<'m>(answer: &'m Message, name: &str) -> &'m str {
    answer.field(&format!("x-apisix-chaitin-waf{name}")).unwrap_or_default()
}

#[test]
fn the_service_decides_about_requests() {
    let (service, (upstream, seen), gateway) = (service(), Upstream::recording(), Gateway::start());
    guarded(&gateway, &upstream, service.port, &json!({ "mode": "block", "append_waf_debug_header": true }));
    for _ in 0..5 {
        let answer = gateway.get("/fine");
        assert_eq!(
            (answer.status(), field(&answer, "-action"), field(&answer, "-status")),
            (200, "pass", "200")
        );
        assert_eq!((field(&answer, ""), field(&answer, "-server")), ("yes", "127.0.0.1"));
    }
    assert_eq!(service.connections(), 1, "kept");
    let refused = gateway.get("/attack");
    assert_eq!(
        (refused.status(), field(&refused, "-action"), refused.all("set-cookie").len()),
        (405, "reject", 1)
    );
    assert_eq!(refused.json()["event_id"], "b3c6");
    assert_eq!(seen.take().len(), 5);
    guarded(&gateway, &upstream, service.port, &json!({}));
    assert_eq!(gateway.get("/attack").status(), 200);
    eventually("the log tells", || {
        gateway.stderr().contains("request would have been rejected").then_some(())
    });
}

#[test]
fn a_service_that_is_down_stalls_or_lies_blocks() {
    let (upstream, gateway) = (Upstream::hello(), Gateway::start());
    let gone = Upstream::hello().port;
    let silent = Upstream::serve(|mut peer, _| while matches!(peer.fill(), Ok(true)) {});
    let http = Upstream::answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec());
    let lying = |answer: fn() -> Vec<u8>| {
        Upstream::serve(move |mut peer, _| {
            if question(&mut peer).is_some() {
                let _ = peer.try_send(&answer());
            }
            while matches!(peer.fill(), Ok(true)) {}
        })
    };
    let unclear = lying(|| frame(0xc1, b"!"));
    let cut = lying(|| pass()[..8].to_vec());
    let huge = lying(|| vec![0xc1, 0xff, 0xff, 0xff, 0x7f]);
    for (what, port) in [
        ("down", gone),
        ("silent", silent.port),
        ("http", http.port),
        ("unclear", unclear.port),
        ("cut", cut.port),
        ("huge", huge.port),
    ] {
        guarded(&gateway, &upstream, port, &json!({ "mode": "block" }));
        let begin = Instant::now();
        assert_eq!(gateway.get("/").status(), 500, "{what}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{what}: {:?}", begin.elapsed());
        guarded(&gateway, &upstream, port, &json!({ "mode": "monitor" }));
        let answer = gateway.get("/");
        assert_eq!(answer.status(), 200, "{what}");
        assert!(["waf-err", "timeout"].contains(&field(&answer, "")), "{what}");
    }
}
