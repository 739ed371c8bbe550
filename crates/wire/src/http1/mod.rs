//! HTTP/1.1 and 1.0 (RFC 9112), read strictly: what two parsers could understand differently is refused, so nothing
//! ambiguous is ever passed on.

mod decoder;
mod encode;
mod error;
pub mod request;
pub mod response;
mod scan;
mod value;
pub mod view;

pub use decoder::{BodyDecoder, BodyError};
pub(crate) use decoder::{TRAILERS_COUNT, may_trail};
pub use encode::{KnownSet, push_decimal};

/// A head may be this long: nginx's `large_client_header_buffers 4 8k`.
pub const HEAD_MAX: usize = 32 * 1024;

/// One line of a head may be this long: one of nginx's four 8k buffers.
pub const LINE_MAX: usize = 8 * 1024;

/// A head may have this many fields; more than any browser sends.
pub const FIELDS_MAX: usize = 128;

/// The trailer section of a chunked body may be this long.
pub const TRAILERS_MAX: usize = 8 * 1024;
