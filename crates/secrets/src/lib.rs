//! Secrets in stored resources: fields that the store holds encrypted, and references to secrets that are kept
//! elsewhere.
//!
//! [`Sealing`] encrypts fields on their way into the store and decrypts them on their way out. [`References`] knows the
//! values behind `$secret://` references and renews them on threads of its own; nothing here runs on a worker.
//! [`Secrets`] is both, as the snapshot's builder needs them: the stored bytes of a resource in, the resource with
//! everything in its place out.

mod apisix_cbc;
mod fields;
mod http;
mod keyring;
mod limits;
mod reference;
mod references;
mod resolve;
mod sealing;
mod secrets;
mod source;
mod well_known;

pub use keyring::{Format, Keyring, KeyringError, PREFIX, WELL_KNOWN};
pub use reference::ManagedRef;
pub use references::{Lifetimes, References};
pub use sealing::{MASK, Sealing};
pub use secrets::{Revealed, Secrets};
pub use source::{GoogleTokens, sigv4};
pub use well_known::is_well_known_admin_key;
