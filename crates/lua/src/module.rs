//! Plugins' modules: found, loaded, and made into definitions.

use crate::bound::{Bound, What, require};
use crate::code::Code;
use crate::current::{Detached, RequestState};
use crate::hook::{self, Hook};
use crate::json;
use crate::phase::Phase;
use crate::vm::{self, Vm};
use mlua::{Function, LuaString, Table, Value};
use model::ConfigError;
use model::schema::Validator;
use plugin::{
    ApiContext, CompileContext, CompiledCredential, ConsumerSide, ControlAnswer, ControlApi, ControlBody,
    ControlRequest, Hooks, Lifecycle, PluginDef, PublicApi, WorkerContext,
};
use serde_json::{Value as Json, json};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// `core.schema.TYPE_CONSUMER`
const TYPE_CONSUMER: i64 = 1;

/// The module of the plugin `plugin`.
pub(crate) fn name_of(plugin: &str, stream: bool) -> String {
    format!("apisix.{}plugins.{plugin}", if stream { "stream." } else { "" })
}

/// The definition of the plugin `name`; `None` where no file has it.
///
/// # Errors
/// Why it can't be used: file, line and message.
pub(crate) fn definition(code: &Arc<Code>, name: &str, stream: bool) -> Result<Option<PluginDef>, String> {
    let module = name_of(name, stream);
    if code.module(&module)?.is_none() {
        return Ok(None);
    }
    let load = || -> mlua::Result<PluginDef> {
        let vm = code.vm()?;
        let table = vm.loading(|| require(&vm, &module))?;
        make(code, &vm, name, &module, &table)
    };
    load().map(Some).map_err(|error| message(&error))
}

/// What an error says, without the stack below it.
pub(crate) fn message(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } => message(cause),
        error => {
            let text = error.to_string();
            let text =
                text.strip_prefix("runtime error: ").or(text.strip_prefix("syntax error: ")).unwrap_or(&text);
            text.split("\nstack traceback:").next().unwrap_or_default().trim_end().to_owned()
        }
    }
}

fn make(code: &Arc<Code>, vm: &Rc<Vm>, name: &str, module: &str, table: &Table) -> mlua::Result<PluginDef> {
    let priority = table.get::<Option<i32>>("priority")?.unwrap_or(0);
    let schema = schema_of(vm, name, table, "schema")?.unwrap_or_else(|| json!({"type": "object"}));
    let shared: Arc<str> = name.into();
    let phases = phases(table)?;
    let compile = {
        let (code, name, module) = (Arc::clone(code), Arc::clone(&shared), module.to_owned());
        move |config: Json, cx: &CompileContext<'_>| {
            let config = checked(&code, &module, config, None)?;
            let bound = Bound::new(&code, &name, What::Module(module.clone()), config, cx);
            Ok(hooks(bound, &phases))
        }
    };
    let mut def = PluginDef::of(Arc::clone(&shared), priority, schema, compile);
    def.version = code.serial;
    def.metadata_schema = schema_of(vm, name, table, "metadata_schema")?;
    def.prefer_route = table.get::<Option<String>>("run_policy")?.as_deref() == Some("prefer_route");
    def.action = table.get::<Value>("workflow_handler")?.is_function();
    if let Some(fields) = encrypted(table)? {
        def.encrypt_fields = fields;
    }
    def.auth = table.get::<Option<String>>("type")?.as_deref() == Some("auth");
    if let Some(schema) = schema_of(vm, name, table, "consumer_schema")? {
        def.consumer = Some(consumer_side(code, &shared, module, schema));
    }
    if let Some(list) = vm::function(table, "control_api")? {
        def.control_apis = control_apis(code, name, module, &vm.loading(|| list.call::<Table>(()))?)?;
    }
    if vm::function(table, "api")?.is_some() {
        def.public_apis = Some(public_apis(code, &shared, module));
    }
    def.lifecycle = lifecycle(code, &shared, module, table)?;
    Ok(def)
}

/// The phases that a module has functions for.
fn phases(table: &Table) -> mlua::Result<Vec<Phase>> {
    let mut phases = Vec::new();
    for phase in Phase::OF_PLUGINS {
        if vm::function(table, phase.function())?.is_some() {
            phases.push(phase);
        }
    }
    Ok(phases)
}

