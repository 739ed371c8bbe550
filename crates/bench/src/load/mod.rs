//! A run: threads, each with its own connections, schedule and tally, that send one prepared request and take times.
//!
//! Nothing is shared between the threads while they run but a flag that ends them and a few counters for the live
//! view, so that the generator's cost is its system calls.

mod clock;
mod cpu;
mod drive;
mod outcome;
mod pace;
mod plan;
mod tally;
mod target;

pub use crate::http::Protocol;
pub use clock::{Nanos, now};
pub use cpu::{CpuUse, pin};
pub use drive::{Control, Progress, run};
pub(crate) use drive::{Turn, nanos};
pub use outcome::{ClientLimit, Outcome, ThreadOutcome};
pub use pace::{Pace, Schedule};
pub use plan::Plan;
pub use tally::{ErrorKind, Fault, LATENCY_MAX_NS, Tally, TlsFacts, empty_histogram};
pub use target::{Endpoint, Scheme, Target, TargetError};
