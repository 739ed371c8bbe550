//! Responses kept for later requests (RFC 9111).
//!
//! What may be kept, for how long, and whom it may be given to are the pure files: `directives`, `terms`, `entry`.
//! A [`Zone`] keeps entries in memory or on disk, within a size, the least recently used going first; of requests that
//! miss the same entry at the same time one asks the upstream, and the others wait for it ([`Fetch`]).

mod changes;
pub mod directives;
mod disk;
mod entry;
mod fetch;
mod file;
mod index;
pub mod message;
mod spec;
mod terms;
mod zone;
mod zones;

pub use directives::Directives;
pub use entry::{Entry, Freshness, Message, VARIANTS_MAX};
pub use fetch::{Fetch, Landing};
pub use spec::{DiskSpec, ZoneSpec};
pub use terms::{Policy, Rules, Terms, varies_by};
pub use zone::{Found, Zone};
pub use zones::{ZoneError, ZoneSpecs, Zones};
