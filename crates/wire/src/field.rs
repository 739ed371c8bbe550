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
    /// Classifies a field name, a token; names are case-insensitive (RFC 9110 section 5.1).
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

/// Whether `token` is `word`, whatever its case; no byte of it may be a control character. Of all others only those
/// that differ in case alone become equal to a letter or a hyphen with bit 5 set; with the length known, the loop is a
/// few wide instructions.
#[inline(always)]
pub(crate) fn is<const N: usize>(token: &[u8], word: &[u8; N]) -> bool {
    let Ok(token) = <&[u8; N]>::try_from(token) else { return false };
    let mut difference = 0;
    for at in 0..N {
        difference |= (token[at] | 0x20) ^ (word[at] | 0x20);
    }
    difference == 0
}
