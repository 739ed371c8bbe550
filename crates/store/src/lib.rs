//! The configuration store: keys and JSON values with revisions, preconditions, watch and history.
//!
//! The model is etcd's, because a cluster shares its configuration through etcd: one counter of revisions for the
//! whole store, raised by one for each transaction that changes something; every entry knows the revision that
//! created it and the one that changed it last. Keys are APISIX's without the cluster's prefix (`/routes/1`).
//!
//! [`Store`] is the contract, [`Embedded`] the default backend (one file, no service to run), [`Etcd`] the one that a fleet
//! shares, [`File`] the standalone file's. [`Cached`] keeps a node up while its centre is away. What the contract means
//! beyond its types is written as tests in the module `suite`, which every backend passes.

mod cached;
mod clock;
mod embedded;
mod entry;
mod error;
pub mod etcd;
pub mod file;
mod history;
pub mod limits;
mod store;
#[cfg(any(test, feature = "suite"))]
pub mod suite;
mod txn;

pub use cached::{Acceptance, Accepted, Cached, Facts, Guarded, Health, Rejection};
pub use clock::{Clock, SystemClock};
pub use embedded::{Embedded, EmbeddedConfig};
pub use entry::{Batch, Change, Entry, Listing};
pub use error::StoreError;
pub use etcd::{Etcd, EtcdConfig};
pub use file::File;
pub use history::{KeyChange, RevisionRecord};
pub use store::{BoxFuture, Store, Watch};
pub use txn::{Applied, Committed, Op, Precondition, Txn, TxnLimits, TxnOutcome};
