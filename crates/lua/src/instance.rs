//! A configuration of Lua code in a VM.

use crate::phase::Phase;
use mlua::{Function, Value};
use std::fmt;

/// What a plugin or a function of a resource is in a VM.
pub(crate) struct Instance {
    pub(crate) conf: Value,
    pub(crate) metadata: Option<serde_json::Value>,
    pub(crate) functions: [Vec<Function>; Phase::COUNT],
    /// Whether functions get `ctx` alone, as endpoints do.
    pub(crate) ctx_alone: bool,
}

impl Instance {
    /// The functions of a phase, in their order.
    pub(crate) fn functions(&self, phase: Phase) -> &[Function] {
        &self.functions[phase as usize]
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").finish_non_exhaustive()
    }
}
