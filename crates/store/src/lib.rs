//! The configuration store: keys and JSON values with revisions, preconditions, watch and history.
//!
//! The model is etcd's, because a cluster shares its configuration through etcd: one counter of revisions for the
//! whole store, raised by one for each transaction that changes something; every entry knows the revision that
//! created it and the one that changed it last. Keys are APISIX's without the cluster's prefix (`/routes/1`).
//!
//! [`Store`] is the contract, [`Embedded`] the default backend (one file, no service to run). What the contract means
//! beyond its types is written as tests in the module `suite`, which every backend passes.

mod clock;
mod embedded;
mod entry;
mod error;
mod history;
pub mod limits;
mod store;
#[cfg(any(test, feature = "suite"))]
pub mod suite;
mod txn;

pub use clock::{Clock, SystemClock};
pub use embedded::{Embedded, EmbeddedConfig};
pub use entry::{Batch, Change, Entry, Listing};
pub use error::StoreError;
pub use history::{KeyChange, RevisionRecord};
pub use store::{BoxFuture, Store, Watch};
pub use txn::{Applied, Committed, Op, Precondition, Txn, TxnOutcome};
