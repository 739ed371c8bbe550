//! Functions that stand in plugins' configurations: APISIX's `serverless-pre-function` and `serverless-post-function`.

use crate::bound::{Bound, What, evaluate};
use crate::code::Code;
use crate::module::{hooks, message};
use crate::phase::Phase;
use mlua::Value;
use model::ConfigError;
use plugin::{CompileContext, Hooks, PluginDef};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// The plugins.
pub(crate) const NAMES: [&str; 2] = ["serverless-pre-function", "serverless-post-function"];

/// Their priorities: APISIX's.
const PRIORITIES: [i32; 2] = [10_000, -2_000];

/// The phases that functions can be for.
const PHASES: [Phase; 6] =
    [Phase::Rewrite, Phase::Access, Phase::HeaderFilter, Phase::BodyFilter, Phase::Log, Phase::BeforeProxy];

/// Their definitions.
pub(crate) fn definitions(code: &Arc<Code>) -> Vec<PluginDef> {
    NAMES.into_iter().zip(PRIORITIES).map(|(name, priority)| definition(code, name, priority)).collect()
}

fn definition(code: &Arc<Code>, name: &'static str, priority: i32) -> PluginDef {
    let phases: Vec<_> = PHASES.iter().map(|phase| phase.function()).collect();
    let schema = json!({
        "type": "object",
        "properties": {
            "phase": { "type": "string", "default": "access", "enum": phases },
            "functions": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
        },
        "required": ["functions"],
    });
    let (of_compile, shared) = (Arc::clone(code), Arc::<str>::from(name));
    let compile = move |config: Json, cx: &CompileContext<'_>| compile(&of_compile, &shared, config, cx);
    let mut def = PluginDef::of(name, priority, schema, compile);
    def.version = code.serial;
    def
}

fn compile(
    code: &Arc<Code>,
    name: &Arc<str>,
    config: Json,
    cx: &CompileContext<'_>,
) -> Result<Hooks, Vec<ConfigError>> {
    let phase = config["phase"].as_str().unwrap_or("access");
    let phase = PHASES.into_iter().find(|known| known.function() == phase).unwrap_or(Phase::Access);
    let texts = config["functions"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let texts: Vec<_> = texts.map(str::to_owned).collect();
    for text in &texts {
        function(code, name, text).map_err(|why| vec![ConfigError::new("", why)])?;
    }
    let bound = Bound::new(code, name, What::Functions(phase, texts), config, cx);
    Ok(hooks(bound, &[phase]))
}

/// Checks that a text evaluates to a function.
///
/// # Errors
/// Why it doesn't; also where code in resources is not run.
pub(crate) fn function(code: &Arc<Code>, name: &str, text: &str) -> Result<(), String> {
    allowed(code)?;
    let vm = code.vm().map_err(|error| message(&error))?;
    let loaded = vm.lua.load(text.as_bytes()).set_name(format!("=[{name}]"));
    let loaded = loaded.set_mode(mlua::chunk::ChunkMode::Text).into_function();
    loaded.map_err(|error| format!("failed to loadstring: {}", message(&error)))?;
    let made: Value = vm
        .loading(|| evaluate(&vm, name, text))
        .map_err(|error| format!("pcall error: {}", message(&error)))?;
    match made {
        Value::Function(_) => Ok(()),
        other => Err(format!("only accept Lua function, the input code type is {}", other.type_name())),
    }
}

/// Refuses code where the operator has not switched it on.
pub(crate) fn allowed(code: &Code) -> Result<(), String> {
    if code.settings.allow_code {
        return Ok(());
    }
    Err("code in the configuration is not run: set apisix.allow_code_in_config to true in config.yaml"
        .to_owned())
}
