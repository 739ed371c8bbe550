//! Header fields as ranges into the bytes of their head, each classified once.

/// A range of a head's bytes. A head is at most [`crate::http1::HEAD_MAX`] long, so 32 bits are plenty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The range `start..end`.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        // Heads are bounded far below 4 GiB.
        debug_assert!(end <= u32::MAX as usize);
        Self { start: start as u32, end: end as u32 }
    }

    /// Where `part`, a slice of `whole`, stands in it.
    #[must_use]
    #[inline]
    pub fn of(whole: &[u8], part: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
        Self::new(start, start + part.len())
    }

    /// The bytes it names; empty where `bytes` is too short.
    #[must_use]
    #[inline]
    pub fn get(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Its first byte.
    #[must_use]
    #[inline]
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// One past its last byte.
    #[must_use]
    #[inline]
    pub fn end(self) -> usize {
        self.end as usize
    }

    /// How many bytes it names.
    #[must_use]
    #[inline]
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether it names none.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.end == self.start
    }
}

/// One header line. Lines stand in a head without gaps: `line` runs from the name's first byte past the CRLF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The name, as sent.
    pub name: Span,
    /// The value, without surrounding white space.
    pub value: Span,
    /// One past the line's LF.
    pub line_end: u32,
    /// Which field it is, where the gateway cares.
    pub known: Known,
}

/// The fields that the gateway itself acts upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Any field that is relayed as it is.
    Other,
    /// `Host`
    Host,
    /// `Content-Length`
    ContentLength,
    /// `Transfer-Encoding`
    TransferEncoding,
    /// `Content_Length` or `Transfer_Encoding`, which some servers take for the fields with hyphens
    FramingAlias,
    /// `Connection`
    Connection,
    /// `Keep-Alive`
    KeepAlive,
    /// `Proxy-Connection`
    ProxyConnection,
    /// `TE`
    Te,
    /// `Upgrade`
    Upgrade,
    /// `Expect`
    Expect,
    /// `X-Forwarded-For`
    XForwardedFor,
    /// `X-Forwarded-Proto`, `-Host` and `-Port`: written anew for the upstream
    XForwardedOther,
    /// `Forwarded` (RFC 7239)
    Forwarded,
    /// `X-Real-IP`
    XRealIp,
    /// `Date`
    Date,
    /// `Server`
    Server,
    /// `User-Agent`
    UserAgent,
    /// `Referer`
    Referer,
}

impl Known {
    /// Classifies a field name; names are case-insensitive (RFC 9110 section 5.1). A name that is classified as anything
    /// but [`Known::Other`] is a token, whatever bytes are passed in.
    #[must_use]
    #[inline(always)]
    pub fn classify(name: &[u8]) -> Self {
        // By length first: most names are settled by one comparison of a register.
        match name.len() {
            2 if is(name, b"te") => Self::Te,
            4 if is(name, b"host") => Self::Host,
            4 if is(name, b"date") => Self::Date,
            6 if is(name, b"expect") => Self::Expect,
            6 if is(name, b"server") => Self::Server,
            7 if is(name, b"upgrade") => Self::Upgrade,
            7 if is(name, b"referer") => Self::Referer,
            9 if is(name, b"x-real-ip") => Self::XRealIp,
            9 if is(name, b"forwarded") => Self::Forwarded,
            10 if is(name, b"connection") => Self::Connection,
            10 if is(name, b"keep-alive") => Self::KeepAlive,
            10 if is(name, b"user-agent") => Self::UserAgent,
            14 if is(name, b"content-length") => Self::ContentLength,
            14 if is(name, b"content_length") => Self::FramingAlias,
            15 if is(name, b"x-forwarded-for") => Self::XForwardedFor,
            16 if is(name, b"proxy-connection") => Self::ProxyConnection,
            16 if is(name, b"x-forwarded-host") || is(name, b"x-forwarded-port") => Self::XForwardedOther,
            17 if is(name, b"transfer-encoding") => Self::TransferEncoding,
            17 if is(name, b"x-forwarded-proto") => Self::XForwardedOther,
            17 if is(name, b"transfer_encoding") => Self::FramingAlias,
            _ => Self::Other,
        }
    }
}

