//! Upstreams that speak HTTP/2 and stall, trickle, reset, lie, answer early and twice, frame by frame: the second half of
//! [`super::misbehaving_upstreams`], by the same measure.
#![expect(clippy::needless_pass_by_value, reason = "all cases have one signature")]

use super::http2_floods::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    frame,
};
use super::misbehaving_upstreams::{http1, http2};
use e2e::{Gateway, Peer, Upstream};
use serde_json::json;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// What an upstream does with a request on a stream, given what names the request; what the client gets; and what the error
/// log says, where it says something.
struct Case {
    name: &'static str,
    act: fn(Answer<'_>) -> Then,
    /// `{id}` stands for what names the request.
    outcome: &'static str,
    log: Option<&'static str>,
    /// Whether it acts on the request's head, and not on its end.
    early: bool,
}

/// A request to be answered.
struct Answer<'a> {
    peer: &'a mut Peer,
    stream: u32,
    id: &'a str,
}

/// What becomes of the connection.
#[derive(PartialEq)]
enum Then {
    Serves,
    Closes,
    Resets,
    /// Nothing more is said on it.
    Stalls,
}

const fn case(
    name: &'static str,
    act: fn(Answer<'_>) -> Then,
    outcome: &'static str,
    log: &'static str,
) -> Case {
    let log = if log.is_empty() { None } else { Some(log) };
    Case { name, act, outcome, log, early: false }
}

const CUT: &str = "200 cut at 4";
const LATE: &str = "timed out";

const CASES: &[Case] = &[
    case("sends one byte at a time", trickles, "200 {id}", ""),
    case("sends its head in CONTINUATION frames", continues, "200 {id}", ""),
    case("sends its body in padded and in empty frames", pads, "200 {id}", ""),
    case("hints first", hints, "200 {id}", ""),
    case("sends frames of unknown types", greases, "200 {id}", ""),
    case("stalls before the head", |_| Then::Stalls, "504", LATE),
    case("stalls within the head", stalls_in_head, "504", LATE),
    case("stalls within the body", |a| a.half(Then::Stalls), CUT, "timed out, the response is cut off"),
    case("closes at once", |_| Then::Closes, "502", "closed"),
    case("closes within the body", |a| a.half(Then::Closes), CUT, "the response is cut off"),
    case("resets its connection", |_| Then::Resets, "502", ""),
    case("resets its connection within the body", |a| a.half(Then::Resets), CUT, "the response is cut off"),
    case("resets the stream", resets_stream, "502", "RST_STREAM"),
    case("resets the stream behind the head", resets_behind_head, "200 cut at 0", "RST_STREAM"),
    case("resets the stream within the body", resets_in_body, CUT, "RST_STREAM"),
    case("refuses the stream", refuses, "502", "REFUSED_STREAM"),
    case("answers twice", answers_twice, "200 {id}", ""),
    case("sends more than it announced", sends_more, "200 cut at 0", "the response is cut off"),
    case("sends less than it announced", sends_less, "200 cut at 0", "the response is cut off"),
    case("sends a body with 204", body_with_204, "204", ""),
    case("goes away without the request", goes_away, "502", "GOAWAY"),
    case("goes away after the request", goes_after, "200 {id}", ""),
    case("goes away in two steps", goes_in_steps, "200 {id}", ""),
    case("goes away with an error", goes_with_error, "502", ""),
    case("goes away within the body", goes_in_body, "200 {id}", ""),
    case("speaks HTTP/1.1", speaks_http1, "502", ""),
    case("sends DATA before HEADERS", data_first, "502", ""),
    case("sends a head without a status", no_status, "502", ""),
    case("sends a field of HTTP/1.1", |a| a.with(b"\x00\x11transfer-encoding\x07chunked"), "502", ""),
    case("sends a name in upper case", |a| a.with(b"\x00\x01A\x01b"), "502", ""),
    case("sends a frame that is too long", too_long, "200 cut at 0", "the response is cut off"),
    case("opens the window by nothing", no_window, "502", ""),
    case("pushes", pushes, "502", ""),
    Case { early: true, ..case("answers before the request is complete", right, "200 {id}", "") },
    Case { early: true, ..case("answers early and resets with NO_ERROR", early, "200 {id}", "") },
    Case { early: true, ..case("resets early", resets_stream, "502", "RST_STREAM") },
];

/// How long an upstream's answer is waited for.
const READ_TIMEOUT_S: u64 = 1;

#[test]
fn whatever_an_upstream_of_http2_does_no_request_gets_the_answer_of_another() {
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
fn judge(case: &'static Case) -> Vec<String> {
    let upstream = Upstream::serve(move |peer, _| serve(peer, case));
    let gateway = Gateway::start();
    let upstream = json!({
        "nodes": { upstream.address(): 1 }, "type": "roundrobin", "retries": 0, "scheme": "grpc",
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
    for (method, letter) in [("GET", 't'), ("POST", 'o')] {
        // In letters that `path` can read: `c` for what is answered as it should be, `s` for the rest.
        let mut ask = |what: &str, kind: char, number: char, expected: &str| {
            let id = format!("{kind}{letter}{number}");
            let asks = if number < '2' { http1 } else { http2 };
            check(&format!("{method} {what}"), &id, asks(&gateway, method, &format!("/{id}")), expected);
        };
        ask("before", 'c', '0', "200 {id}");
        ask("over HTTP/1.1", 's', '1', case.outcome);
        ask("after it", 'c', '1', "200 {id}");
        ask("over HTTP/2", 's', '2', case.outcome);
        ask("after that", 'c', '2', "200 {id}");
        asked += 5;
    }
    let status = &case.outcome[..3];
    let lines = gateway.access_log(asked);
    let bad = lines.iter().filter(|line| line.contains(" /s"));
    for line in bad.filter(|line| !line.contains(&format!("\" {status} "))) {
        wrong.push(format!("an upstream that {}: {status} is not in the access log: {line}", case.name));
    }
    if let Some(reason) = case.log {
        let until = Instant::now() + Duration::from_secs(10);
        while !gateway.stderr().contains(reason) && Instant::now() < until {
            sleep(Duration::from_millis(20));
        }
        let said = gateway.stderr();
        if !said.contains(reason) {
            wrong.push(format!("an upstream that {}: {reason:?} is not in the log: {said}", case.name));
        }
    }
    wrong
}

/// Serves a connection: what is asked of `/c...` is answered as it should be, the rest as `case` says.
fn serve(mut peer: Peer, case: &Case) {
    // No dynamic table: every path comes as it is.
    let settings = frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0]);
    if peer.try_send(&settings).is_err() || peer.unused().len() < 24 && !peer.fill().unwrap_or(false) {
        return;
    }
    peer.bytes(24);
    let mut paths = Vec::new();
    while let Some((kind, flags, stream, payload)) = read(&mut peer) {
        match kind {
            SETTINGS if flags == 0 => {
                let _ = peer.try_send(&frame(SETTINGS, 1, 0, &[]));
                continue;
            }
            PING if flags == 0 => {
                let _ = peer.try_send(&frame(PING, 1, 0, &payload));
                continue;
            }
            HEADERS => paths.push((stream, path(&payload))),
            DATA => {}
            _ => continue,
        }
        let Some(at) = paths.iter().position(|(of, _)| *of == stream) else { continue };
        let bad = paths[at].1.starts_with('s');
        if flags & END_STREAM == 0 && !(bad && case.early && kind == HEADERS) {
            continue;
        }
        let (_, id) = paths.remove(at);
        let answer = Answer { peer: &mut peer, stream, id: &id };
        let then = if bad { (case.act)(answer) } else { right(answer) };
        match then {
            Then::Serves => {}
            Then::Closes => return peer.finish(),
            Then::Resets => {
                sleep(Duration::from_millis(50));
                return peer.reset();
            }
            Then::Stalls => {
                while peer.fill().is_ok_and(|more| more) {}
                return;
            }
        }
    }
}

/// Reads one frame: its type, flags, stream and payload.
fn read(peer: &mut Peer) -> Option<(u8, u8, u32, Vec<u8>)> {
    let filled = |peer: &mut Peer, count: usize| {
        while peer.unused().len() < count {
            if !peer.fill().unwrap_or(false) {
                return None;
            }
        }
        Some(peer.bytes(count))
    };
    let head = filled(peer, 9)?;
    let payload = filled(peer, u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize)?;
    Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload))
}

