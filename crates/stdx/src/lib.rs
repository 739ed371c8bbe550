//! Small data structures that know no HTTP.

pub mod worker;

pub use worker::{PerWorker, WorkerToken};
