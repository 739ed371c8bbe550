//! TLS without sockets: certificates and their choice by name, what is spoken with clients and with upstreams.
//!
//! A [`Site`] is what one `ssls` resource comes to. [`Sites`] finds the one for a server name and is part of the
//! snapshot, so that a changed certificate is shown to the next handshake while open connections live on. [`Server`]
//! holds what is the same for all of them (`apisix.ssl`); [`Upstreams`] makes the client's side.

mod calls;
mod ciphers;
mod client_auth;
pub mod der;
mod identity;
mod listener;
mod names;
mod peer;
mod protocols;
mod provider;
mod server;
mod site;
mod sites;
mod upstream;
mod validity;

#[doc(hidden)]
pub mod fuzzing;

#[cfg(test)]
mod handshake_tests;

pub use calls::{CallIdentity, for_calls, for_calls_with, for_streams, trust_for_calls};
pub use client_auth::Verdict;
pub use identity::{Identity, IdentityError, check_chain, has_version_1};
pub use listener::{ListenerError, ListenerPem, for_listener, handshake_failure};
pub use peer::Peer;
pub use protocols::{Protocols, Refusal};
pub use rustls;
pub use server::{Choice, Server, ServerOptions};
pub use site::Site;
pub use sites::{Entry, Sites};
pub use upstream::{Trust, Upstreams, Verify};
pub use validity::Validity;
