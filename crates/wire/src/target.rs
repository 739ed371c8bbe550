//! Request targets: their parts, the path as routes see it, and the host without its port.

use std::borrow::Cow;
use std::net::Ipv6Addr;
use stdx::bytes::{Byte, Control, NonAscii, Not, Range, find, has_pair};

/// A path in the form that routes are matched against.
pub type NormalisedPath<'b> = Cow<'b, [u8]>;

/// Decodes percent-escapes, merges slashes and resolves `.` and `..` (RFC 3986 section 6.2.2, and nginx's
/// `merge_slashes on`). Borrows where there is nothing to do. `None` where the path has a bad escape, an encoded NUL,
/// or climbs above the root: nginx answers these with 400, and so does the gateway.
#[must_use]
pub fn normalise_path(path: &[u8]) -> Option<NormalisedPath<'_>> {
    if !needs_normalising(path) { Some(Cow::Borrowed(path)) } else { rewrite(path).map(Cow::Owned) }
}

/// Whether anything in `path` must change: an escape, two slashes in a row, or a segment that starts with a dot.
#[inline]
fn needs_normalising(path: &[u8]) -> bool {
    find(path, Byte::<b'%'>).is_some() || has_odd_segment(path, path.len())
}

/// Whether in the first `length` of `bytes` a slash is followed by a second one or by a dot.
#[inline(always)]
fn has_odd_segment(bytes: &[u8], length: usize) -> bool {
    has_pair(bytes, length, Byte::<b'/'>, (Byte::<b'/'>, Byte::<b'.'>))
}

fn rewrite(path: &[u8]) -> Option<Vec<u8>> {
    let decoded = decode(path)?;
    let mut out = Vec::with_capacity(decoded.len());
    let trailing = matches!(decoded.rsplit(|b| *b == b'/').next(), Some(b"" | b"." | b".."));
    for segment in decoded.split(|b| *b == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                let parent = out.iter().rposition(|b| *b == b'/')?;
                out.truncate(parent);
            }
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
            }
        }
    }
    if trailing || out.is_empty() {
        out.push(b'/');
    }
    Some(out)
}

fn decode(path: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let [high, low, tail @ ..] = &rest[at + 1..] else { return None };
        match hex(*high)? << 4 | hex(*low)? {
            0 => return None,
            byte => out.push(byte),
        }
        rest = tail;
    }
    out.extend_from_slice(rest);
    Some(out)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Where path and target end that start at `start`, if it is a path in its normal form, perhaps with a query, as nearly all
/// are. `None` says nothing about the target.
#[inline(always)]
pub(crate) fn plain_target(bytes: &[u8], start: usize) -> Option<(usize, usize)> {
    let target = bytes.get(start..)?;
    let other = (Control::<b' '>, (Byte::<b'#'>, NonAscii));
    let path_end = find(target, (other, (Byte::<b'?'>, Byte::<b'%'>)))?;
    let end = match target[path_end] {
        b' ' => path_end,
        b'?' => path_end + find(&target[path_end..], other)?,
        _ => return None,
    };
    let plain = target[0] == b'/' && target[end] == b' ' && !has_odd_segment(target, path_end);
    plain.then_some((start + path_end, start + end))
}

