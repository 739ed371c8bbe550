//! Request methods.

/// A request method; the ones whose meaning the gateway needs, and all others as [`Method::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// HEAD: the response has no body.
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// OPTIONS: the only one that may ask for `*`.
    Options,
    /// PATCH
    Patch,
    /// TRACE
    Trace,
    /// CONNECT: refused, this is no forward proxy.
    Connect,
    /// Any other token.
    Other,
}

impl Method {
    /// Methods are case-sensitive (RFC 9110 section 9.1).
    #[must_use]
    pub fn from_token(token: &[u8]) -> Self {
        match token {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"OPTIONS" => Self::Options,
            b"PATCH" => Self::Patch,
            b"TRACE" => Self::Trace,
            b"CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }

    /// Whether a request may be sent a second time without asking the user (RFC 9110 section 9.2.2).
    #[must_use]
    pub fn is_idempotent(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace)
    }
}
