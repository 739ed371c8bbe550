//! Decides by a Casbin model and policy who may call what.
//!
//! ## When to use
//! For access rules that are few enough to write down: who (a header field of the request), what (its path) and how (its
//! method), with roles, patterns, and allowing and denying rules.
//!
//! ## Example
//! ```json
//! {
//!     "authz-casbin": {
//!         "model": "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = sub, obj, act\n[role_definition]\ng = _, _\n[policy_effect]\ne = some(where (p.eft == allow))\n[matchers]\nm = (g(r.sub, p.sub) || keyMatch(r.sub, p.sub)) && keyMatch(r.obj, p.obj) && keyMatch(r.act, p.act)",
//!         "policy": "p, *, /, GET\np, admin, *, *\ng, alice, admin",
//!         "username": "user"
//!     }
//! }
//! ```
//! The request is `r = sub, obj, act`: the value of the header field `username` names (`anonymous` without one), the path,
//! the method. Model and policy stand in the configuration, in files (`model_path`, `policy_path`), or in the plugin's
//! metadata, where routes that have only `username` find them. Files are read when the configuration is applied.
//!
//! ## Differences from APISIX
//! - The header field of `username` is the client's word, as in APISIX: something before this plugin has to set it.
//! - Matchers have `&&`, `||`, `!`, comparisons, `in (...)`, `eval(p.rule)`, roles, `keyMatch` to `keyMatch5`, `regexMatch`,
//!   `globMatch` and `ipMatch`. What else Casbin has is refused with the configuration, not ignored.
//! - Patterns come from policies and models. One that comes from the request is refused with the configuration.
//! - In patterns of `keyMatch2` to `keyMatch5` and `globMatch` only their own signs are special; a `.` is a dot.

mod enforcer;
mod functions;
mod matcher;
mod model;
mod roles;
mod syntax;

use ::model::ConfigError;
use enforcer::Enforcer;
use plugin::{CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef, Reply, log_for};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<AuthzCasbin>("authz-casbin", 2560).on_rewrite().build()
}

/// Bytes of a model's or a policy's file. 10,000 rules have about 1 MiB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    model_path: Option<String>,
    policy_path: Option<String>,
    model: Option<String>,
    policy: Option<String>,
    username: String,
}

/// What stands in the plugin's metadata.
#[derive(Debug, Deserialize)]
struct Metadata {
    model: String,
    policy: String,
}

/// The compiled form.
pub struct AuthzCasbin {
    username: String,
    /// Or why there is none: then every request gets 503.
    enforcer: Result<Enforcer, String>,
}

impl Plugin for AuthzCasbin {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let enforcer = match (&config.model_path, &config.policy_path, &config.model, &config.policy) {
            (Some(model), Some(policy), ..) => from_files(Path::new(model), Path::new(policy)),
            (_, _, Some(model), Some(policy)) => {
                Ok(Enforcer::compile(model, policy).map_err(|error| vec![error])?)
            }
            // Metadata and route are changed one after the other: neither refuses the other.
            _ => match cx.metadata.map(Metadata::deserialize) {
                Some(Ok(metadata)) => Enforcer::compile(&metadata.model, &metadata.policy)
                    .map_err(|error| format!("the metadata's {}: {}", error.path, error.message)),
                _ => Err("not enough configuration to create enforcer".to_owned()),
            },
        };
        Ok(Self { username: config.username, enforcer })
    }

    fn schema() -> Value {
        let text = |what: &str| json!({"description": what, "type": "string"});
        json!({
            "type": "object",
            "properties": {
                "model_path": text("The file with the model."),
                "policy_path": text("The file with the policy."),
                "model": text("The model."),
                "policy": text("The policy, in CSV."),
                "username": text("The header field with the user's name.")
            },
            "oneOf": [
                {"required": ["model_path", "policy_path", "username"]},
                {"required": ["model", "policy", "username"]},
                {
                    "required": ["username"],
                    "not": {"anyOf": [
                        {"required": ["model_path", "policy_path"]},
                        {"required": ["model", "policy"]}
                    ]}
                }
            ]
        })
    }

    fn metadata_schema() -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {"model": {"type": "string"}, "policy": {"type": "string"}},
            "required": ["model", "policy"]
        }))
    }
}

/// The enforcer that two files describe.
fn from_files(model: &Path, policy: &Path) -> Result<Enforcer, String> {
    let read = |path: &Path| {
        stdx::file::read_text(path, FILE_BYTES_MAX).map_err(|error| format!("{}: {error}", path.display()))
    };
    let (model_text, policy_text) = (read(model)?, read(policy)?);
    Enforcer::compile(&model_text, &policy_text).map_err(|error| error.message)
}

impl OnRewrite for AuthzCasbin {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let enforcer = match &self.enforcer {
            Ok(enforcer) => enforcer,
            Err(why) => {
                log_for!(error, exchange, "authz-casbin: {why}");
                return Flow::status(503);
            }
        };
        let request = &exchange.request;
        let user = request.header(self.username.as_bytes()).unwrap_or(b"anonymous");
        let texts = [user, &*request.path, request.method()].map(std::str::from_utf8);
        let allowed = match texts {
            [Ok(subject), Ok(object), Ok(action)] => enforcer.allows(&[subject, object, action]),
            // A policy is text: it says nothing of bytes that are none.
            _ => false,
        };
        if allowed { Flow::Next } else { Flow::reply(Reply::message(403, "Access Denied")) }
    }
}

#[cfg(test)]
mod tests;
