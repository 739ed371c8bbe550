//! The data plane: the only sockets and event loops of the request path.
//!
//! Each worker is a thread with its own event loop, listeners, buffers and upstream connections; nothing is shared
//! between workers but the immutable snapshot. A request's path is told by `exchange`.

mod accept;
mod buffers;
mod capacity;
mod clock;
mod config;
mod connection;
mod error;
mod exchange;
mod handle;
mod http2;
mod io;
mod link;
mod listen;
mod merged;
mod named;
mod open;
mod plugins;
mod port_owner;
mod proxy_protocol;
mod real_ip;
mod serve;
mod services;
mod stream;
mod supervise;
mod sys;
mod timer;
mod transport;
mod tunnel;
mod upstream;
mod worker;

pub use config::{ClientLimits, EngineConfig, Listen, Mount, MountHandler, MountRequest, Serves, Streams};
pub use handle::{Bound, Engine, Ports};
pub use listen::BindError;
pub use port_owner::port_owner;
pub use real_ip::RealIp;
pub use worker::Context;

#[cfg(test)]
mod tests;
