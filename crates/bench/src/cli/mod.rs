//! Runs against a URL from the command line.

mod conduct;
mod options;
mod outcome;
mod print;
mod record;

pub use conduct::{Session, execute};
pub use options::LoadArgs;
pub(crate) use options::parse_duration;
pub(crate) use outcome::say;
pub use outcome::{Ended, Refusal, exit_code, failure, usage};
pub(crate) use record::{rfc3339_now, run_of, target_of};
