//! The protocol corpus through the codec: whole, cut at every place, and byte by byte.

#[path = "../../../tests/protocol/corpus.rs"]
mod corpus;

use corpus::{Case, Verdict, read};
use std::path::{Path, PathBuf};
use wire::http1::{BodyDecoder, HEAD_MAX};
use wire::{BodyEvent, BodyLength, Method, RequestHead, RequestView, ResponseHead, host_of, normalise_path};

/// Messages longer than this are cut at some places only: parsing them at each would take minutes.
const SHORT: usize = 2048;

const REQUESTS: [&str; 7] =
    ["request_line", "target", "fields", "framing", "chunked", "connection", "limits"];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/protocol/{name}.txt"))
}

#[test]
fn every_request_has_its_verdict_however_it_is_cut() {
    for case in REQUESTS.iter().flat_map(|name| read(&file(name))) {
        check(&case, &|bytes, cuts| judge_request(bytes, cuts));
    }
}

#[test]
fn every_response_has_its_verdict_however_it_is_cut() {
    for case in read(&file("responses")) {
        let method = Method::from_token(case.to.as_bytes());
        check(&case, &|bytes, cuts| judge_response(bytes, method, cuts));
    }
}

#[test]
fn every_file_is_read() {
    let folder = file("framing").parent().expect("a folder").to_owned();
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .expect("the corpus is there")
        .filter_map(|entry| {
            entry.expect("readable").file_name().to_str()?.strip_suffix(".txt").map(str::to_owned)
        })
        .collect();
    names.sort();
    let mut known: Vec<_> = REQUESTS.iter().copied().chain(["responses"]).collect();
    known.sort();
    assert_eq!(names, known);
}

/// Feeds a case in all ways to `judge`, which is given the bytes and where they are cut.
fn check(case: &Case, judge: &dyn Fn(&[u8], &[usize]) -> Verdict) {
    let whole = judge(&case.bytes, &[]);
    match (&case.verdict, &whole) {
        (Verdict::Accepted(expected), Verdict::Accepted(found)) => {
            for (key, value) in expected {
                let (_, is) = found
                    .iter()
                    .find(|(other, _)| other == key)
                    .unwrap_or_else(|| panic!("{}: no fact is called `{key}`", case.name));
                let text = String::from_utf8_lossy;
                assert_eq!(text(is), text(value), "{}: {key}", case.name);
            }
        }
        (expected, found) => assert_eq!(found, expected, "{}", case.name),
    }
    let length = case.bytes.len();
    let stride = if length <= SHORT { 1 } else { length / 37 };
    for cut in (1..length).step_by(stride) {
        assert_eq!(judge(&case.bytes, &[cut]), whole, "{}: cut at {cut}", case.name);
    }
    let steps = if length <= SHORT { vec![1, 2, 3, 7] } else { vec![509, 4096, 8192] };
    for step in steps {
        let cuts: Vec<_> = (step..length).step_by(step).collect();
        assert_eq!(judge(&case.bytes, &cuts), whole, "{}: in steps of {step}", case.name);
    }
}

/// The ends of the pieces that `cuts` make of `length` bytes.
fn ends(cuts: &[usize], length: usize) -> impl Iterator<Item = usize> {
    cuts.iter().copied().chain([length])
}

fn judge_request(bytes: &[u8], cuts: &[usize]) -> Verdict {
    let mut head = RequestHead::default();
    for end in ends(cuts, bytes.len()) {
        match head.parse(&bytes[..end]) {
            Ok(true) => return judge_body(bytes, head.length, end, cuts, &head),
            // The engine's buffer is full then.
            Ok(false) => assert!(end < HEAD_MAX),
            Err(error) => return Verdict::Refused(error.status()),
        }
    }
    Verdict::Waits
}