/// The path of a request, but for its slash, out of the field block (RFC 7541). The ten letters that it may have are those
/// of the Huffman code with five bits, which count up in this order.
fn path(mut block: &[u8]) -> String {
    const LETTERS: &[u8; 10] = b"012aceiost";
    while let Some(first) = block.first() {
        let (bits, string) = match first {
            0x80.. => (7, false),
            0x40.. => (6, true),
            0x20.. => (5, false),
            _ => (4, true),
        };
        let name = integer(&mut block, bits);
        if !string {
            continue;
        }
        if name == 0 {
            text(&mut block);
        }
        let (huffman, value) = text(&mut block);
        if name != 4 {
            continue;
        }
        if !huffman {
            return String::from_utf8_lossy(&value[1..]).into_owned();
        }
        // Six bits are the slash.
        let bit = |at: usize| value.get(at / 8).map_or(1, |byte| byte >> (7 - at % 8) & 1);
        let letter = |at: usize| (0..5).fold(0, |code, of| code << 1 | usize::from(bit(at + of)));
        let letters = (6..value.len() * 8).step_by(5).map_while(|at| LETTERS.get(letter(at)));
        return letters.map(|letter| char::from(*letter)).collect();
    }
    String::new()
}

/// An integer of which the first byte has this many bits.
fn integer(block: &mut &[u8], bits: u32) -> usize {
    let most = (1 << bits) - 1;
    let mut value = usize::from(block[0]) & most;
    let mut used = 1;
    if value == most {
        let more = block[1..].iter().position(|byte| *byte < 128).expect("an end") + 1;
        let added = (0..more).map(|at| usize::from(block[1 + at] & 127) << (7 * at));
        value += added.sum::<usize>();
        used += more;
    }
    *block = &block[used..];
    value
}

