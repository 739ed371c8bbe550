//! Trailer sections.

use crate::head::MadeLines;
use crate::http1::{BodyError, TRAILERS_COUNT, TRAILERS_MAX, may_trail};
use http::header::{HeaderMap, HeaderName, HeaderValue};

/// Writes a trailer section as [`crate::BodyEvent::Trailers`] has it: complete lines.
///
/// # Errors
/// What is refused of HTTP/1.1 for the same reasons.
pub fn read_trailers(trailers: &HeaderMap, out: &mut Vec<u8>) -> Result<(), BodyError> {
    for (at, (name, value)) in trailers.iter().enumerate() {
        let name = name.as_str().as_bytes();
        for piece in [name, b": ", value.as_bytes().trim_ascii(), b"\r\n"] {
            out.extend_from_slice(piece);
        }
        if at == TRAILERS_COUNT || out.len() + 2 > TRAILERS_MAX || !may_trail(name) {
            return Err(BodyError("invalid trailer section"));
        }
    }
    Ok(())
}

/// The trailer section that stands in `lines`, as [`crate::BodyEvent::Trailers`] has it. What can't be a field in HTTP/2
/// is left out.
#[must_use]
pub fn trailers_from(lines: &[u8]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in MadeLines::fields_of(lines) {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_come_back_as_they_were() {
        let lines = b"grpc-status: 0\r\ngrpc-message: a: b\r\nx: 1\r\nx: 2\r\n";
        let mut out = Vec::new();
        read_trailers(&trailers_from(lines), &mut out).expect("sound");
        assert_eq!(out, lines);
        assert!(trailers_from(b"").is_empty());
    }

    #[test]
    fn trailers_say_nothing_that_a_head_says() {
        for name in ["content-length", "transfer-encoding", "host", "authorization", "set-cookie"] {
            let map = trailers_from(format!("x: 1\r\n{name}: 2\r\n").as_bytes());
            assert!(read_trailers(&map, &mut Vec::new()).is_err(), "{name}");
        }
        let many = trailers_from("x: 1\r\n".repeat(TRAILERS_COUNT + 1).as_bytes());
        assert!(read_trailers(&many, &mut Vec::new()).is_err());
    }
}
