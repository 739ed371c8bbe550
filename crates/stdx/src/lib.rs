//! Small data structures that know no HTTP.

pub mod bytes;
pub mod clock;
pub mod file;
pub mod folders;
pub mod hash;
pub mod keyed;
pub mod lend;
pub mod moment;
pub mod panics;
pub mod persistent;
pub mod priority;
pub mod secret;
pub mod segment;
pub mod units;
pub mod window;
pub mod worker;

pub use clock::Clock;
pub use folders::Folders;
pub use keyed::Keyed;
pub use moment::Moment;
pub use persistent::PersistentMap;
pub use secret::Secret;
pub use segment::Segment;
pub use worker::{LazyPerWorker, PerWorker, WorkerToken};