/// A string, and whether it is in the Huffman code.
fn text<'b>(block: &mut &'b [u8]) -> (bool, &'b [u8]) {
    let huffman = block[0] & 0x80 != 0;
    let length = integer(block, 7);
    let (value, rest) = block.split_at(length);
    *block = rest;
    (huffman, value)
}

/// `:status: 200` in HPACK.
const OK: &[u8] = b"\x88";

/// The same, and `content-length` with one digit.
fn ok_of(length: usize) -> Vec<u8> {
    [OK, b"\x0f\x0d\x01", length.to_string().as_bytes()].concat()
}

fn whole(stream: u32, id: &str) -> Vec<u8> {
    let head = frame(HEADERS, END_HEADERS, stream, &ok_of(id.len()));
    [head, frame(DATA, END_STREAM, stream, id.as_bytes())].concat()
}

fn reset(stream: u32, reason: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &reason.to_be_bytes())
}

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;

/// No stream after `last` is served.
fn goaway(last: u32, reason: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), reason.to_be_bytes()].concat())
}

impl Answer<'_> {
    /// Sends what the gateway may no longer want.
    fn say(self, frames: &[u8]) -> Then {
        if self.peer.try_send(frames).is_ok() { Then::Serves } else { Then::Closes }
    }

    /// Sends half of an answer, lets it be read, and then does something else.
    fn half(self, then: Then) -> Then {
        let head = frame(HEADERS, END_HEADERS, self.stream, &ok_of(8));
        let _ = self.peer.try_send(&[head, frame(DATA, 0, self.stream, b"half")].concat());
        sleep(Duration::from_millis(100));
        then
    }

    /// Sends one frame on the stream.
    fn one(self, kind: u8, flags: u8, payload: &[u8]) -> Then {
        let frame = frame(kind, flags, self.stream, payload);
        self.say(&frame)
    }

    /// Sends a head with these fields besides the status, and the end.
    fn with(self, fields: &[u8]) -> Then {
        self.one(HEADERS, END_HEADERS | END_STREAM, &[OK, fields].concat())
    }
}

