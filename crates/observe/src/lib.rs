//! What the gateway says about itself: metrics, the access log, the error log.
//!
//! Nothing here is shared between workers on the request path: each worker counts and writes into its own cells and
//! buffers, which are merged when a scrape asks, or handed to the log's own thread in batches.

mod append;
mod local_time;

pub mod access_log;
pub mod error_log;
pub mod metrics;

pub use access_log::AccessLog;
pub use append::append_to;
pub use error_log::ErrorLog;
pub use local_time::local_time;
pub use metrics::{Connections, EXPOSITION_TYPE, Metrics, exposition};
