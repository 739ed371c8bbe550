//! Why a stream fails.

use h2::Reason;
use std::io;

/// Why a stream failed, where that says more than the end of a connection would. The source of an [`io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamError {
    /// The other side has not processed the request, which may be sent again whatever its method (RFC 9113 section 8.7):
    /// it was never sent, reset with REFUSED_STREAM, or is above the last stream of a GOAWAY.
    Refused,
    /// The other side reset the stream after it had begun to process it.
    Reset,
    /// What it sent can't be passed on.
    Malformed(&'static str),
}

impl StreamError {
    pub(super) fn io(self) -> io::Error {
        let kind = match self {
            Self::Refused | Self::Reset => io::ErrorKind::ConnectionReset,
            Self::Malformed(_) => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, self)
    }

    /// The reason behind `error`, if it came from a stream.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Refused => "request not processed (REFUSED_STREAM or GOAWAY)",
            Self::Reset => "stream reset by peer (RST_STREAM)",
            Self::Malformed(why) => why,
        })
    }
}

impl std::error::Error for StreamError {}

/// A stream's error as an error of its bytes.
pub(super) fn broken(error: &h2::Error) -> io::Error {
    let refused = error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM);
    match error.get_io() {
        Some(io) => io.kind().into(),
        // GOAWAY fails the streams alone that are above its last one; those below it go on.
        None if error.is_remote() && refused => StreamError::Refused.io(),
        None if error.is_remote() && error.is_reset() => StreamError::Reset.io(),
        None => io::ErrorKind::ConnectionReset.into(),
    }
}
