//! Version 1: `PROXY TCP4 192.0.2.1 192.0.2.2 56324 443` and a line end.

use super::{Ends, Header, HeaderError};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of the longest line, its end included: the sum that the specification gives (section 2.1).
const LINE_MAX: usize = 107;

const START: &[u8] = b"PROXY ";

/// Reads a line; see [`Header::parse`].
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    let known = bytes.len().min(START.len());
    if bytes[..known] != START[..known] {
        return Err(HeaderError::Missing);
    }
    let looked_at = &bytes[..bytes.len().min(LINE_MAX)];
    let Some(end) = looked_at.iter().position(|byte| *byte == b'\n') else {
        return if looked_at.len() < LINE_MAX { Ok(None) } else { Err(HeaderError::TooLong) };
    };
    let line = looked_at[START.len()..end].strip_suffix(b"\r").ok_or(HeaderError::Malformed)?;
    let line = std::str::from_utf8(line).map_err(|_| HeaderError::Malformed)?;
    let ends = match line.split_once(' ').unwrap_or((line, "")) {
        // What else stands there is not for us.
        ("UNKNOWN", _) => None,
        ("TCP4", rest) => Some(ends::<Ipv4Addr>(rest).ok_or(HeaderError::Malformed)?),
        ("TCP6", rest) => Some(ends::<Ipv6Addr>(rest).ok_or(HeaderError::Malformed)?),
        _ => return Err(HeaderError::Malformed),
    };
    Ok(Some(Header { length: end + 1, ends }))
}

/// Appends a line. Both ends are of one family.
pub(super) fn write(Ends { source, destination }: &Ends, out: &mut Vec<u8>) {
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (from, to) = (source.ip(), destination.ip());
    // Writing to a vector doesn't fail.
    let _ = write!(out, "PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port());
}

fn ends<A: std::str::FromStr + Into<IpAddr>>(text: &str) -> Option<Ends> {
    let mut words = text.split(' ');
    let (source, destination) = (words.next()?.parse::<A>().ok()?, words.next()?.parse::<A>().ok()?);
    let (source_port, destination_port) = (port(words.next()?)?, port(words.next()?)?);
    words.next().is_none().then(|| Ends {
        source: SocketAddr::new(source.into(), source_port),
        destination: SocketAddr::new(destination.into(), destination_port),
    })
}

/// A decimal number as it is written: no sign, no zero before other digits.
fn port(text: &str) -> Option<u16> {
    let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_by_the_letter() {
        let four = Some(("192.0.2.1:56324", "192.0.2.2:443"));
        let six = Some(("[2001:db8::1]:1", "[::1]:65535"));
        for (line, expected) in [
            ("PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n", Ok(four)),
            ("PROXY TCP6 2001:db8::1 ::1 1 65535\r\n", Ok(six)),
            ("PROXY UNKNOWN\r\n", Ok(None)),
            ("PROXY UNKNOWN ffff:: whatever 1\r\n", Ok(None)),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\n", Err(HeaderError::Malformed)),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 056324 443\r\n", Err(HeaderError::Malformed)),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 +5 443\r\n", Err(HeaderError::Malformed)),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 65536 443\r\n", Err(HeaderError::Malformed)),
            ("PROXY TCP4 192.0.2.1  192.0.2.2 1 443\r\n", Err(HeaderError::Malformed)),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 1 443 \r\n", Err(HeaderError::Malformed)),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n", Err(HeaderError::Malformed)),
            ("PROXY TCP4 ::1 ::1 1 2\r\n", Err(HeaderError::Malformed)),
            ("PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n", Err(HeaderError::Malformed)),
            ("PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n", Err(HeaderError::Malformed)),
            ("POST / HTTP/1.1\r\n", Err(HeaderError::Missing)),
        ] {
            let read = parse(format!("{line}rest").as_bytes());
            let ends = expected.map(|ends| {
                ends.map(|(source, destination)| Ends {
                    source: source.parse().unwrap(),
                    destination: destination.parse().unwrap(),
                })
            });
            assert_eq!(read, ends.map(|ends| Some(Header { length: line.len(), ends })), "{line:?}");
        }
        let endless = [b"PROXY UNKNOWN ", &[b'x'; 200][..]].concat();
        assert_eq!(parse(&endless), Err(HeaderError::TooLong));
    }
}
