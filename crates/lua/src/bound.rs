//! A configuration of Lua code, and what it is in a VM.

use crate::code::Code;
use crate::instance::Instance;
use crate::phase::Phase;
use crate::vm::{self, Vm};
use mlua::{Function, Table, Value};
use plugin::CompileContext;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A plugin with a configuration, or a function of a resource.
pub(crate) struct Bound {
    /// Tells it apart from all others in the life of the process.
    pub(crate) serial: u64,
    pub(crate) code: Arc<Code>,
    /// The plugin.
    pub(crate) name: Arc<str>,
    what: What,
    config: serde_json::Value,
    metadata: Option<serde_json::Value>,
    /// Where it stands, and the version of that.
    parent: (String, u64),
    /// Ends with it.
    alive: Arc<()>,
}

/// The code.
pub(crate) enum What {
    /// A module, by its name.
    Module(String),
    /// Texts that evaluate to functions, for one phase.
    Functions(Phase, Vec<String>),
    /// A text that evaluates to the function of a route.
    Filter(String),
    /// The handler of an endpoint: the module, and its place in what `api` lists.
    Api(String, usize),
}

impl Bound {
    /// `config` of the plugin `name`, which `what` runs.
    pub(crate) fn new(
        code: &Arc<Code>,
        name: &Arc<str>,
        what: What,
        config: serde_json::Value,
        cx: &CompileContext<'_>,
    ) -> Arc<Self> {
        code.learn(&cx.upstreams());
        let parent = (cx.parent.resource_key.to_owned(), cx.parent.config_version);
        Self::of(code, name, what, config, cx.metadata.cloned(), parent)
    }

    /// Code that stands in a resource.
    pub(crate) fn in_resource(code: &Arc<Code>, name: &str, what: What) -> Arc<Self> {
        let config = serde_json::Value::Object(serde_json::Map::new());
        Self::of(code, &name.into(), what, config, None, (String::new(), 0))
    }

    fn of(
        code: &Arc<Code>,
        name: &Arc<str>,
        what: What,
        config: serde_json::Value,
        metadata: Option<serde_json::Value>,
        parent: (String, u64),
    ) -> Arc<Self> {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            serial,
            code: Arc::clone(code),
            name: Arc::clone(name),
            what,
            config,
            metadata,
            parent,
            alive: Arc::new(()),
        })
    }

    /// What it is in a VM.
    pub(crate) fn instance(&self, vm: &Vm) -> mlua::Result<Rc<Instance>> {
        vm.instance(self.serial, &self.alive, || self.instantiate(vm))
    }

    fn instantiate(&self, vm: &Vm) -> mlua::Result<Instance> {
        let conf = vm.to_lua(&self.config)?;
        if let Value::Table(conf) = &conf {
            let parent = vm.lua.create_table()?;
            parent.raw_set("resource_key", self.parent.0.as_str())?;
            parent.raw_set("resource_version", self.parent.1.to_string())?;
            let meta = vm.lua.create_table()?;
            meta.raw_set("parent", parent)?;
            conf.raw_set("_meta", meta)?;
        }
        let mut functions = [const { Vec::new() }; Phase::COUNT];
        match &self.what {
            What::Module(module) => take_functions(&require(vm, module)?, &mut functions)?,
            What::Filter(text) => functions[Phase::Init as usize].push(evaluate(vm, &self.name, text)?),
            What::Api(..) => {}
            What::Functions(phase, texts) => {
                for text in texts {
                    functions[*phase as usize].push(evaluate(vm, &self.name, text)?);
                }
            }
        }
        if let What::Api(module, at) = &self.what {
            let list: Function = require(vm, module)?.get("api")?;
            let endpoint: Table = list.call::<Table>(())?.get(*at)?;
            functions[Phase::Api as usize].push(endpoint.get("handler")?);
        }
        let ctx_alone = matches!(self.what, What::Api(..));
        Ok(Instance { conf, metadata: self.metadata.clone(), functions, ctx_alone })
    }
}

fn take_functions(module: &Table, functions: &mut [Vec<Function>; Phase::COUNT]) -> mlua::Result<()> {
    for phase in Phase::OF_PLUGINS {
        functions[phase as usize].extend(vm::function(module, phase.function())?);
    }
    Ok(())
}

/// A module of the generation.
pub(crate) fn require(vm: &Vm, module: &str) -> mlua::Result<Table> {
    let require: Function = vm.lua.globals().raw_get("require")?;
    match require.call::<Value>(module)? {
        Value::Table(module) => Ok(module),
        other => Err(mlua::Error::runtime(format!(
            "the module {module} must return a table, and returned a {}",
            other.type_name()
        ))),
    }
}

/// What a text of a resource returns: a function or a module.
pub(crate) fn evaluate<T: mlua::FromLua>(vm: &Vm, name: &str, text: &str) -> mlua::Result<T> {
    let chunk = vm.lua.load(text.as_bytes()).set_name(format!("=[{name}]"));
    chunk.set_mode(mlua::chunk::ChunkMode::Text).call(())
}
