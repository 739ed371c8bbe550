//! What needs the operating system's own calls, and the engine's only `unsafe`.

mod ticker;

pub(crate) use ticker::Ticker;
