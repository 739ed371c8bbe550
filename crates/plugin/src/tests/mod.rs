//! What the parts of the framework do together.

mod nested;
mod run_time;
