//! Which encodings a client takes: `Accept-Encoding` (RFC 9110 section 12.5.3).

use model::resource::Encoding;

/// Weights in thousandths, as q values have three digits at most.
const FULL: u16 = 1000;

/// Chooses among `offered`, the server's preference first: the one of the greatest weight, the first of equals. `None`
/// for the file as it is, which is always acceptable here: a refused identity is better answered than not.
#[must_use]
pub fn choose(accept_encoding: &[u8], offered: &[Encoding]) -> Option<Encoding> {
    let mut best = None;
    for &encoding in offered {
        let weight = weight(accept_encoding, encoding.token().as_bytes());
        if weight > best.map_or(0, |(_, weight)| weight) {
            best = Some((encoding, weight));
        }
    }
    let (encoding, weight) = best?;
    // The plain file is taken where the client says that it would rather have it.
    (weight >= weight_named(accept_encoding, b"identity").unwrap_or(0)).then_some(encoding)
}

/// How much the client wants `encoding`, in thousandths; `None` where it doesn't take it, or would rather have the plain
/// body.
#[must_use]
pub fn wanted(accept_encoding: &[u8], encoding: Encoding) -> Option<u16> {
    choose(accept_encoding, &[encoding]).map(|_| weight(accept_encoding, encoding.token().as_bytes()))
}

/// What the field says of `token`: its own weight, else that of `*`, else none.
fn weight(field: &[u8], token: &[u8]) -> u16 {
    weight_named(field, token).or_else(|| weight_named(field, b"*")).unwrap_or(0)
}

fn weight_named(field: &[u8], token: &[u8]) -> Option<u16> {
    field.split(|byte| *byte == b',').find_map(|part| {
        let mut pieces = part.split(|byte| *byte == b';');
        let name = pieces.next()?.trim_ascii();
        // `x-gzip` is gzip (RFC 9110 section 8.4.1.3).
        let same =
            name.eq_ignore_ascii_case(token) || (token == b"gzip" && name.eq_ignore_ascii_case(b"x-gzip"));
        same.then(|| pieces.find_map(|piece| quality(piece.trim_ascii())).unwrap_or(FULL))
    })
}

/// The weight of `q=0.5`; a broken one counts as a refusal, so that nobody gets what they may not take.
fn quality(parameter: &[u8]) -> Option<u16> {
    let (name, value) = parameter.split_at_checked(2)?;
    if !name.eq_ignore_ascii_case(b"q=") {
        return None;
    }
    let (whole, digits) = match value {
        [whole @ (b'0' | b'1')] => (whole, [].as_slice()),
        [whole @ (b'0' | b'1'), b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
        _ => return Some(0),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Some(0);
    }
    let fraction = digits
        .iter()
        .chain(std::iter::repeat(&b'0'))
        .take(3)
        .fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    Some((u16::from(whole - b'0') * FULL + fraction).min(FULL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Encoding::{Br, Gzip, Zstd};
    use proptest::prelude::*;

    #[test]
    fn an_encoding_is_wanted_as_much_as_its_weight_says() {
        for (field, expected) in [
            ("br", Some(1000)),
            ("gzip, *;q=0.1", Some(100)),
            ("br;q=0, *", None),
            ("identity, br;q=0.5", None),
            ("", None),
        ] {
            assert_eq!(wanted(field.as_bytes(), Br), expected, "{field}");
        }
    }

    #[test]
    fn the_greatest_weight_wins_and_among_equals_the_servers_choice() {
        let all = [Br, Zstd, Gzip];
        let cases: &[(&str, &[Encoding], Option<Encoding>)] = &[
            ("", &all, None),
            ("gzip", &all, Some(Gzip)),
            ("gzip", &[Br], None),
            ("gzip, deflate, br", &all, Some(Br)),
            ("gzip, deflate, br", &[Gzip, Br], Some(Gzip)),
            ("gzip;q=1.0, br;q=0.5", &all, Some(Gzip)),
            ("GZIP;Q=0.8", &all, Some(Gzip)),
            ("x-gzip", &all, Some(Gzip)),
            ("gzip;q=0", &all, None),
            ("gzip;q=0.000, *", &all, Some(Br)),
            ("*;q=0", &all, None),
            ("*", &all, Some(Br)),
            ("br;q=0, *;q=0.1", &all, Some(Zstd)),
            ("identity", &all, None),
            ("identity;q=1, gzip;q=0.5", &all, None),
            ("identity;q=0.5, gzip;q=0.5", &all, Some(Gzip)),
            ("identity;q=0", &all, None),
            ("gzip;q=2", &all, None),
            ("gzip;q=0.12345", &all, None),
            ("gzip;q=abc", &all, None),
            (" gzip ; q=0.001 ,", &all, Some(Gzip)),
            ("gzipped", &all, None),
        ];
        for (field, offered, expected) in cases {
            assert_eq!(choose(field.as_bytes(), offered), *expected, "{field:?} of {offered:?}");
        }
    }

    proptest! {
        #[test]
        fn no_field_is_too_odd(field in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = choose(&field, &[Br, Zstd, Gzip]);
        }
    }
}
