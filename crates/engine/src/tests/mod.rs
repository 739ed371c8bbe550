//! Tests of the engine as a whole, on sockets of its own.

pub(crate) mod fixture;
mod plugins;
