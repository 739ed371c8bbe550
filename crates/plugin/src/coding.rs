//! Content codings: plugins offer to compress a response, and the offer that the client likes best is taken once the
//! response's head is settled.

use crate::BodyFilter;

/// An offer to send a response's body in a content coding.
pub struct Coding {
    /// Its name in `Content-Encoding`.
    pub token: &'static str,
    /// How much the client wants it: the q value in thousandths, above 0.
    pub weight: u16,
    /// Makes the encoder.
    pub filter: Box<dyn BodyFilter>,
}

/// Whether a response of this status ends with its head (RFC 9110 section 6.4.1): what came after it would be taken for
/// the next response.
#[must_use]
#[inline]
pub fn has_no_body(status: u16) -> bool {
    matches!(status, 204 | 304)
}

impl std::fmt::Debug for Coding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coding")
            .field("token", &self.token)
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}
