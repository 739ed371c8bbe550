//! What the parts of the framework do together.

mod life;
mod nested;
mod reloads;
mod run_time;
