//! What the VM runs at the moment, for the functions of the host that Lua code calls.

use crate::instance::Instance;
use crate::light::{Light, Pending};
use crate::phase::Phase;
use mlua::Table;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// What Lua code has of a request from phase to phase.
#[derive(Debug)]
pub(crate) struct RequestState {
    /// The VM it belongs to.
    pub(crate) vm: u64,
    /// `api_ctx`.
    pub(crate) ctx: Table,
    /// `ngx.ctx`.
    pub(crate) ngx_ctx: Table,
    /// What `ngx.print` has been given.
    pub(crate) out: RefCell<Vec<u8>>,
    /// `ngx.status`, where it was set before there is a response; 0 where it was not.
    pub(crate) status: Cell<u16>,
    /// Fields that code set where the exchange can't be edited.
    pub(crate) fields: RefCell<Vec<(String, Vec<u8>)>>,
    /// What a body filter knows of the response, which has no exchange any more.
    pub(crate) detached: RefCell<Option<Detached>>,
}

/// What a body filter knows of the exchange.
#[derive(Debug, Default, Clone)]
pub(crate) struct Detached {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) vars: Vec<(&'static str, Vec<u8>)>,
}

/// What the VM runs at the moment.
#[derive(Default)]
pub(crate) struct Current {
    pub(crate) phase: Phase,
    /// The plugin.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) instance: Option<Rc<Instance>>,
    pub(crate) request: Option<Rc<RequestState>>,
    /// What the code waits for, as it yields.
    pub(crate) pending: Option<Pending>,
    /// The argument of `ngx.exit`.
    pub(crate) exit: Option<i64>,
    /// Light threads made since the code was last resumed.
    pub(crate) spawned: Vec<Light>,
    /// Those that were killed.
    pub(crate) killed: Vec<u32>,
}
