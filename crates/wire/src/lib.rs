//! Sans-I/O codecs: bytes in, heads and body events out. No sockets, no clock, no allocation per message in the
//! plain case.
//!
//! Every protocol meets in one vocabulary: a head ([`RequestHead`], [`ResponseHead`]: ranges into the bytes it was
//! read from) and then [`BodyEvent`]s. Whoever relays a message works with these, whatever the wire speaks.

mod body;
mod field;
mod head;
mod lines;
mod method;
mod reason;
mod target;

pub mod conditional;
pub mod http1;
pub mod http2;
pub mod proxy_protocol;
pub mod range;

pub use body::{BodyEvent, BodyLength, Framing};
pub use field::{Field, Known, Span};
pub use head::{FieldName, FieldSink, FieldValue, MadeLines};
pub use http1::request::{HeadError, RequestHead};
pub use http1::response::{ResponseError, ResponseHead};
pub use http1::view::RequestView;
pub use lines::FieldLines;
pub use method::Method;
pub use reason::reason;
pub use target::{NormalisedPath, host_of, normalise_path};