/// The hooks of the phases that `bound` has functions for.
pub(crate) fn hooks(bound: Arc<Bound>, phases: &[Phase]) -> Hooks {
    let has = |phase: Phase| phases.contains(&phase);
    let filters = has(Phase::HeaderFilter) || has(Phase::BodyFilter) || has(Phase::DelayedBodyFilter);
    let hook = Arc::new(Hook(bound));
    Hooks {
        rewrite: has(Phase::Rewrite).then(|| Arc::clone(&hook) as _),
        access: has(Phase::Access).then(|| Arc::clone(&hook) as _),
        // Also to send what the phases before have printed.
        before_proxy: (has(Phase::Rewrite) || has(Phase::Access) || has(Phase::BeforeProxy))
            .then(|| Arc::clone(&hook) as _),
        response: filters.then(|| Arc::clone(&hook) as _),
        log: has(Phase::Log).then(|| Arc::clone(&hook) as _),
        preread: has(Phase::Preread).then(|| Arc::clone(&hook) as _),
        stream_log: has(Phase::StreamLog).then(|| Arc::clone(&hook) as _),
        ..Hooks::default()
    }
}

/// A schema of a module; `None` where it has none. One that is no JSON Schema leaves the check to the module.
fn schema_of(vm: &Vm, name: &str, table: &Table, key: &str) -> mlua::Result<Option<Json>> {
    let value = table.get::<Value>(key)?;
    if !value.is_table() {
        return Ok(None);
    }
    let schema = json::schema(&vm.lua, &value)?;
    if let Err(error) = Validator::compile(&schema) {
        tracing::warn!(plugin = name, "the {key} of a Lua plugin is no valid JSON Schema: {error}");
        return Ok(Some(json!({"type": "object"})));
    }
    Ok(Some(schema))
}

fn encrypted(table: &Table) -> mlua::Result<Option<Vec<Cow<'static, str>>>> {
    let Some(schema) = table.get::<Option<Table>>("schema")? else { return Ok(None) };
    let Some(fields) = schema.get::<Option<Vec<String>>>("encrypt_fields")? else { return Ok(None) };
    Ok(Some(fields.into_iter().map(Cow::Owned).collect()))
}

/// What a module's `check_schema` makes of a configuration: with its defaults.
fn checked(
    code: &Arc<Code>,
    module: &str,
    config: Json,
    kind: Option<i64>,
) -> Result<Json, Vec<ConfigError>> {
    let check = || -> mlua::Result<Result<Json, String>> {
        let vm = code.vm()?;
        let table = vm.loading(|| require(&vm, module))?;
        let Some(check) = vm::function(&table, "check_schema")? else { return Ok(Ok(config)) };
        let conf = vm.to_lua(&config)?;
        let (ok, why): (Value, Value) = vm.loading(|| check.call((conf.clone(), kind)))?;
        if matches!(ok, Value::Nil | Value::Boolean(false)) {
            let why = vm.lua.coerce_string(why)?.map(|why| why.to_string_lossy());
            return Ok(Err(why.unwrap_or_else(|| "check_schema refuses it".to_owned())));
        }
        json::of(&vm.lua, &conf).map(Ok)
    };
    let refuse = |why: String| vec![ConfigError::new("", why)];
    check().map_err(|error| refuse(message(&error)))?.map_err(refuse)
}

fn consumer_side(code: &Arc<Code>, name: &Arc<str>, module: &str, schema: Json) -> ConsumerSide {
    let (code, name, module) = (Arc::clone(code), Arc::clone(name), module.to_owned());
    let compile = move |config: Json| {
        let config = checked(&code, &module, config, Some(TYPE_CONSUMER))?;
        // Plugins look through all credentials by a field of their choice; the key has to tell them apart only.
        let key = config.to_string().into_bytes();
        Ok(CompiledCredential::new(Arc::clone(&name), key, Arc::new(config)))
    };
    ConsumerSide { schema, compile: Box::new(compile) }
}

/// `init` and `destroy`, which run on each worker.
fn lifecycle(code: &Arc<Code>, name: &Arc<str>, module: &str, table: &Table) -> mlua::Result<Lifecycle> {
    let run = |function: &'static str| {
        let (code, name, module) = (Arc::clone(code), Arc::clone(name), module.to_owned());
        move |cx: WorkerContext<'_>| {
            let result = code.vm().and_then(|vm| {
                vm.services.replace(Some(Rc::clone(cx.services)));
                let table = vm.loading(|| require(&vm, &module))?;
                let Some(function) = vm::function(&table, function)? else { return Ok(()) };
                vm.current.borrow_mut().name = Some(Arc::clone(&name));
                vm.loading(|| crate::lent::nothing(|| function.call::<()>(())))
            });
            if let Err(error) = result {
                tracing::error!(plugin = &*name, "a Lua plugin failed in {function}: {}", message(&error));
            }
        }
    };
    let start = run("init");
    let stop = vm::function(table, "destroy")?.map(|_| run("destroy"));
    Ok(Lifecycle {
        // Also without `init`: the VM is there before the first request.
        worker_start: Some(Box::new(start)),
        worker_stop: Some(Box::new(move |cx| {
            if let Some(stop) = &stop {
                stop(cx);
            }
            Vm::drop_unused();
        })),
        ..Lifecycle::default()
    })
}