/// What follows `http://` or `https://`, any case.
pub(crate) fn strip_scheme(target: &[u8]) -> Option<&[u8]> {
    [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

/// The host of a `Host` value or authority: without port, brackets kept. `None` where it is not a valid `uri-host
/// [":" port]` (RFC 9110 section 7.2). The case is the caller's affair.
#[must_use]
pub fn host_of(authority: &[u8]) -> Option<&[u8]> {
    let (host, port) = if authority.first() == Some(&b'[') {
        let close = memchr::memchr(b']', authority)?;
        let inside = &authority[1..close];
        std::str::from_utf8(inside).ok()?.parse::<Ipv6Addr>().ok()?;
        authority.split_at(close + 1)
    } else {
        // Too short, mostly, for a vectorised search to pay.
        let end = authority.iter().position(|byte| !HOST_BYTE[usize::from(*byte)]).unwrap_or(authority.len());
        authority.split_at(end)
    };
    match port {
        [] => Some(host),
        [b':', port @ ..] if !host.is_empty() => is_port(port).then_some(host),
        _ => None,
    }
}

/// How long the host is of the authority at `start..end`, if it is in the form that nearly all have: small letters, digits,
/// hyphens and dots, and perhaps a port. `None` says nothing about it.
#[inline(always)]
pub(crate) fn plain_host(bytes: &[u8], start: usize, end: usize) -> Option<usize> {
    const PLAIN: (Range<b'a', b'z'>, (Range<b'0', b'9'>, Range<b'-', b'.'>)) = (Range, (Range, Range));
    let authority = bytes.get(start..)?;
    let length = find(authority, Not(PLAIN))?;
    if start + length == end {
        return Some(length);
    }
    let [b':', port @ ..] = authority.get(length..)? else { return None };
    let digits = find(port, Not(Range::<b'0', b'9'>))?;
    // Of four digits every number is a port's; of five, those that come no later in the order of text.
    let fits = digits < 5 || (digits == 5 && port.get(..5)? <= b"65535".as_slice());
    (length > 0 && fits && start + length + 1 + digits == end).then_some(length)
}

/// `*DIGIT` (RFC 3986 section 3.2.3), at most 65535.
fn is_port(port: &[u8]) -> bool {
    if port.len() < 5 {
        return port.iter().all(u8::is_ascii_digit);
    }
    let number = port.iter().try_fold(0u32, |sum, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        Some(sum.saturating_mul(10).saturating_add(digit))
    });
    number.is_some_and(|number| number <= u32::from(u16::MAX))
}

/// Bytes of a `reg-name` (RFC 3986 section 3.2.2), percent-escapes excluded.
static HOST_BYTE: [bool; 256] = {
    let mut table = [false; 256];
    let allowed = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=";
    let mut at = 0;
    while at < allowed.len() {
        table[allowed[at] as usize] = true;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_out_as_nginx_sees_them() {
        for (path, expected) in [
            ("/hello", Some("/hello")),
            ("/a//b", Some("/a/b")),
            ("/a/./b", Some("/a/b")),
            ("/a/../b", Some("/b")),
            ("/a/..", Some("/")),
            ("/a/.", Some("/a/")),
            ("/a/b/", Some("/a/b/")),
            ("//", Some("/")),
            ("/%61", Some("/a")),
            ("/a%2fb", Some("/a/b")),
            ("/%2e%2e/x", None),
            ("/../x", None),
            ("/%00", None),
            ("/%zz", None),
            ("/%4", None),
            ("/.well-known", Some("/.well-known")),
            ("/a/...", Some("/a/...")),
        ] {
            let got = normalise_path(path.as_bytes());
            assert_eq!(got.as_deref(), expected.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn hosts_lose_their_port_and_bad_ones_are_refused() {
        for (authority, expected) in [
            ("example.com", Some("example.com")),
            ("example.com:80", Some("example.com")),
            ("example.com:", Some("example.com")),
            ("[::1]:8080", Some("[::1]")),
            ("", Some("")),
            ("a b", None),
            ("a/b", None),
            ("a:b", None),
            ("user@a", None),
            ("[::1", None),
            ("[]", None),
            ("[dead]", None),
            ("[::1%25eth0]", None),
            ("[::ffff:10.0.0.1]", Some("[::ffff:10.0.0.1]")),
            (":80", None),
            ("a:65535", Some("a")),
            ("a:65536", None),
            ("a:99999999999999999999", None),
            ("a:+80", None),
            ("[::1]x", None),
        ] {
            assert_eq!(host_of(authority.as_bytes()), expected.map(str::as_bytes), "{authority}");
        }
    }

    #[test]
    fn what_is_told_at_once_is_the_same() {
        for (authority, expected) in [
            ("a.b-1", Some(5)),
            ("a.b-1:", Some(5)),
            ("a:9080", Some(1)),
            ("a:19080", Some(1)),
            ("a:65535", Some(1)),
            ("a:65536", None),
            ("a:123456", None),
            ("a:80x", None),
            (":80", None),
            ("A", None),
        ] {
            // Searches look at 16 bytes at once, and lines go on.
            let line = format!("{authority}\r\nUser-Agent: something that goes on\r\n\r\n");
            let plain = plain_host(line.as_bytes(), 0, authority.len());
            assert_eq!(plain, expected, "{authority}");
            assert!(
                plain.is_none() || plain == host_of(authority.as_bytes()).map(<[u8]>::len),
                "{authority}"
            );
        }
    }
}
