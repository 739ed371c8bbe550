//! Upstreams that stall, trickle, split, reset, lie and answer twice: each of them met by GET and POST, over HTTP/1.1 and
//! HTTP/2. The client sees the right status or a response that is seen to be incomplete, the log says why, and no
//! connection on which something was wrong carries another request.

use bytes::Bytes;
use e2e::{Gateway, Http2Client, Message, Peer, Upstream, asynchronously};
use serde_json::json;
use std::io;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// What an upstream does with a request that it has read, given a body that names it; what the client gets; and what the
/// error log says, where it says something.
struct Case {
    name: &'static str,
    /// Consumes the connection where it ends it by itself; otherwise gives it back, and it serves on.
    act: fn(Peer, &str) -> Option<Peer>,
    /// `{id}` stands for what names the request.
    outcome: &'static str,
    log: Option<&'static str>,
}

const CASES: &[Case] = &[
    Case { name: "sends one byte at a time", act: trickles, outcome: "200 {id}", log: None },
    Case { name: "sends a head in pieces", act: pieces, outcome: "200 {id}", log: None },
    Case { name: "sends chunks in pieces", act: chunks_in_pieces, outcome: "200 {id}", log: None },
    Case { name: "closes at once", act: closes, outcome: "502", log: Some("closed") },
    Case { name: "resets at once", act: resets, outcome: "502", log: Some("reset") },
    Case { name: "closes within the head", act: closes_in_head, outcome: "502", log: Some("closed") },
    Case { name: "resets within the head", act: resets_in_head, outcome: "502", log: Some("reset") },
    Case { name: "stalls before the head", act: stalls, outcome: "504", log: Some("timed out") },
    Case { name: "stalls within the head", act: stalls_in_head, outcome: "504", log: Some("timed out") },
    Case {
        name: "stalls within the body",
        act: stalls_in_body,
        outcome: "200 cut at 4",
        log: Some("timed out, the response is cut off"),
    },
    Case {
        name: "closes within the body",
        act: closes_in_body,
        outcome: "200 cut at 4",
        log: Some("upstream closed before its response was complete"),
    },
    Case {
        name: "resets within the body",
        act: resets_in_body,
        outcome: "200 cut at 4",
        log: Some("connection reset by peer, the response is cut off"),
    },
    Case {
        name: "closes within a chunk",
        act: closes_in_chunk,
        outcome: "200 cut at 4",
        log: Some("upstream closed before its response was complete"),
    },
    Case {
        name: "lacks the last chunk",
        act: lacks_last_chunk,
        outcome: "200 cut at 4",
        log: Some("upstream closed before its response was complete"),
    },
    Case { name: "answers twice", act: answers_twice, outcome: "200 {id}", log: None },
    Case { name: "sends more than it announced", act: sends_more, outcome: "200 {id}", log: None },
    Case { name: "sends a body with 204", act: body_with_204, outcome: "204", log: None },
    Case { name: "sends a body with 304", act: body_with_304, outcome: "304", log: None },
    Case { name: "closes and says so", act: says_close, outcome: "200 {id}", log: None },
    Case { name: "closes and does not say so", act: closes_after, outcome: "200 {id}", log: None },
    Case { name: "speaks another protocol", act: speaks_smtp, outcome: "502", log: Some("invalid") },
    Case { name: "speaks HTTP/0.9", act: speaks_http09, outcome: "502", log: Some("invalid") },
    Case {
        name: "gives two lengths",
        act: two_lengths,
        outcome: "502",
        log: Some("more than one Content-Length"),
    },
    Case {
        name: "gives a length and chunks",
        act: length_and_chunks,
        outcome: "502",
        log: Some("both Content-Length and Transfer-Encoding"),
    },
    Case {
        name: "gives an unknown coding",
        act: unknown_coding,
        outcome: "502",
        log: Some("unknown Transfer-Encoding"),
    },
    Case {
        name: "sends a head without end",
        act: endless_head,
        outcome: "502",
        log: Some("too many header fields"),
    },
    Case {
        name: "switches unasked",
        act: switches_unasked,
        outcome: "502",
        log: Some("switched protocols unasked"),
    },
    Case { name: "hints first", act: hints, outcome: "200 {id}", log: None },
];

