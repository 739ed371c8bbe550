//! What needs the operating system's own calls, and the engine's only `unsafe`.

pub(crate) mod plain;
mod queue;
mod ticker;

pub(crate) use queue::unacknowledged;
pub(crate) use ticker::Ticker;
