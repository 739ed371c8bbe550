//! Light threads, and what they wait for.

use mlua::{Lua, MultiValue, Thread};
use plugin::LocalFuture;

/// What a function that waited returns to Lua.
pub(crate) type Answer = Box<dyn FnOnce(&Lua) -> mlua::Result<MultiValue>>;

/// What Lua code waits for.
pub(crate) enum Pending {
    /// Something outside.
    Future(LocalFuture<Answer>),
    /// The end of any of these light threads.
    Join(Vec<u32>),
    /// The request's body, which has at most so many bytes.
    Body(usize),
}

/// A light thread, or the code itself.
pub(crate) struct Light {
    pub(crate) id: u32,
    pub(crate) thread: Thread,
    pub(crate) state: LightState,
}

pub(crate) enum LightState {
    Ready(MultiValue),
    Waits(Pending),
    Done,
}
