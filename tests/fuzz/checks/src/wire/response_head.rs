//! Response heads.

use super::lines::{assert_fields, assert_within, hash, lines, values};
use wire::http1::HEAD_MAX;
use wire::{BodyLength, Method, ResponseHead};

/// Checks the parse of the head at the start of `bytes`, as the answer to several methods.
pub fn check(bytes: &[u8]) {
    for method in [Method::Get, Method::Head, Method::Post] {
        let mut head = ResponseHead::default();
        match head.parse(bytes, method) {
            Ok(true) => {
                check_structure(bytes, &head, method);
                check_prefixes(bytes, head.length, method);
            }
            Ok(false) => assert!(bytes.len() < HEAD_MAX, "no more is awaited of a head that is too long"),
            Err(error) => {
                assert!(!error.0.is_empty());
                let more = [bytes, b"\r\n\r\n"].concat();
                assert!(head.parse(&more, method).is_err(), "refused is refused, whatever follows");
            }
        }
    }
}

fn check_structure(bytes: &[u8], head: &ResponseHead, method: Method) {
    assert!(head.length <= HEAD_MAX && head.length <= bytes.len());
    let lines = lines(&bytes[..head.length]);
    let (status_line, lines) = lines.split_first().expect("there is a status line");
    let http11 = status_line.starts_with(b"HTTP/1.1 ");
    assert!(http11 || status_line.starts_with(b"HTTP/1.0 "));
    let code = std::str::from_utf8(&status_line[9..12]).expect("digits");
    assert_eq!(code.parse(), Ok(head.status));
    assert!((100..=599).contains(&head.status));
    assert!(matches!(status_line.get(12), None | Some(b' ')));
    assert_eq!(head.fields_start, status_line.len() + 2);
    assert_within(head.reason, &(0..head.fields_start));
    if !head.reason.is_empty() {
        assert_eq!(head.reason.get(bytes), &status_line[13..]);
    }
    assert_fields(bytes, head.fields_start..head.length, &head.fields, lines);
    let lengths = values(lines, "content-length");
    let codings = values(lines, "transfer-encoding");
    assert!(lengths.len() + codings.len() <= 1, "framing said once");
    let bodiless = method == Method::Head || head.status < 200 || matches!(head.status, 204 | 304);
    match (lengths.first(), codings.first()) {
        _ if bodiless => assert_eq!(head.body, BodyLength::None),
        (Some(_), _) => assert_eq!(head.body, BodyLength::exact(head.content_length.expect("as said"))),
        (_, Some(_)) => assert_eq!(head.body, BodyLength::Chunked),
        (None, None) => assert_eq!((head.body, head.keep_alive), (BodyLength::UntilClose, false)),
    }
    assert!(!head.keep_alive || http11 || codings.is_empty(), "HTTP/1.0 has no transfer codings");
}

fn check_prefixes(bytes: &[u8], length: usize, method: Method) {
    let mut head = ResponseHead::default();
    let random = usize::try_from(hash(bytes) % length as u64).expect("below the length");
    for end in [0, 1, length / 2, length - 2, length - 1, random] {
        assert_eq!(head.parse(&bytes[..end], method), Ok(false), "cut at {end}");
    }
    assert_eq!(head.parse(&bytes[..length], method), Ok(true), "alone");
}
