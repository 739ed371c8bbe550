//! Version 2: a signature, four bytes that say what follows, addresses, extensions.

use super::{Ends, HEADER_MAX, Header, HeaderError};
use std::net::{IpAddr, SocketAddr};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family, length.
const FIXED: usize = 16;

/// Version 2 in the high half; the command in the low one.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

/// Family in the high half, transport in the low one: 1 TCP, 2 UDP.
const INET: u8 = 0x10;
const INET6: u8 = 0x20;
const UNIX: u8 = 0x30;
const TCP: u8 = 0x01;

/// Bytes of two addresses and two ports.
const INET_LENGTH: usize = 2 * 4 + 2 * 2;
const INET6_LENGTH: usize = 2 * 16 + 2 * 2;
/// Of two paths.
const UNIX_LENGTH: usize = 2 * 108;

/// Reads a header; see [`Header::parse`].
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(HeaderError::Missing);
    }
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if FIXED + length > HEADER_MAX {
        return Err(HeaderError::TooLong);
    }
    let Some(block) = rest.get(..length) else { return Ok(None) };
    let ends = match fixed[12] {
        LOCAL => None,
        PROXY => ends(fixed[13], block)?,
        _ => return Err(HeaderError::Malformed),
    };
    Ok(Some(Header { length: FIXED + length, ends }))
}

/// Appends a header. Both ends are of one family.
pub(super) fn write(Ends { source, destination }: &Ends, out: &mut Vec<u8>) {
    let (family, length) = if source.is_ipv4() { (INET, INET_LENGTH) } else { (INET6, INET6_LENGTH) };
    out.extend_from_slice(&SIGNATURE);
    // Both lengths are below 256.
    out.extend_from_slice(&[PROXY, family | TCP, 0, length as u8]);
    for end in [source, destination] {
        match end.ip() {
            IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
        }
    }
    for end in [source, destination] {
        out.extend_from_slice(&end.port().to_be_bytes());
    }
}

/// The ends that a block begins with; what follows them are extensions.
fn ends(family: u8, block: &[u8]) -> Result<Option<Ends>, HeaderError> {
    let needed = match family & 0xf0 {
        // Unspecified: the connection's own are meant.
        0x00 => return Ok(None),
        INET => INET_LENGTH,
        INET6 => INET6_LENGTH,
        UNIX => UNIX_LENGTH,
        _ => return Err(HeaderError::Malformed),
    };
    let addresses = block.get(..needed).ok_or(HeaderError::Malformed)?;
    if !matches!(family & 0x0f, 0x00..=0x02) {
        return Err(HeaderError::Malformed);
    }
    Ok(match family & 0xf0 {
        INET => two::<4>(addresses),
        INET6 => two::<16>(addresses),
        // A path is no address that anything here is matched with.
        _ => None,
    })
}

/// Two addresses of `N` bytes, then their ports.
fn two<const N: usize>(block: &[u8]) -> Option<Ends>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = block.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (source_port, rest) = rest.split_first_chunk()?;
    let (destination_port, _) = rest.split_first_chunk()?;
    let end = |ip: [u8; N], port| SocketAddr::new(ip.into(), u16::from_be_bytes(port));
    Some(Ends { source: end(*source, *source_port), destination: end(*destination, *destination_port) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
        let length = u16::try_from(block.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, block].concat()
    }

    #[test]
    fn headers_are_read_with_what_they_extend() {
        let four = [192, 0, 2, 1, 192, 0, 2, 2, 0xdc, 0x04, 0x01, 0xbb];
        let ends = Ends {
            source: "192.0.2.1:56324".parse().unwrap(),
            destination: "192.0.2.2:443".parse().unwrap(),
        };
        for (bytes, expected) in [
            (header(PROXY, INET | TCP, &four), Ok(Some(ends))),
            (header(PROXY, INET | TCP, &[&four[..], &[4, 0, 1, 0]].concat()), Ok(Some(ends))),
            (header(LOCAL, 0, &[]), Ok(None)),
            (header(LOCAL, 0x77, &[1, 2, 3]), Ok(None)),
            (header(PROXY, 0, &[]), Ok(None)),
            (header(PROXY, UNIX | TCP, &[0; UNIX_LENGTH]), Ok(None)),
            (header(PROXY, INET | TCP, &four[..11]), Err(HeaderError::Malformed)),
            (header(PROXY, INET6 | TCP, &four), Err(HeaderError::Malformed)),
            (header(PROXY, INET | 0x03, &four), Err(HeaderError::Malformed)),
            (header(PROXY, 0x41, &four), Err(HeaderError::Malformed)),
            (header(0x22, INET | TCP, &four), Err(HeaderError::Malformed)),
            (header(0x11, INET | TCP, &four), Err(HeaderError::Malformed)),
            (header(LOCAL, 0, &[0; HEADER_MAX]), Err(HeaderError::TooLong)),
            (b"GET / HTTP/1.1\r\n".to_vec(), Err(HeaderError::Missing)),
        ] {
            let length = bytes.len();
            let expected = expected.map(|ends| Some(Header { length, ends }));
            assert_eq!(parse(&[&bytes[..], b"rest"].concat()), expected, "{bytes:?}");
        }
    }
}
