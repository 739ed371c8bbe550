//! What the values of fields say.

/// The elements of a comma-separated list, trimmed, empty ones left out.
pub(super) fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

/// A `Content-Length`: digits only, no sign, no list, and no more than 63 bits, because many parsers are signed.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    // 19 digits always fit; a longer number is no length of anything real.
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    digits
        .iter()
        .try_fold(0u64, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0')))
        .filter(|number| *number <= i64::MAX as u64)
}

/// Whether an `Upgrade` value names HTTP (`h2c`) or TLS. Behind a tunnel of these no route and no plugin would see the
/// requests any more.
pub(super) fn names_http(value: &[u8]) -> bool {
    tokens(value).any(|token| {
        let name = token.split(|byte| *byte == b'/').next().unwrap_or_default().trim_ascii();
        [&b"h2"[..], b"h2c", b"h3", b"http", b"https", b"tls"]
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other))
    })
}