/// How long an upstream's answer is waited for.
const READ_TIMEOUT_S: u64 = 1;

#[test]
fn whatever_an_upstream_does_no_request_gets_the_answer_of_another() {
    let wrong: Vec<String> = scope(|threads| {
        let quarter = CASES.len().div_ceil(4);
        let running: Vec<_> = CASES
            .chunks(quarter)
            .map(|cases| threads.spawn(move || cases.iter().flat_map(judge).collect::<Vec<_>>()))
            .collect();
        running.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What is wrong with how the gateway meets a case.
fn judge(case: &Case) -> Vec<String> {
    let act = case.act;
    let upstream = Upstream::serve(move |peer, _| serve(peer, act));
    let gateway = Gateway::start();
    let upstream = json!({
        "nodes": { upstream.address(): 1 }, "type": "roundrobin", "retries": 0,
        "timeout": { "connect": 5, "send": 5, "read": READ_TIMEOUT_S },
    });
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": upstream }));
    let mut wrong = Vec::new();
    let mut check = |what: &str, id: &str, got: String, expected: &str| {
        let expected = expected.replace("{id}", id);
        // HTTP/2 may end a stream before what was sent of it has left.
        if got != expected && !(got == "reset" && expected.contains("cut")) {
            wrong.push(format!("an upstream that {}, {what}: {got:?} instead of {expected:?}", case.name));
        }
    };
    let mut asked = 0;
    for method in ["GET", "POST"] {
        let id = |name: &str| format!("{method}-{name}");
        let path = |kind: &str, name: &str| format!("/{kind}/{}", id(name));
        // A connection is in the pool.
        check("before", &id("before"), http1(&gateway, method, &path("good", "before")), "200 {id}");
        check("over HTTP/1.1", &id("one"), http1(&gateway, method, &path("bad", "one")), case.outcome);
        check("after it", &id("after"), http1(&gateway, method, &path("good", "after")), "200 {id}");
        check("over HTTP/2", &id("two"), http2(&gateway, method, &path("bad", "two")), case.outcome);
        check("after that", &id("last"), http2(&gateway, method, &path("good", "last")), "200 {id}");
        asked += 5;
    }
    let status = &case.outcome[..3];
    let lines = gateway.access_log(asked);
    let bad = lines.iter().filter(|line| line.contains("/bad/"));
    for line in bad.filter(|line| !line.contains(&format!("\" {status} "))) {
        wrong.push(format!("an upstream that {}: {status} is not in the access log: {line}", case.name));
    }
    if let Some(reason) = case.log {
        let until = Instant::now() + Duration::from_secs(10);
        while !gateway.stderr().contains(reason) && Instant::now() < until {
            sleep(Duration::from_millis(20));
        }
    }
    let said = gateway.stderr();
    if case.log.is_some_and(|reason| !said.contains(reason)) {
        wrong.push(format!("an upstream that {}: {:?} is not in the log: {said}", case.name, case.log));
    }
    wrong
}

/// Serves a connection: what is asked of `/good/` is answered as it should be, the rest by `act`.
fn serve(mut peer: Peer, act: fn(Peer, &str) -> Option<Peer>) {
    while let Ok(request) = peer.request() {
        let path = request.start.split(' ').nth(1).unwrap_or_default();
        let id = path.rsplit('/').next().unwrap_or_default();
        if path.starts_with("/good/") {
            if peer.try_send(&whole(id)).is_err() {
                return;
            }
            continue;
        }
        match act(peer, id) {
            Some(again) => peer = again,
            None => return,
        }
    }
}

/// A right answer.
fn whole(id: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{id}", id.len()).into_bytes()
}

/// What a client of HTTP/1.1 gets, on a connection of its own.
pub(crate) fn http1(gateway: &Gateway, method: &str, path: &str) -> String {
    let body = if method == "POST" { "Content-Length: 4\r\n\r\nbody" } else { "\r\n" };
    let mut client = gateway.connect();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{body}"));
    match client.try_head() {
        Err(error) => error.to_string(),
        Ok(head) if head.status() < 200 => match client.try_head() {
            Err(error) => error.to_string(),
            Ok(head) => rest(&mut client, &head),
        },
        Ok(head) => rest(&mut client, &head),
    }
}

/// The status, and the body as far as it comes.
fn rest(client: &mut Peer, head: &Message) -> String {
    let status = head.status();
    if matches!(status, 204 | 304 | 500..) {
        return status.to_string();
    }
    let chunked = head.lists("transfer-encoding", "chunked");
    let length = head.field("content-length").map(|length| length.parse::<usize>().unwrap());
    loop {
        let (body, complete) = body(client.unused(), chunked, length);
        if complete {
            return format!("{status} {body}");
        }
        if !client.fill().is_ok_and(|more| more) {
            return format!("{status} cut at {}", body.len());
        }
    }
}

/// As much of a body as is there, and whether that is all.
fn body(mut bytes: &[u8], chunked: bool, length: Option<usize>) -> (String, bool) {
    if !chunked {
        return (
            String::from_utf8_lossy(bytes).into_owned(),
            length.is_some_and(|length| bytes.len() >= length),
        );
    }
    let mut body = String::new();
    while let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return (body, bytes[end..].ends_with(b"\r\n\r\n"));
        }
        let data = &bytes[end + 2..];
        body.push_str(&String::from_utf8_lossy(&data[..size.min(data.len())]));
        bytes = data.get(size + 2..).unwrap_or_default();
    }
    (body, false)
}

/// What a client of HTTP/2 gets.
pub(crate) fn http2(gateway: &Gateway, method: &str, path: &str) -> String {
    asynchronously(async {
        let mut client = Http2Client::connect(gateway.port).await;
        let post = method == "POST";
        let (response, mut send) = client.begin(method, path, &[], !post).await;
        if post {
            send.send_data(Bytes::from("body"), true).unwrap();
        }
        let response = match response.await {
            Ok(response) => response,
            Err(error) if error.is_reset() => return "reset".to_owned(),
            Err(error) => return error.to_string(),
        };
        let status = response.status().as_u16();
        if matches!(status, 204 | 304 | 500..) {
            return status.to_string();
        }
        let (mut body, mut whole) = (response.into_body(), Vec::new());
        while let Some(data) = body.data().await {
            match data {
                Ok(data) => whole.extend_from_slice(&data),
                Err(_) => return format!("{status} cut at {}", whole.len()),
            }
        }
        format!("{status} {}", String::from_utf8_lossy(&whole))
    })
}

/// Sends what the gateway may no longer want.
fn say(mut peer: Peer, bytes: &[u8]) -> Option<Peer> {
    peer.try_send(bytes).is_ok().then_some(peer)
}

/// Sends and closes.
fn last(peer: Peer, bytes: &[u8]) -> Option<Peer> {
    say(peer, bytes).inspect(Peer::finish);
    None
}

/// Sends, waits until that is read, and resets.
fn break_off(peer: Peer, bytes: &[u8]) -> Option<Peer> {
    if let Some(peer) = say(peer, bytes) {
        sleep(Duration::from_millis(50));
        peer.reset();
    }
    None
}

/// Sends, and nothing more until the gateway has enough of it.
fn stall(peer: Peer, bytes: &[u8]) -> Option<Peer> {
    let mut peer = say(peer, bytes)?;
    while peer.fill().is_ok_and(|more| more) {}
    None
}

fn by_pieces(mut peer: Peer, bytes: &[u8], size: usize) -> Option<Peer> {
    let sent: io::Result<()> = bytes.chunks(size).try_for_each(|piece| {
        sleep(Duration::from_millis(2));
        peer.try_send(piece)
    });
    sent.is_ok().then_some(peer)
}

const HALF_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Le";
const HALF_BODY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";

fn trickles(peer: Peer, id: &str) -> Option<Peer> {
    by_pieces(peer, &whole(id), 1)
}

fn pieces(mut peer: Peer, id: &str) -> Option<Peer> {
    let whole = whole(id);
    for piece in whole.chunks(20) {
        peer.try_send(piece).ok()?;
        sleep(Duration::from_millis(250));
    }
    Some(peer)
}

fn chunks_in_pieces(peer: Peer, id: &str) -> Option<Peer> {
    let (begin, end) = id.split_at(3);
    let chunks = format!("3;x=\"y\"\r\n{begin}\r\n{:x}\r\n{end}\r\n0\r\nX-Check: t\r\n\r\n", end.len());
    by_pieces(peer, format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}").as_bytes(), 3)
}

fn closes(peer: Peer, _: &str) -> Option<Peer> {
    last(peer, b"")
}

fn resets(peer: Peer, _: &str) -> Option<Peer> {
    break_off(peer, b"")
}

fn closes_in_head(peer: Peer, _: &str) -> Option<Peer> {
    last(peer, HALF_HEAD)
}

fn resets_in_head(peer: Peer, _: &str) -> Option<Peer> {
    break_off(peer, HALF_HEAD)
}

fn stalls(peer: Peer, _: &str) -> Option<Peer> {
    stall(peer, b"")
}

fn stalls_in_head(peer: Peer, _: &str) -> Option<Peer> {
    stall(peer, HALF_HEAD)
}

fn stalls_in_body(peer: Peer, _: &str) -> Option<Peer> {
    stall(peer, HALF_BODY)
}

fn closes_in_body(peer: Peer, _: &str) -> Option<Peer> {
    last(peer, HALF_BODY)
}

fn resets_in_body(peer: Peer, _: &str) -> Option<Peer> {
    break_off(peer, HALF_BODY)
}

fn closes_in_chunk(peer: Peer, _: &str) -> Option<Peer> {
    last(peer, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf")
}

fn lacks_last_chunk(peer: Peer, _: &str) -> Option<Peer> {
    last(peer, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
}

fn answers_twice(peer: Peer, id: &str) -> Option<Peer> {
    say(peer, &[whole(id), whole("of-nobody")].concat())
}

fn sends_more(peer: Peer, id: &str) -> Option<Peer> {
    say(peer, &[whole(id), b"and more".to_vec()].concat())
}

fn body_with_204(peer: Peer, id: &str) -> Option<Peer> {
    say(peer, &[b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), whole(id)].concat())
}

fn body_with_304(peer: Peer, id: &str) -> Option<Peer> {
    say(peer, &[b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n".to_vec(), whole(id)].concat())
}

fn says_close(peer: Peer, id: &str) -> Option<Peer> {
    last(
        peer,
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{id}", id.len())
            .as_bytes(),
    )
}

fn closes_after(peer: Peer, id: &str) -> Option<Peer> {
    last(peer, &whole(id))
}

fn speaks_smtp(peer: Peer, _: &str) -> Option<Peer> {
    stall(peer, b"220 mail.test ESMTP\r\n")
}

fn speaks_http09(peer: Peer, _: &str) -> Option<Peer> {
    last(peer, b"<html>hello</html>\r\n\r\n")
}

fn two_lengths(peer: Peer, _: &str) -> Option<Peer> {
    say(peer, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nhalf!")
}

fn length_and_chunks(peer: Peer, _: &str) -> Option<Peer> {
    say(
        peer,
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n\r\n",
    )
}

fn unknown_coding(peer: Peer, _: &str) -> Option<Peer> {
    say(peer, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, half\r\n\r\nhalf")
}

fn endless_head(peer: Peer, _: &str) -> Option<Peer> {
    let mut peer = say(peer, b"HTTP/1.1 200 OK\r\n")?;
    while peer.try_send(&b"X-Field: and so on, without end\r\n".repeat(100)).is_ok() {}
    None
}

fn switches_unasked(peer: Peer, _: &str) -> Option<Peer> {
    say(peer, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
}

fn hints(mut peer: Peer, id: &str) -> Option<Peer> {
    peer.try_send(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n").ok()?;
    sleep(Duration::from_millis(50));
    say(peer, &whole(id))
}
