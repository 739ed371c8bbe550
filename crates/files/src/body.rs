//! The body of an answer, in pieces.

use stdx::Segment;

/// A body, in pieces.
#[derive(Debug)]
pub enum Body {
    /// None; the gateway's own page stands for it where the status asks for one.
    None,
    /// One piece.
    One(Segment),
    /// Several: `multipart/byteranges`.
    Many(Vec<Segment>),
}

impl Body {
    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::One(segment) => segment.length(),
            Self::Many(segments) => segments.iter().map(Segment::length).sum(),
        }
    }

    /// Its pieces, in order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        match self {
            Self::None => &[],
            Self::One(segment) => std::slice::from_ref(segment),
            Self::Many(segments) => segments,
        }
    }
}
