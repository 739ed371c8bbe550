//! Request heads.

use super::lines::{assert_fields, assert_within, hash, is_token_byte, lines, values};
use wire::http1::{HEAD_MAX, LINE_MAX};
use wire::{BodyLength, FieldSink, Known, RequestHead, host_of, normalise_path};

/// Checks the parse of the head at the start of `bytes`.
pub fn check(bytes: &[u8]) {
    let mut head = RequestHead::default();
    match head.parse(bytes) {
        Ok(true) => {
            check_structure(bytes, &head);
            check_target(bytes, &head);
            check_prefixes(bytes, head.length);
            check_copy(bytes, &head);
        }
        Ok(false) => {
            assert!(bytes.len() < HEAD_MAX, "no more is awaited of a head that is too long");
        }
        Err(error) => {
            assert!((400..=505).contains(&error.status()) && !error.reason().is_empty());
            // Refused is refused, whatever follows.
            for more in [&b"\r\n\r\n"[..], b"a: b\r\n\r\n", b"1.1\r\nHost: a\r\n\r\n"] {
                assert!(head.parse(&[bytes, more].concat()).is_err(), "accepted with more bytes");
            }
        }
    }
    // These take any bytes, not only what stands in a head.
    let _ = host_of(bytes);
    if let Some(path) = normalise_path(bytes) {
        check_path(bytes, &path);
    }
}

/// The lines, fields and framing are what the plain reader finds.
fn check_structure(bytes: &[u8], head: &RequestHead) {
    assert!(head.length <= HEAD_MAX && head.length <= bytes.len());
    let start = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    let lines = lines(&bytes[start..head.length]);
    assert!(lines.iter().all(|line| line.len() + 2 <= LINE_MAX));
    let (request_line, lines) = lines.split_first().expect("there is a request line");
    let words: Vec<&[u8]> = request_line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else { panic!("a request line has three words") };
    assert!(!method.is_empty() && method.iter().all(|byte| is_token_byte(*byte)));
    assert!(!method.iter().any(u8::is_ascii_lowercase) && !matches!(method, b"CONNECT" | b"TRACE"));
    assert!(!target.is_empty() && target.iter().all(|byte| *byte > b' ' && *byte != 0x7f));
    assert_eq!(version, if head.facts.http11 { b"HTTP/1.1" } else { b"HTTP/1.0" });
    assert_eq!(head.method_token.get(bytes), method);
    assert_fields(bytes, start + request_line.len() + 2..head.length, &head.fields, lines);
    let hosts = values(lines, "host");
    assert!(hosts.len() <= 1 && (hosts.len() == 1 || !head.facts.http11), "one Host");
    let lengths = values(lines, "content-length");
    let codings = values(lines, "transfer-encoding");
    assert!(lengths.len() + codings.len() <= 1, "framing said once");
    let expected = match (lengths.first(), codings.first()) {
        (None, None) => BodyLength::None,
        (Some(length), _) => {
            assert!(length.iter().all(u8::is_ascii_digit), "digits only");
            let text = std::str::from_utf8(length).expect("digits");
            BodyLength::exact(text.parse::<i64>().expect("no overflow").unsigned_abs())
        }
        (_, Some(coding)) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked") && head.facts.http11);
            BodyLength::Chunked
        }
    };
    assert_eq!(head.facts.body, expected);
    assert!(values(lines, "content_length").is_empty() && values(lines, "transfer_encoding").is_empty());
    let connection = values(lines, "connection").join(&b',').to_ascii_lowercase();
    let says = |word: &[u8]| connection.split(|byte| *byte == b',').any(|token| token.trim_ascii() == word);
    assert_eq!(head.facts.keep_alive, !says(b"close") && (head.facts.http11 || says(b"keep-alive")));
    assert!(!head.facts.upgrade || (head.facts.http11 && says(b"upgrade")));
}

/// What goes upstream as target is one word that starts with a slash (or is `*`), made of the client's.
fn check_target(bytes: &[u8], head: &RequestHead) {
    let place = 0..head.length;
    for span in [head.method_token, head.target, head.path, head.query, head.authority] {
        assert_within(span, &place);
    }
    let target = head.target.get(bytes);
    assert!(target.starts_with(b"/") || target == b"*");
    assert!(!target.iter().any(|byte| matches!(byte, 0..=b' ' | b'#' | 0x7f)));
    let joined = match target.contains(&b'?') {
        true => [head.path.get(bytes), head.query.get(bytes)].join(&b'?'),
        false => head.path.get(bytes).to_vec(),
    };
    assert_eq!(joined, target);
    assert!(host_of(head.authority.get(bytes)).is_some(), "a valid host");
    if let Some(path) = normalise_path(head.path.get(bytes)) {
        check_path(head.path.get(bytes), &path);
    }
}

/// A normalised path has nothing left to resolve.
fn check_path(raw: &[u8], path: &[u8]) {
    if raw.starts_with(b"/") {
        assert!(path.len() <= raw.len(), "normalising only takes away");
        assert!(path.starts_with(b"/"), "absolute stays absolute");
        assert!(!path.windows(2).any(|pair| pair == b"//"), "slashes are merged");
        assert!(!path.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"." | b"..")));
        assert!(raw.contains(&0) || !path.contains(&0));
    }
}

/// No beginning of an accepted head is accepted or refused by itself.
fn check_prefixes(bytes: &[u8], length: usize) {
    let mut head = RequestHead::default();
    let random = usize::try_from(hash(bytes) % length as u64).expect("below the length");
    let first_line = bytes.iter().position(|byte| *byte == b'\n').unwrap_or_default();
    for end in [0, 1, 2, length / 2, length - 2, length - 1, first_line, first_line + 1, random] {
        assert_eq!(head.parse(&bytes[..end.min(length - 1)]), Ok(false), "cut at {end}");
    }
    assert_eq!(head.parse(&bytes[..length]), Ok(true), "alone");
}

/// The head as it is passed on, some fields left out, is accepted again and says the same.
fn check_copy(bytes: &[u8], head: &RequestHead) {
    let mut choices = hash(bytes);
    let mut copy = [head.method_token.get(bytes), b" ", head.target.get(bytes), b" HTTP/1.1\r\n"].concat();
    if head.fields.iter().all(|field| field.known != Known::Host) {
        copy.extend_from_slice(b"Host: a\r\n");
    }
    let added = copy.len();
    let mut kept = Vec::new();
    copy.relay(bytes, &head.fields, |field| {
        choices = choices.rotate_left(1);
        let keeps = field.known == Known::Host || choices & 1 == 1;
        if keeps {
            kept.push((field.name.get(bytes), field.value.get(bytes)));
        }
        keeps
    });
    copy.extend_from_slice(b"\r\n");
    if copy.len() > HEAD_MAX || head.fields.len() == wire::http1::FIELDS_MAX {
        return;
    }
    let mut again = RequestHead::default();
    assert_eq!(again.parse(&copy), Ok(true), "{}", String::from_utf8_lossy(&copy));
    let fields: Vec<_> = again
        .fields
        .iter()
        .filter(|field| field.name.start() >= added)
        .map(|field| (field.name.get(&copy), field.value.get(&copy)))
        .collect();
    assert_eq!(fields, kept);
    assert_eq!(again.target.get(&copy), head.target.get(bytes));
    assert_eq!(again.facts.method, head.facts.method);
}
