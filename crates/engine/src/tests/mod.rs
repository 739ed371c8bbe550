//! Tests of the engine as a whole, on sockets of its own.

mod attempts;
mod bounds;
mod detached;
pub(crate) mod fault;
mod filters;
pub(crate) mod fixture;
mod plugins;
mod taps;
