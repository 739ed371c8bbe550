//! What needs the operating system's own calls, and the engine's only `unsafe`.

mod alarm;
pub(crate) mod plain;
mod ticker;

pub(crate) use alarm::Alarm;
pub(crate) use ticker::Ticker;
