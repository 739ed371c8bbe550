//! Why request heads are refused.

/// Why a request head is refused. The connection closes after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadError {
    /// Not a well-formed HTTP/1 head, or one that two parsers could read differently; the words say what.
    Bad(&'static str),
    /// The request line is longer than [`LINE_MAX`](super::LINE_MAX).
    TargetTooLong,
    /// A field is longer than [`LINE_MAX`](super::LINE_MAX), the head longer than [`HEAD_MAX`](super::HEAD_MAX), or there are too many fields.
    FieldsTooLarge,
    /// A transfer coding other than `chunked`.
    UnknownCoding,
    /// `CONNECT`, which is for forward proxies, or `TRACE`, which would show the client what the gateway adds. nginx
    /// refuses both.
    Method,
    /// A version other than 1.0 and 1.1.
    Version,
    /// An expectation other than `100-continue`.
    Expectation,
}

impl HeadError {
    /// The status that answers it.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Bad(_) => 400,
            Self::Method => 405,
            Self::TargetTooLong => 414,
            Self::Expectation => 417,
            Self::FieldsTooLarge => 431,
            Self::UnknownCoding => 501,
            Self::Version => 505,
        }
    }

    /// What is wrong, for the log.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Bad(reason) => reason,
            Self::TargetTooLong => "request line too long",
            Self::FieldsTooLarge => "request header fields too large",
            Self::UnknownCoding => "unknown transfer coding",
            Self::Method => "CONNECT and TRACE are not supported",
            Self::Version => "unsupported HTTP version",
            Self::Expectation => "unsupported expectation",
        }
    }
}
