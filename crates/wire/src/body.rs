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

/// How a message's body is framed on the connection that it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No body follows; a `Content-Length`, if any, speaks of what GET would have given.
    None,
    /// The length is known.
    Exact(u64),
    /// Chunks until the last one (HTTP/1.1).
    Chunked,
    /// Frames until the stream's end (HTTP/2): the transport's affair, like trailers.
    Frames,
    /// The connection's end is the body's.
    Close,
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
