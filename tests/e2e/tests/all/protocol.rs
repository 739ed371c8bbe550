//! The protocol corpus, sent to the binary: what is refused reaches no upstream, what is accepted reaches it as one
//! request.

#[path = "../../../protocol/corpus.rs"]
mod corpus;

use corpus::{Case, Verdict};
use e2e::{Gateway, Message, Peer, Seen, Upstream};
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The files about requests.
const REQUESTS: [&str; 7] =
    ["request_line", "target", "fields", "framing", "chunked", "connection", "limits"];

fn cases(file: &str) -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol");
    corpus::read(&root.join(format!("{file}.txt")))
}

fn requests() -> impl Iterator<Item = Case> {
    REQUESTS.iter().flat_map(|file| cases(file))
}

#[test]
fn refused_requests_are_answered_and_reach_no_upstream() {
    let (upstream, seen) = Upstream::recording();
    // The corpus is about HTTP/1: where HTTP/2 is spoken, its preface is no mistake.
    let gateway = Gateway::with(json!({ "apisix": { "enable_http2": false } }));
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "enable_websocket": true }));
    let mut wrong = Vec::new();
    let mut count = 0;
    for case in requests() {
        let Verdict::Refused(status) = case.verdict else { continue };
        count += 1;
        let mut client = gateway.connect();
        let _ = client.try_send(&case.bytes);
        match client.try_response("GET") {
            Ok(answer) if answer.status() != status => wrong.push(format!("{}: {}", case.name, answer.start)),
            Ok(answer) if answer.field("connection") != Some("close") => {
                wrong.push(format!("{}: it doesn't say that it closes", case.name));
            }
            Ok(_) if !client.is_closed() => wrong.push(format!("{}: it doesn't close", case.name)),
            Ok(_) => {}
            Err(error) => wrong.push(format!("{}: {error}, not {status}", case.name)),
        }
    }
    assert!(count > 150, "{count} cases");
    assert!(wrong.is_empty(), "{wrong:#?}");
    // What was under way before it has arrived before it.
    assert_eq!(gateway.get("/sentinel").status(), 200);
    assert_eq!(seen.only().start, "GET /sentinel HTTP/1.1");
}

