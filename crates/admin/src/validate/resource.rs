//! Whether a resource may be written: everything APISIX checks, in its order, and all mistakes at once.
//!
//! Lua in a resource is code that the gateway would run: `filter_func` is accepted only if the configuration allows code,
//! and `script` never.

use crate::http::manner::Manner;
use crate::http::target::Target;
use crate::validate::mistakes::Mistakes;
use crate::validate::plugins::{self, Side};
use crate::validate::{certificates, duplicates, files, references, streams, upstreams};
use crate::{Admin, AdminResponse};
use model::schema::{check_resource, unknown_fields};
use model::{Kind, PluginMap, Route};
use protos::Definitions;
use router::{Conditions, Expr};
use serde_json::{Map, Value};
use store::StoreError;

/// A resource to be checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    /// What it is to be; its id is none yet before a POST, and that in the path for a consumer.
    pub target: Target<'a>,
    /// The resource, with its id.
    pub fields: &'a Map<String, Value>,
    /// Whether what it refers to must exist.
    pub others: bool,
}

/// The fields that nobody knows, as JSON pointers; with `strict` they are refused.
pub(crate) async fn check(
    admin: &Admin,
    candidate: Candidate<'_>,
    manner: Manner,
) -> Result<Vec<String>, AdminResponse> {
    let key = candidate.target.key().unwrap_or_default();
    let (mut mistakes, unknown) = mistakes(admin, candidate).await?;
    if manner.strict {
        mistakes.unknown(&unknown);
    }
    if mistakes.any() {
        return Err(mistakes.refusal(manner.all_errors));
    }
    for warning in mistakes.warnings() {
        tracing::warn!("{}", warning.clone().resource(&key));
    }
    Ok(unknown)
}

/// All that is wrong with it, and the fields that nobody knows.
pub(crate) async fn mistakes(
    admin: &Admin,
    candidate: Candidate<'_>,
) -> Result<(Mistakes, Vec<String>), StoreError> {
    let Candidate { target, fields, others } = candidate;
    let kind = target.kind;
    let mut found = Mistakes::default();
    let value = Value::Object(fields.clone());
    if kind == Kind::PluginMetadata {
        check_metadata(admin, target.id, &value, &mut found);
        return Ok((found, Vec::new()));
    }
    found.report("", check_resource(kind, &value));
    let schema_holds = !found.any();
    let mut unknown = unknown_fields(kind, &value);
    let none = PluginMap::new();
    let plugins = fields.get("plugins").and_then(Value::as_object).unwrap_or(&none);
    if matches!(kind, Kind::Consumer | Kind::Credential) {
        check_caller(admin, candidate, plugins, (&mut found, &mut unknown)).await?;
        return Ok((found, unknown));
    }
    if others {
        references::check_existence(admin, kind, fields, &mut found).await?;
    }
    certificates::check(kind, fields, &mut found);
    if schema_holds && matches!(kind, Kind::Upstream | Kind::Route | Kind::Service | Kind::StreamRoute) {
        upstreams::check(kind, fields, &mut found);
    }
    if schema_holds && kind == Kind::Proto {
        check_definitions(fields, &mut found);
    }
    if kind == Kind::StreamRoute {
        if others {
            streams::check_superior(admin, target.id, fields, &mut found).await?;
        }
        streams::check(&admin.registry, fields, plugins, &mut found, &mut unknown);
        return Ok((found, unknown));
    }
    plugins::check(&admin.registry, plugins, Side::Route, &mut found, &mut unknown);
    if schema_holds && matches!(kind, Kind::Route | Kind::Service) {
        files::check(&admin.registry.files().static_roots, fields, &mut found);
    }
    match kind {
        Kind::Route => {
            check_vars(fields, &mut found);
            if schema_holds {
                check_addresses(value, &mut found);
            }
            if let Some(function) = fields.get("filter_func").and_then(Value::as_str)
                && let Err(why) = admin.registry.filters.compile(function)
            {
                found.push("/filter_func", why);
            }
            refuse_lua(fields, &["script"], &mut found);
        }
        Kind::Service => refuse_lua(fields, &["script"], &mut found),
        Kind::GlobalRule => {
            references::check_conflicts(admin, target.id, plugins, &mut found).await?;
        }
        _ => {}
    }
    Ok((found, unknown))
}

fn check_metadata(admin: &Admin, plugin: Option<&str>, value: &Value, found: &mut Mistakes) {
    match plugin.map(|name| admin.registry.check_metadata(name, value)) {
        Some(Some(report)) => found.report("invalid configuration: ", report),
        Some(None) => found.push("", "invalid plugin name"),
        None => found.push("", "missing plugin name"),
    }
}

/// Consumers and credentials: APISIX looks at what they refer to last.
async fn check_caller(
    admin: &Admin,
    candidate: Candidate<'_>,
    plugins: &PluginMap,
    (found, unknown): (&mut Mistakes, &mut Vec<String>),
) -> Result<(), StoreError> {
    let Candidate { target, fields, others } = candidate;
    let username = fields.get("username").and_then(Value::as_str);
    if target.kind == Kind::Consumer && target.id.is_some_and(|id| Some(id) != username) {
        found.push("/username", "wrong username");
    }
    plugins::check(&admin.registry, plugins, Side::Consumer, found, unknown);
    if target.kind == Kind::Credential {
        let known = plugins.keys().filter_map(|name| admin.registry.get(name));
        for def in known.filter(|def| !def.is_auth()) {
            let message = "only supports auth type plugins in consumer credential";
            found.push(format!("/plugins/{}", def.name), message);
        }
    }
    let owner = if target.kind == Kind::Consumer { username } else { target.parent };
    duplicates::check(admin, &target, owner, plugins, found).await?;
    if others {
        references::check_existence(admin, target.kind, fields, found).await?;
    }
    Ok(())
}

fn check_definitions(proto: &Map<String, Value>, found: &mut Mistakes) {
    let content = proto.get("content").and_then(Value::as_str).unwrap_or_default();
    if let Err(message) = Definitions::compile(content) {
        found.push("/content", format!("invalid content: {message}"));
    }
}

fn check_vars(fields: &Map<String, Value>, found: &mut Mistakes) {
    let Some(vars) = fields.get("vars").filter(|vars| vars.is_array() || vars.is_object()) else { return };
    let Err(errors) = Expr::compile(vars) else { return };
    let message = errors.first().map_or("", |error| error.message.as_str());
    found.push_as(
        format!("failed to validate the 'vars' expression: {message}"),
        errors.into_iter().map(|error| error.under("/vars")).collect(),
    );
}

/// Addresses that the schema's pattern lets pass (`:/8`); APISIX stores them, and then has no routes at all.
fn check_addresses(route: Value, found: &mut Mistakes) {
    let Ok(route) = serde_json::from_value::<Route>(route) else { return };
    let Err(errors) = Conditions::compile(&route) else { return };
    for error in errors.into_iter().filter(|error| error.path.starts_with("/remote_addr")) {
        found.push_as(format!("invalid configuration: {}", error.message), vec![error]);
    }
}

fn refuse_lua(fields: &Map<String, Value>, names: &[&str], found: &mut Mistakes) {
    for name in names.iter().filter(|name| fields.get(**name).is_some_and(Value::is_string)) {
        found.push(
            format!("/{name}"),
            format!("'{name}' is not supported: use a Lua plugin or serverless-pre-function"),
        );
    }
}
