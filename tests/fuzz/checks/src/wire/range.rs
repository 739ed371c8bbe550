//! `Range` fields.

use wire::range::{Ranges, content_range, parse};

/// `LENGTH\nFIELD`: the pieces lie within the representation and are no more than it; a single plain range is what a
/// plain reader makes of it.
pub fn check(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (length, field) = bytes.split_at(end);
    let field = field.strip_prefix(b"\n").unwrap_or(field);
    let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
    for length in [length.unwrap_or(1000), 0, 1, u64::MAX] {
        let found = parse(field, length);
        if let Ranges::Some(pieces) = &found {
            assert!(!pieces.is_empty() && pieces.len() <= 16);
            let mut total = 0u64;
            for (first, size) in pieces {
                assert!(*size > 0, "none is empty");
                assert!(first.checked_add(*size).is_some_and(|end| end <= length), "within the whole");
                total = total.saturating_add(*size);
                assert!(content_range(*first, *size, length).ends_with(&format!("/{length}")));
            }
            assert!(pieces.len() == 1 || total <= length, "no more than the whole");
        }
        if let Some(expected) = plain(field, length) {
            assert_eq!(found, expected, "of {length}");
        }
    }
}

/// `bytes=A-B`, `bytes=A-` or `bytes=-B`, read in the plainest way; `None` where it is not one of these.
fn plain(field: &[u8], length: u64) -> Option<Ranges> {
    let (first, last) = std::str::from_utf8(field).ok()?.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| {
        (text.len() < 18 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse::<u64>().ok())
    };
    let (first, last) = match (number(first)?, number(last)?) {
        (None, None) => return Some(Ranges::All),
        (Some(first), Some(last)) if last < first => return Some(Ranges::All),
        (Some(first), last) => (first, last.unwrap_or(u64::MAX)),
        (None, Some(0)) => return Some(Ranges::None),
        (None, Some(count)) => (length.saturating_sub(count), u64::MAX),
    };
    if first >= length {
        return Some(Ranges::None);
    }
    Some(Ranges::Some(vec![(first, last.min(length - 1) - first + 1)]))
}
