//! Log entries on their way to collectors: pushed by workers, gathered in batches, and sent by threads that do nothing
//! else.
//!
//! A worker pays for a counter and a queue. What can't be sent in time is dropped, counted, and said in the error log.

mod backlog;
mod batches;
mod delivery;
mod destination;
mod file;
mod http;
mod limits;
mod tcp;
mod udp;

pub use backlog::Backlog;
pub use batches::{Batches, Gathering};
pub use delivery::Delivery;
pub use destination::{Destination, Framing};
pub use file::LogFile;
pub use http::{HttpCollector, unix_time_s};
pub use tcp::{CollectorTls, TcpCollector};
pub use udp::UdpCollector;
