//! What the parts of the framework do together.

mod run_time;
