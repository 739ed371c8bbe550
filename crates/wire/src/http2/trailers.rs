//! Trailer sections.

use super::write_line;
use http::header::{HeaderMap, HeaderName, HeaderValue};

/// Writes a trailer section as the lines that end a chunked body, without the final empty one.
pub fn write_trailers(trailers: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in trailers {
        write_line(out, name.as_str().as_bytes(), value.as_bytes());
    }
}

/// The trailer section that stands in `lines`, as a chunked body's decoder gives them. What can't be a field in HTTP/2
/// is left out.
#[must_use]
pub fn trailers_from(lines: &[u8]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii())) {
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
        write_trailers(&trailers_from(lines), &mut out);
        assert_eq!(out, lines);
        assert!(trailers_from(b"").is_empty());
    }
}
