//! Small data structures that know no HTTP.

pub mod clock;
pub mod hash;
pub mod moment;
pub mod window;
pub mod worker;

pub use clock::Clock;
pub use moment::Moment;
pub use worker::{PerWorker, WorkerToken};
