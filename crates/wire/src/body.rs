//! What a message body is, whichever protocol carries it.

/// How long a body is, as its head announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// No body follows.
    None,
    /// Exactly this many bytes (more than 0) follow.
    Exact(u64),
    /// Chunks follow until the last one (HTTP/1.1), or frames until END_STREAM (HTTP/2).
    Chunked,
    /// Bytes follow until the connection ends (responses only).
    UntilClose,
}

impl BodyLength {
    /// `Exact` for a length that may be 0.
    #[must_use]
    pub fn exact(length: u64) -> Self {
        if length == 0 { Self::None } else { Self::Exact(length) }
    }
}

/// What a decoder found next in the bytes it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEvent<'b> {
    /// Bytes of the body.
    Data(&'b [u8]),
    /// The trailer section: complete `name: value CRLF` lines, each checked, without the final empty line. Comes at
    /// most once, directly before [`BodyEvent::End`].
    Trailers(&'b [u8]),
    /// The body is complete; what follows in the buffer belongs to the next message.
    End,
    /// Nothing more can be said without further bytes.
    NeedMore,
}