fn right(answer: Answer<'_>) -> Then {
    let frames = whole(answer.stream, answer.id);
    answer.say(&frames)
}

fn trickles(answer: Answer<'_>) -> Then {
    let frames = whole(answer.stream, answer.id);
    for byte in frames {
        sleep(Duration::from_millis(2));
        if answer.peer.try_send(&[byte]).is_err() {
            return Then::Closes;
        }
    }
    Then::Serves
}

fn continues(answer: Answer<'_>) -> Then {
    let (stream, block) = (answer.stream, ok_of(answer.id.len()));
    let (first, rest) = block.split_at(2);
    let _ = answer.peer.try_send(&frame(HEADERS, 0, stream, first));
    sleep(Duration::from_millis(150));
    let head = frame(CONTINUATION, END_HEADERS, stream, rest);
    let body = frame(DATA, END_STREAM, stream, answer.id.as_bytes());
    answer.say(&[head, body].concat())
}

fn pads(answer: Answer<'_>) -> Then {
    const PADDED: u8 = 8;
    let (stream, id) = (answer.stream, answer.id.as_bytes());
    let mut frames = frame(HEADERS, END_HEADERS, stream, OK);
    for byte in id {
        frames.extend(frame(DATA, PADDED, stream, &[3, *byte, 0, 0, 0]));
        frames.extend(frame(DATA, 0, stream, b""));
    }
    frames.extend(frame(DATA, END_STREAM, stream, b""));
    answer.say(&frames)
}

fn hints(answer: Answer<'_>) -> Then {
    let early = frame(HEADERS, END_HEADERS, answer.stream, b"\x08\x03103");
    let _ = answer.peer.try_send(&early);
    sleep(Duration::from_millis(50));
    right(answer)
}

fn greases(answer: Answer<'_>) -> Then {
    let _ = answer.peer.try_send(&frame(0xfa, 7, 0, b"x"));
    right(answer)
}

fn stalls_in_head(answer: Answer<'_>) -> Then {
    let _ = answer.peer.try_send(&frame(HEADERS, 0, answer.stream, OK));
    Then::Stalls
}

fn resets_stream(answer: Answer<'_>) -> Then {
    answer.one(RST_STREAM, 0, &INTERNAL_ERROR.to_be_bytes())
}

fn resets_behind_head(answer: Answer<'_>) -> Then {
    let stream = answer.stream;
    let _ = answer.peer.try_send(&frame(HEADERS, END_HEADERS, stream, OK));
    sleep(Duration::from_millis(100));
    answer.say(&reset(stream, INTERNAL_ERROR))
}

fn resets_in_body(answer: Answer<'_>) -> Then {
    let Answer { peer, stream, id } = answer;
    Answer { peer: &mut *peer, stream, id }.half(Then::Serves);
    Answer { peer, stream, id }.say(&reset(stream, INTERNAL_ERROR))
}

fn refuses(answer: Answer<'_>) -> Then {
    answer.one(RST_STREAM, 0, &REFUSED_STREAM.to_be_bytes())
}

fn answers_twice(answer: Answer<'_>) -> Then {
    let frames = [whole(answer.stream, answer.id), whole(answer.stream, "oo")].concat();
    answer.say(&frames)
}

