//! What must hold for the HTTP/1 codec on any input; panics where it doesn't. Run by the fuzz targets, and by the
//! ordinary tests of `crates/wire` on random input and on the seeds.

pub(crate) mod chunked_body;
mod lines;
pub(crate) mod request_head;
pub(crate) mod response_head;
