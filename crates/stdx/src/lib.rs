//! Small data structures that know no HTTP.

pub mod clock;
pub mod hash;
pub mod window;
pub mod worker;

pub use clock::Clock;
pub use worker::{PerWorker, WorkerToken};
