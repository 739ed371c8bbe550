//! What the end-to-end tests stand on: the gateway's real binary in a folder of its own, upstreams that behave or
//! misbehave on purpose, and clients that see every byte.
//!
//! Whatever a test starts ends with it, also when it fails: each process is killed by its own id when its owner is
//! dropped. Nothing here knows a crate of the product, so nothing here can be wrong together with it.

#![expect(clippy::unwrap_used, reason = "a harness fails its test at once, and the line says where")]

mod consul;
mod dns;
mod etcd;
mod gateway;
mod http2;
mod message;
mod network;
mod nginx;
mod oidc;
mod opa;
mod peer;
mod process;
mod redis;
mod slapd;
mod traffic;
mod upstream;

pub use consul::Consul;
pub use dns::Dns;
pub use etcd::Etcd;
pub use gateway::{ADMIN_KEY, Gateway, Spec};
pub use http2::{Http2Client, Http2Upstream, asynchronously};
pub use message::{Message, Pattern};
pub use network::{Home, own_network};
pub use nginx::Nginx;
pub use oidc::OidcProvider;
pub use opa::Opa;
pub use peer::Peer;
pub use process::{Process, binary, eventually, free_ports, program, refused};
pub use redis::Redis;
pub use slapd::Slapd;
pub use traffic::Traffic;
pub use upstream::{Seen, Upstream};
