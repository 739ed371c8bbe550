//! Clients that stall, trickle, split, reset, lie and leave at each point of a request. The upstream never takes for a whole
//! request what was none, no connection to it is used again in an unknown state, and whoever comes next gets his own answer.

use bytes::Bytes;
use e2e::{Gateway, Http2Client, Peer, Seen, Upstream, asynchronously, eventually};
use h2::Reason;
use serde_json::json;
use std::io::ErrorKind;
use std::thread::sleep;
use std::time::Duration;

/// What a client does, given a connection; and what comes of it. `whole` is how many whole requests of its the upstream sees.
struct Case {
    name: &'static str,
    act: fn(Peer) -> String,
    outcome: &'static str,
    whole: usize,
}

const CASES: &[Case] = &[
    Case { name: "sends one byte at a time", act: trickles, outcome: "200", whole: 1 },
    Case { name: "sends chunks in pieces", act: chunks_in_pieces, outcome: "200", whole: 1 },
    Case { name: "sends nothing", act: |peer| ended(peer, ""), outcome: "gone", whole: 0 },
    Case { name: "leaves within the head", act: |peer| ended(peer, HEAD_CUT), outcome: "gone", whole: 0 },
    Case { name: "resets within the head", act: |peer| reset(peer, HEAD_CUT), outcome: "gone", whole: 0 },
    Case { name: "leaves after the head", act: |peer| ended(peer, HEAD), outcome: "gone", whole: 0 },
    Case { name: "resets after the head", act: |peer| reset(peer, HEAD), outcome: "gone", whole: 0 },
    Case { name: "leaves within the body", act: |peer| ended(peer, BODY_CUT), outcome: "gone", whole: 0 },
    Case { name: "resets within the body", act: |peer| reset(peer, BODY_CUT), outcome: "gone", whole: 0 },
    Case { name: "leaves within a chunk", act: |peer| ended(peer, CHUNK_CUT), outcome: "gone", whole: 0 },
    Case { name: "lacks the last chunk", act: |peer| ended(peer, NO_LAST_CHUNK), outcome: "gone", whole: 0 },
    Case { name: "spoils a chunk", act: |peer| answered(peer, BAD_CHUNK), outcome: "400", whole: 0 },
    Case { name: "ends its side", act: half_closes, outcome: "200", whole: 1 },
    Case { name: "sends more than it announced", act: sends_more, outcome: "200 400", whole: 1 },
    Case { name: "asks three times at once", act: pipelines, outcome: "200 200 200", whole: 3 },
    Case { name: "leaves while it is answered", act: leaves_in_answer, outcome: "gone", whole: 1 },
    Case { name: "resets while it is answered", act: resets_in_answer, outcome: "gone", whole: 1 },
    Case { name: "gives two lengths", act: |peer| answered(peer, TWO_LENGTHS), outcome: "400", whole: 0 },
    Case { name: "gives a length and chunks", act: |peer| answered(peer, BOTH), outcome: "400", whole: 0 },
    Case { name: "speaks TLS to the wrong port", act: |peer| ended(peer, HELLO), outcome: "gone", whole: 0 },
];

const HEAD_CUT: &str = "POST /bad HTTP/1.1\r\nHost: a\r\nContent-Le";
const HEAD: &str = "POST /bad HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
const BODY_CUT: &str = "POST /bad HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf";
const CHUNK_CUT: &str = "POST /bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf";
const NO_LAST_CHUNK: &str =
    "POST /bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
const BAD_CHUNK: &str = "POST /bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf!!\r\n";
const TWO_LENGTHS: &str =
    "POST /bad HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nhalf!";
const BOTH: &str = "POST /bad HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n\r\n";
const HELLO: &str = "\x16\x03\x01\x00\x05hello";
const WHOLE: &str = "POST /bad HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";

/// A gateway whose upstream records what it is asked for. `/long` has a response that takes a while.
fn gateway() -> (Gateway, Upstream, Seen) {
    let gateway = Gateway::start();
    let (upstream, seen) = Upstream::recording();
    gateway.route_all(&upstream.address());
    (gateway, upstream, seen)
}

/// How many whole requests of the misbehaving client the upstream has seen.
fn whole(seen: &Seen) -> usize {
    seen.all().iter().filter(|request| request.start.contains(" /bad")).count()
}

