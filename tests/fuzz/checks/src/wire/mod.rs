//! What must hold for the codecs on any input; panics where it doesn't. Run by the fuzz targets, and by the ordinary
//! tests of `crates/wire` on random input and on the seeds.

pub mod chunked_body;
pub mod http2;
mod lines;
pub mod proxy_protocol;
pub mod range;
pub mod request_head;
pub mod response_head;
