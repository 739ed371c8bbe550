//! Headers of the PROXY protocol.

use wire::proxy_protocol::{HEADER_MAX, Header, Version};

/// A header is complete with its last byte and not before, says the same whatever follows, and is written as it reads.
pub fn check(bytes: &[u8]) {
    match Header::parse(bytes) {
        Ok(Some(header)) => {
            let length = header.length;
            assert!(length > 0 && length <= bytes.len().min(HEADER_MAX));
            for end in 0..length {
                assert_eq!(Header::parse(&bytes[..end]), Ok(None), "cut at {end} of {length}");
            }
            assert_eq!(Header::parse(&bytes[..length]), Ok(Some(header)), "alone");
            let Some(ends) = header.ends else { return };
            assert_eq!(ends.source.is_ipv4(), ends.destination.is_ipv4(), "one family");
            for version in [Version::V1, Version::V2] {
                let mut out = Vec::new();
                ends.write(version, &mut out);
                let written = Header { length: out.len(), ends: header.ends };
                assert_eq!(Header::parse(&out), Ok(Some(written)));
            }
        }
        Ok(None) => {
            assert!(bytes.len() < HEADER_MAX, "no more is awaited of a header that is too long");
            for end in 0..bytes.len() {
                assert_eq!(Header::parse(&bytes[..end]), Ok(None), "cut at {end}");
            }
        }
        Err(error) => {
            for more in [&b"\r\n"[..], b" 1 2\r\n", &[0; 64]] {
                let more = Header::parse(&[bytes, more].concat());
                assert_eq!(more, Err(error), "refused is refused, whatever follows");
            }
        }
    }
}