#[test]
fn whatever_a_client_does_the_next_one_gets_its_own_answer() {
    let (gateway, _upstream, seen) = gateway();
    let mut wrong = Vec::new();
    for case in CASES {
        let before = whole(&seen);
        let mut other = gateway.connect();
        assert_eq!(other.get("/other").text(), "hello");
        let outcome = (case.act)(gateway.connect());
        if outcome != case.outcome {
            wrong.push(format!("a client that {}: {outcome} instead of {}", case.name, case.outcome));
        }
        for path in ["/next", "/next?again"] {
            let answer = other.get(path);
            assert_eq!(
                (answer.status(), answer.text().as_str()),
                (200, "hello"),
                "after a client that {}",
                case.name
            );
            let last = seen.all().into_iter().rfind(|request| request.start.contains("/next")).unwrap();
            assert!(last.start.contains(&format!(" {path} ")), "after a client that {}: {last:?}", case.name);
        }
        let came = whole(&seen) - before;
        if came != case.whole {
            wrong.push(format!("a client that {}: the upstream saw {came} requests", case.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// How the gateway ends a connection on which nothing more is said.
fn ending(mut peer: Peer) -> String {
    match peer.fill() {
        Ok(false) => "gone".to_owned(),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => "gone".to_owned(),
        other => format!("{other:?}: {}", String::from_utf8_lossy(peer.unused())),
    }
}

/// Sends and says that nothing more comes.
fn ended(mut peer: Peer, bytes: &str) -> String {
    peer.send(bytes);
    peer.finish();
    ending(peer)
}

fn reset(mut peer: Peer, bytes: &str) -> String {
    peer.send(bytes);
    sleep(Duration::from_millis(50));
    peer.reset();
    "gone".to_owned()
}

fn answered(mut peer: Peer, bytes: &str) -> String {
    peer.send(bytes);
    peer.response().status().to_string()
}

fn by_pieces(mut peer: Peer, bytes: &str, size: usize) -> String {
    for piece in bytes.as_bytes().chunks(size) {
        peer.send(piece);
        sleep(Duration::from_millis(2));
    }
    peer.response().status().to_string()
}

fn trickles(peer: Peer) -> String {
    by_pieces(peer, WHOLE, 1)
}

fn chunks_in_pieces(peer: Peer) -> String {
    let head = "POST /bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    by_pieces(peer, &format!("{head}3;x=\"y\"\r\nbod\r\n1\r\ny\r\n0\r\nX-Check: 1\r\n\r\n"), 3)
}

fn half_closes(mut peer: Peer) -> String {
    peer.send(WHOLE);
    peer.finish();
    peer.response().status().to_string()
}

/// What follows a request is the next one.
fn sends_more(mut peer: Peer) -> String {
    peer.send([WHOLE, "and\x01 more\r\n\r\n"].concat());
    format!("{} {}", peer.response().status(), peer.response().status())
}

fn pipelines(mut peer: Peer) -> String {
    peer.send(WHOLE.repeat(3));
    let statuses: Vec<_> = (0..3).map(|_| peer.response().status().to_string()).collect();
    statuses.join(" ")
}

fn leaves_in_answer(mut peer: Peer) -> String {
    peer.send(WHOLE);
    peer.bytes(4);
    drop(peer);
    "gone".to_owned()
}

fn resets_in_answer(mut peer: Peer) -> String {
    peer.send(WHOLE);
    peer.bytes(4);
    peer.reset();
    "gone".to_owned()
}

/// Where a client of HTTP/2 takes its request back.
const HTTP2_POINTS: &[&str] = &["after the head", "within the body", "within the answer"];

#[test]
fn wherever_a_client_takes_a_stream_back_the_others_go_on() {
    let upstream = Upstream::serve(|mut peer, _| {
        while let Ok(request) = peer.request() {
            let id = request.start.split(' ').nth(1).unwrap_or_default().to_owned();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", id.len());
            if peer.try_send(head.as_bytes()).is_err() {
                return;
            }
            if id.starts_with("/slow") {
                sleep(Duration::from_millis(100));
            }
            if peer.try_send(id.as_bytes()).is_err() {
                return;
            }
        }
    });
    let gateway = Gateway::start();
    gateway.put(
        "routes/1",
        &json!({
            "uri": "/*",
            "upstream": { "type": "roundrobin", "nodes": { upstream.address(): 1 }, "retries": 0 },
        }),
    );
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        for round in 0..5 {
            for (point, name) in HTTP2_POINTS.iter().enumerate() {
                let id = format!("/slow/{round}/{point}");
                let ends = point == 2;
                let (response, mut send) = client.begin("POST", &id, &[], ends).await;
                match point {
                    1 => send.send_data(Bytes::from("half"), false).unwrap(),
                    2 => drop(response.await.unwrap()),
                    _ => {}
                }
                send.send_reset(Reason::CANCEL);
                for other in 0..3 {
                    let path = format!("/other/{round}/{point}/{other}");
                    let answer = client.get(&path).await;
                    assert_eq!(answer, (200, path.into_bytes()), "{name}");
                }
            }
        }
    });
    // All of them are recorded, and those that were taken back as what they are.
    let lines = eventually("all is recorded", || {
        let lines = gateway.access_log(0);
        (lines.len() == 5 * (3 + 9)).then_some(lines)
    });
    let taken_back = lines.iter().filter(|line| line.contains(" 499 ")).count();
    assert!(taken_back >= 10, "{taken_back}: {lines:#?}");
}