#[test]
fn accepted_requests_reach_the_upstream_as_one() {
    let (upstream, seen) = Upstream::recording();
    let gateway = Gateway::start();
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "enable_websocket": true }));
    let mut wrong = Vec::new();
    for case in requests() {
        let Verdict::Accepted(facts) = &case.verdict else { continue };
        if let Err(why) = accepted(&gateway, &seen, &case, facts) {
            wrong.push(format!("{}: {why}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn accepted(gateway: &Gateway, seen: &Seen, case: &Case, facts: &[(String, Vec<u8>)]) -> Result<(), String> {
    let mut client = gateway.connect();
    client.send(&case.bytes);
    let expects = case.bytes.windows(12).any(|window| window.eq_ignore_ascii_case(b"100-continue"));
    let mut answer = client.try_response("GET").map_err(|error| error.to_string())?;
    if answer.status() == 100 {
        if !expects {
            return Err("100 that nobody asked for".to_owned());
        }
        answer = client.try_response("GET").map_err(|error| error.to_string())?;
    }
    let fact = |name: &str| facts.iter().find(|(key, _)| key == name).map(|(_, value)| latin1(value));
    if case.bytes.starts_with(b"OPTIONS * ") {
        // No route is for the server as a whole.
        return check("status", 404, answer.status());
    }
    check("status", 200, answer.status())?;
    if fact("keep").as_deref() == Some("no") {
        check("Connection", Some("close"), answer.field("connection"))?;
        check("closed", true, client.is_closed())?;
    }
    let alone = matches!(fact("rest").as_deref(), None | Some("0"));
    if !alone {
        // What follows is a request of its own; whether it is passed on is not this case's question.
        client.try_response("GET").map_err(|error| error.to_string())?;
    }
    let mut requests = seen.take();
    if alone {
        check("requests", 1, requests.len())?;
    }
    arrived(&requests.remove(0), &fact)
}

/// Compares what the upstream got with the corpus's facts.
fn arrived(request: &Message, fact: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    let words: Vec<&str> = request.start.split(' ').collect();
    let [method, target, version] = words[..] else { return Err(format!("start line {}", request.start)) };
    check("version", "HTTP/1.1", version)?;
    for (name, got) in [("method", method), ("target", target), ("content", &latin1(&request.body))] {
        if let Some(expected) = fact(name) {
            check(name, expected.as_str(), got)?;
        }
    }
    check("Host", 1, request.all("host").len())?;
    if let Some(host) = fact("host").filter(|host| !host.is_empty()) {
        check("Host", Some(host.as_str()), request.field("host"))?;
    }
    let framing = (request.field("content-length"), request.field("transfer-encoding"));
    match fact("body").as_deref() {
        Some("none") => check("framing", true, matches!(framing, (None | Some("0"), None)))?,
        Some("chunked") => check("framing", (None, Some("chunked")), framing)?,
        Some(exact) => check("framing", (exact.strip_prefix("exact:"), None), framing)?,
        None => check("one framing at most", true, framing.0.is_none() || framing.1.is_none())?,
    }
    if let Some(trailers) = fact("trailers") {
        let lines: String = request.trailers.iter().map(|line| format!("{line}\r\n")).collect();
        check("trailers", trailers, lines)?;
    }
    if let Some(upgrade) = fact("upgrade") {
        check("upgrade", upgrade == "yes", request.lists("connection", "upgrade"))?;
        check("upgrade", upgrade == "yes", request.field("upgrade").is_some())?;
    }
    check("Expect", None, request.field("expect"))
}

#[expect(clippy::needless_pass_by_value, reason = "callers compare values that they have just made")]
fn check<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, got: T) -> Result<(), String> {
    if expected == got { Ok(()) } else { Err(format!("{what} is {got:?}, not {expected:?}")) }
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

#[test]
fn requests_that_never_end_are_answered_in_time() {
    let (upstream, seen) = Upstream::recording();
    let gateway = Gateway::with_http(&json!({ "client_header_timeout": "1s", "client_body_timeout": "1s" }));
    // The route's own patience with a request that is being sent must not win over the client's.
    let timeout = json!({ "timeout": { "connect": 1, "send": 1, "read": 1 } });
    gateway.route_with(&upstream.address(), &timeout, &json!({}));
    let waiting: Vec<(String, Peer)> = requests()
        .filter(|case| case.verdict == Verdict::Waits)
        .map(|case| {
            let mut client = gateway.connect();
            client.send(&case.bytes);
            (case.name, client)
        })
        .collect();
    assert!(waiting.len() >= 5);
    for (name, mut client) in waiting {
        let answer = client.try_response("GET").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(answer.status(), 408, "{name}");
        assert!(client.is_closed(), "{name}");
    }
    assert_eq!(seen.take(), []);
}

#[test]
fn responses_are_passed_on_or_become_502() {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let sent = Arc::clone(&bytes);
    let upstream = Upstream::serve(move |mut peer, _| {
        while peer.request().is_ok() {
            let bytes = sent.lock().unwrap().clone();
            let _ = peer.try_send(&bytes);
            peer.finish();
        }
    });
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let mut wrong = Vec::new();
    for case in cases("responses") {
        bytes.lock().unwrap().clone_from(&case.bytes);
        let mut client = gateway.connect();
        client.send(format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", case.to));
        let answer = loop {
            match client.try_response(&case.to) {
                Ok(interim) if interim.status() < 200 => {}
                other => break other,
            }
        };
        if let Err(why) = passed_on(&case, answer) {
            wrong.push(format!("{}: {why}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn passed_on(case: &Case, answer: std::io::Result<Message>) -> Result<(), String> {
    let answer = answer.map_err(|error| error.to_string())?;
    let Verdict::Accepted(facts) = &case.verdict else {
        // Here the upstream doesn't leave it at waiting: it ends.
        return check("status", 502, answer.status());
    };
    let fact = |name: &str| facts.iter().find(|(key, _)| key == name).map(|(_, value)| latin1(value));
    let status = fact("status").unwrap_or("200".to_owned());
    // The final response after an interim one is 200.
    let status = if status == "103" { "200".to_owned() } else { status };
    check("status", status, answer.status().to_string())?;
    for alias in ["content_length", "transfer_encoding"] {
        check(alias, 0, answer.all(alias).len())?;
    }
    if let Some(content) = fact("content") {
        check("content", content, answer.text())?;
    }
    Ok(())
}