/// Whether `token` equals `word` but for the case of letters.
///
/// Bit 5 is ignored only where `word` has a letter: a hyphen without it is a CR, an underscore with it is DEL, and both
/// would pass for a part of the name. `word` is known when this is compiled, so what is compared with, and the bits to
/// ignore, are constants.
#[inline(always)]
pub(crate) fn is<const N: usize>(token: &[u8], word: &[u8; N]) -> bool {
    let Ok(token) = <&[u8; N]>::try_from(token) else { return false };
    match N {
        ..4 => token.iter().zip(word).all(|(token, word)| *token & case(*word) == *word & case(*word)),
        4..8 => same_four(token, word, 0) && same_four(token, word, N - 4),
        8..16 => same_eight(token, word, 0) && same_eight(token, word, N - 8),
        _ => (0..N / 8).all(|at| same_eight(token, word, at * 8)) && same_eight(token, word, N - 8),
    }
}

/// The bits that tell `byte` from others: for a letter all but its case.
#[inline(always)]
fn case(byte: u8) -> u8 {
    if byte.is_ascii_alphabetic() { !0x20 } else { !0 }
}

/// Whether four bytes from `at` on are the same: parts that overlap save a rest.
#[inline(always)]
fn same_four<const N: usize>(token: &[u8; N], word: &[u8; N], at: usize) -> bool {
    let four = |bytes: &[u8; N]| bytes.get(at..).and_then(<[u8]>::first_chunk).copied();
    let (Some(token), Some(word)) = (four(token), four(word)) else { return false };
    let case = u32::from_ne_bytes(word.map(case));
    u32::from_ne_bytes(token) & case == u32::from_ne_bytes(word) & case
}

/// The same of eight bytes.
#[inline(always)]
fn same_eight<const N: usize>(token: &[u8; N], word: &[u8; N], at: usize) -> bool {
    let eight = |bytes: &[u8; N]| bytes.get(at..).and_then(<[u8]>::first_chunk).copied();
    let (Some(token), Some(word)) = (eight(token), eight(word)) else { return false };
    let case = u64::from_ne_bytes(word.map(case));
    u64::from_ne_bytes(token) & case == u64::from_ne_bytes(word) & case
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name that is classified, and as what.
    const NAMES: [(&str, Known); 21] = [
        ("forwarded", Known::Forwarded),
        ("te", Known::Te),
        ("host", Known::Host),
        ("date", Known::Date),
        ("expect", Known::Expect),
        ("server", Known::Server),
        ("upgrade", Known::Upgrade),
        ("referer", Known::Referer),
        ("x-real-ip", Known::XRealIp),
        ("connection", Known::Connection),
        ("keep-alive", Known::KeepAlive),
        ("user-agent", Known::UserAgent),
        ("content-length", Known::ContentLength),
        ("content_length", Known::FramingAlias),
        ("x-forwarded-for", Known::XForwardedFor),
        ("proxy-connection", Known::ProxyConnection),
        ("x-forwarded-host", Known::XForwardedOther),
        ("x-forwarded-port", Known::XForwardedOther),
        ("transfer-encoding", Known::TransferEncoding),
        ("x-forwarded-proto", Known::XForwardedOther),
        ("transfer_encoding", Known::FramingAlias),
    ];

    #[test]
    fn a_name_is_known_only_where_it_differs_in_case_alone() {
        for (name, expected) in NAMES {
            assert_eq!(Known::classify(name.as_bytes()), expected, "{name}");
            assert_eq!(Known::classify(name.to_ascii_uppercase().as_bytes()), expected, "{name}");
            for at in 0..name.len() {
                for byte in 0..=u8::MAX {
                    let mut changed = name.as_bytes().to_vec();
                    changed[at] = byte;
                    let other = NAMES.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(&changed));
                    let expected = other.map_or(Known::Other, |(_, known)| *known);
                    assert_eq!(
                        Known::classify(&changed),
                        expected,
                        "{:?}",
                        changed.escape_ascii().to_string()
                    );
                }
            }
        }
    }

    #[test]
    fn words_are_compared_byte_by_byte_and_letters_without_their_case() {
        // Every pair of bytes: what the word may hold, and what stands in its place.
        macro_rules! pairs {
            ($($word:literal)*) => {
                for token in 0..=u8::MAX {
                    $(assert_eq!(is(&[token], $word), [token].eq_ignore_ascii_case($word), "{token:#x}");)*
                }
            };
        }
        pairs!(b"a" b"k" b"z" b"A" b"Z" b"-" b"_" b"0" b"9" b"@" b"[" b"`" b"{" b"\r" b"\x7f" b"\0" b"\xff");
    }
}