fn judge_body(bytes: &[u8], from: usize, to: usize, cuts: &[usize], head: &RequestHead) -> Verdict {
    let normal = normalise_path(head.path.get(bytes));
    let view = RequestView { head, bytes };
    assert_eq!(view.normal_path(), normal, "what the parser knows of the path");
    let bare = |host: &[u8]| host.strip_suffix(b".").unwrap_or(host).to_ascii_lowercase();
    let host = host_of(head.authority.get(bytes)).map(bare);
    assert_eq!(Some(&*view.host()), host.as_deref(), "what the parser knows of the host");
    let Some(normal) = normal else { return Verdict::Refused(400) };
    match decode(bytes, from, to, cuts, head.facts.body) {
        Err(()) => Verdict::Refused(400),
        Ok(None) => Verdict::Waits,
        Ok(Some(body)) => {
            let facts = &head.facts;
            let mut found = body.facts(facts.body);
            for (key, span) in [
                ("method", head.method_token),
                ("target", head.target),
                ("path", head.path),
                ("query", head.query),
                ("host", head.authority),
            ] {
                found.push((key.to_owned(), span.get(bytes).to_vec()));
            }
            for (key, holds) in [
                ("keep", facts.keep_alive),
                ("continue", facts.expects_continue),
                ("upgrade", facts.upgrade),
                ("http11", facts.http11),
            ] {
                found.push((key.to_owned(), yes(holds)));
            }
            found.push(("normal".to_owned(), normal.into_owned()));
            found.push(("fields".to_owned(), number(head.fields.len())));
            Verdict::Accepted(found)
        }
    }
}

fn judge_response(bytes: &[u8], method: Method, cuts: &[usize]) -> Verdict {
    let mut head = ResponseHead::default();
    for end in ends(cuts, bytes.len()) {
        match head.parse(&bytes[..end], method) {
            Ok(false) => continue,
            Err(_) => return Verdict::Refused(502),
            Ok(true) => {}
        }
        return match decode(bytes, head.length, end, cuts, head.body) {
            Err(()) => Verdict::Refused(502),
            Ok(None) => Verdict::Waits,
            Ok(Some(body)) => {
                let mut found = body.facts(head.body);
                found.push(("status".to_owned(), number(usize::from(head.status))));
                found.push(("reason".to_owned(), head.reason.get(bytes).to_vec()));
                found.push(("keep".to_owned(), yes(head.keep_alive)));
                found.push(("fields".to_owned(), number(head.fields.len())));
                Verdict::Accepted(found)
            }
        };
    }
    Verdict::Waits
}

/// A decoded body.
#[derive(Default)]
struct Body {
    content: Vec<u8>,
    trailers: Vec<u8>,
    rest: usize,
}

impl Body {
    fn facts(self, length: BodyLength) -> Vec<(String, Vec<u8>)> {
        let kind = match length {
            BodyLength::None => "none".to_owned(),
            BodyLength::Exact(length) => format!("exact:{length}"),
            BodyLength::Chunked => "chunked".to_owned(),
            BodyLength::UntilClose => "close".to_owned(),
        };
        vec![
            ("body".to_owned(), kind.into_bytes()),
            ("content".to_owned(), self.content),
            ("trailers".to_owned(), self.trailers),
            ("rest".to_owned(), number(self.rest)),
        ]
    }
}

/// Decodes the body from `from` on, of which the bytes up to `to` are there already. `None`: it is not complete.
fn decode(
    bytes: &[u8],
    mut from: usize,
    mut to: usize,
    cuts: &[usize],
    length: BodyLength,
) -> Result<Option<Body>, ()> {
    let mut decoder = BodyDecoder::new(length);
    let mut body = Body::default();
    let mut later = ends(cuts, bytes.len()).filter(|end| *end > to).collect::<Vec<_>>().into_iter();
    loop {
        let (used, event) = decoder.next(&bytes[from..to]).map_err(|_| ())?;
        from += used;
        match event {
            BodyEvent::Data(data) => body.content.extend_from_slice(data),
            BodyEvent::Trailers(lines) => body.trailers.extend_from_slice(lines),
            BodyEvent::End => break,
            BodyEvent::NeedMore => match later.next() {
                Some(end) => to = end,
                None if decoder.ends_with_connection() => break,
                None => return Ok(None),
            },
        }
    }
    body.rest = bytes.len() - from;
    Ok(Some(body))
}

fn yes(holds: bool) -> Vec<u8> {
    if holds { b"yes".to_vec() } else { b"no".to_vec() }
}

fn number(number: usize) -> Vec<u8> {
    number.to_string().into_bytes()
}