/// The endpoints that a module's `api` lists.
fn public_apis(code: &Arc<Code>, name: &Arc<str>, module: &str) -> plugin::MakeApis {
    let (code, name, module) = (Arc::clone(code), Arc::clone(name), module.to_owned());
    Box::new(move |_: ApiContext<'_>| {
        let made = code.vm().and_then(|vm| {
            let table = vm.loading(|| require(&vm, &module))?;
            let list: Function = table.get("api")?;
            let list: Table = vm.loading(|| list.call(()))?;
            let mut apis = Vec::new();
            for (at, endpoint) in list.sequence_values::<Table>().enumerate() {
                let endpoint = endpoint?;
                let (methods, uri): (Vec<String>, String) = (endpoint.get("methods")?, endpoint.get("uri")?);
                let bound = Bound::in_resource(&code, &name, What::Api(module.clone(), at + 1));
                for method in methods {
                    let bound = Arc::clone(&bound);
                    let answer =
                        Box::new(move |exchange: &plugin::Exchange<'_>| hook::answer(&bound, exchange));
                    apis.push(PublicApi { method: Cow::Owned(method), uri: uri.clone(), answer });
                }
            }
            Ok(apis)
        });
        made.unwrap_or_else(|error| {
            tracing::error!(plugin = &*name, "a Lua plugin failed in api: {}", message(&error));
            Vec::new()
        })
    })
}

/// The endpoints that a module's `control_api` lists, as far as they are below the plugin's path.
fn control_apis(code: &Arc<Code>, name: &str, module: &str, list: &Table) -> mlua::Result<Vec<ControlApi>> {
    let prefix = format!("/v1/plugin/{name}/");
    let mut apis = Vec::new();
    for (at, endpoint) in list.sequence_values::<Table>().enumerate() {
        let endpoint = endpoint?;
        let methods: Vec<String> = endpoint.get("methods")?;
        let uris: Vec<String> = match endpoint.get::<Value>("uris")? {
            Value::Nil => vec![endpoint.get("uri")?],
            uris => mlua::FromLua::from_lua(uris, &code.vm()?.lua)?,
        };
        for (method, uri) in methods.iter().flat_map(|method| uris.iter().map(move |uri| (method, uri))) {
            let Some(path) = uri.strip_prefix(&prefix) else {
                tracing::warn!(
                    plugin = name,
                    "an endpoint of the control API is left out: {uri} is not below {prefix}"
                );
                continue;
            };
            let (code, module) = (Arc::clone(code), module.to_owned());
            let handler = move |request: &ControlRequest<'_>| {
                control(&code, &module, at + 1, request)
                    .unwrap_or_else(|error| ControlAnswer::json(500, json!({ "error_msg": message(&error) })))
            };
            apis.push(ControlApi::new(method.clone(), path.to_owned(), handler));
        }
    }
    Ok(apis)
}

fn control(
    code: &Arc<Code>,
    module: &str,
    at: usize,
    request: &ControlRequest<'_>,
) -> mlua::Result<ControlAnswer> {
    let vm = code.vm()?;
    let table = vm.loading(|| require(&vm, module))?;
    let list: Function = table.get("control_api")?;
    let list: Table = vm.loading(|| list.call(()))?;
    let handler: Function = list.get::<Table>(at)?.get("handler")?;
    let state: Rc<RequestState> = vm.request()?;
    let vars = [("args", request.query), ("request_method", request.method), ("uri", request.path)];
    let vars = vars.map(|(name, value)| (name, value.as_bytes().to_vec())).to_vec();
    state.detached.replace(Some(Detached { vars, ..Default::default() }));
    let before = {
        let mut current = vm.current.borrow_mut();
        current.request.replace(Rc::clone(&state))
    };
    let result = vm.loading(|| handler.call::<(Value, Value)>(state.ctx.clone()));
    vm.current.borrow_mut().request = before;
    let (code, body) = result?;
    let status = code.as_i64().and_then(|code| u16::try_from(code).ok()).unwrap_or(200);
    let body = match body {
        Value::Table(_) => ControlBody::Json(json::of(&vm.lua, &body)?),
        Value::Nil => ControlBody::Text(String::new()),
        body => {
            let text: Option<LuaString> = vm.lua.coerce_string(body)?;
            ControlBody::Text(text.map(|text| text.to_string_lossy()).unwrap_or_default())
        }
    };
    Ok(ControlAnswer { status, body })
}
