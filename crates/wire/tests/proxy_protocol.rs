//! What must hold of PROXY protocol headers on any input.

use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};
use wire::proxy_protocol::{Ends, HEADER_MAX, Header, Version};

fn ends() -> impl Strategy<Value = Ends> {
    let four = (any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
    let six = (any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
    (prop_oneof![four, six], any::<u16>(), any::<u16>()).prop_map(|((a, b), from, to)| Ends {
        source: SocketAddr::new(a, from),
        destination: SocketAddr::new(b, to),
    })
}

/// Bytes that begin like a header, so that some get far.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let starts: &[&[u8]] = &[
        b"",
        b"PROXY ",
        b"PROXY TCP4 1.2.3.4 ",
        b"PROXY TCP6 ::1 ::1 ",
        b"\r\n\r\n\0\r\nQUIT\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x21\x00\x30",
    ];
    let rest = prop_oneof![
        "[0-9a-f.: \r\n]{0,120}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..300),
    ];
    (prop::sample::select(starts), rest).prop_map(|(start, rest)| [start, &rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn what_is_written_is_read_again_and_not_before_it_is_complete(ends in ends(), second in any::<bool>()) {
        let mut bytes = Vec::new();
        ends.write(if second { Version::V2 } else { Version::V1 }, &mut bytes);
        let length = bytes.len();
        for end in 0..length {
            prop_assert_eq!(Header::parse(&bytes[..end]), Ok(None), "{} of {}", end, length);
        }
        bytes.extend_from_slice(b"PROXY");
        prop_assert_eq!(Header::parse(&bytes), Ok(Some(Header { length, ends: Some(ends) })));
    }

    #[test]
    fn no_bytes_make_it_wait_or_take_without_end(bytes in nearly()) {
        match Header::parse(&bytes) {
            Ok(Some(header)) => prop_assert!(header.length <= bytes.len().min(HEADER_MAX)),
            Ok(None) => prop_assert!(bytes.len() < HEADER_MAX),
            // Then no more bytes change that.
            Err(error) => prop_assert_eq!(Header::parse(&[&bytes[..], b"\r\n"].concat()), Err(error)),
        }
    }
}