fn sends_more(answer: Answer<'_>) -> Then {
    let head = frame(HEADERS, END_HEADERS, answer.stream, &ok_of(4));
    let frames = [head, frame(DATA, END_STREAM, answer.stream, b"half and more")].concat();
    answer.say(&frames)
}

fn sends_less(answer: Answer<'_>) -> Then {
    let head = frame(HEADERS, END_HEADERS, answer.stream, &ok_of(8));
    let frames = [head, frame(DATA, END_STREAM, answer.stream, b"half")].concat();
    answer.say(&frames)
}

fn body_with_204(answer: Answer<'_>) -> Then {
    // `:status: 204` is the ninth of the static table.
    let head = frame(HEADERS, END_HEADERS, answer.stream, b"\x89");
    let frames = [head, frame(DATA, END_STREAM, answer.stream, b"half")].concat();
    answer.say(&frames)
}

fn goes_away(answer: Answer<'_>) -> Then {
    let _ = answer.peer.try_send(&goaway(0, NO_ERROR));
    Then::Closes
}

fn goes_after(answer: Answer<'_>) -> Then {
    let frames = [goaway(answer.stream, NO_ERROR), whole(answer.stream, answer.id)].concat();
    let _ = answer.peer.try_send(&frames);
    Then::Closes
}

fn goes_in_steps(answer: Answer<'_>) -> Then {
    let (stream, id) = (answer.stream, answer.id);
    let _ = answer.peer.try_send(&goaway(i32::MAX as u32, NO_ERROR));
    sleep(Duration::from_millis(50));
    let _ = answer.peer.try_send(&[whole(stream, id), goaway(stream, NO_ERROR)].concat());
    Then::Closes
}

fn goes_with_error(answer: Answer<'_>) -> Then {
    let _ = answer.peer.try_send(&goaway(answer.stream, INTERNAL_ERROR));
    Then::Closes
}

fn goes_in_body(answer: Answer<'_>) -> Then {
    let (stream, id) = (answer.stream, answer.id.as_bytes());
    let head = frame(HEADERS, END_HEADERS, stream, &ok_of(id.len()));
    let begun = [head, frame(DATA, 0, stream, &id[..1]), goaway(stream, NO_ERROR)].concat();
    let _ = answer.peer.try_send(&begun);
    sleep(Duration::from_millis(100));
    let _ = answer.peer.try_send(&frame(DATA, END_STREAM, stream, &id[1..]));
    Then::Closes
}

fn speaks_http1(answer: Answer<'_>) -> Then {
    let _ = answer.peer.try_send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhalf");
    Then::Closes
}

fn data_first(answer: Answer<'_>) -> Then {
    answer.one(DATA, END_STREAM, b"half")
}

fn no_status(answer: Answer<'_>) -> Then {
    answer.one(HEADERS, END_HEADERS | END_STREAM, b"\x00\x01a\x01b")
}

fn too_long(answer: Answer<'_>) -> Then {
    let head = frame(HEADERS, END_HEADERS, answer.stream, OK);
    let frames = [head, frame(DATA, END_STREAM, answer.stream, &[b'x'; 1 << 20])].concat();
    answer.say(&frames)
}

fn no_window(answer: Answer<'_>) -> Then {
    answer.one(WINDOW_UPDATE, 0, &[0; 4])
}

fn pushes(answer: Answer<'_>) -> Then {
    const PUSH_PROMISE: u8 = 5;
    let block = [&2_u32.to_be_bytes()[..], b"\x82\x86\x84\x41\x01a"].concat();
    answer.one(PUSH_PROMISE, END_HEADERS, &block)
}

fn early(answer: Answer<'_>) -> Then {
    let frames = [whole(answer.stream, answer.id), reset(answer.stream, NO_ERROR)].concat();
    answer.say(&frames)
}
