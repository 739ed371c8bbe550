//! Sessions of stream routes: bytes of TCP connections and datagrams, passed on without a look at what they mean.
//!
//! A session finds its route by addresses and server name, runs the route's preread hooks, which may want to see its
//! first bytes, reaches a node, and is relayed until it ends or idles for too long. `tcp` and `udp` tell it for what
//! carries it; `session` is what they have in common.

mod limits;
mod reach;
mod session;
mod tcp;
mod udp;

pub(crate) use tcp::serve as serve_connection;
pub(crate) use udp::serve as serve_datagrams;
