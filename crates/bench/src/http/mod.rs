//! Speaking HTTP as a client: one prepared request, answers read as cheaply as can be.

mod check;
mod connection;
mod http1;
mod http2;
mod protocol;
mod request;
mod response;
mod tls;

pub(crate) use http1::run as run_http1;
pub(crate) use http2::run as run_http2;

pub use check::BodyCheck;
pub use protocol::Protocol;
pub use request::{Request, RequestError};
pub use response::{Answer, Progress, ResponseReader, Scanner};
pub use tls::{Tls, TlsOptions};
