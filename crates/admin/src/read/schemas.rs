//! What may be configured: the schemas of resources and plugins, the plugins there are, and a check without a write.

use crate::http::args::Args;
use crate::http::body::body;
use crate::http::manner::Manner;
use crate::http::respond::Answer;
use crate::http::target::unsupported;
use crate::validate::mistakes::Mistakes;
use crate::{Admin, AdminRequest, AdminResponse};
use model::Kind;
use model::schema::{parts, schema, secret_of, unknown_fields, validator};
use plugin::{PluginDef, Registry};
use serde_json::{Map, Value, json};

/// `GET /plugins/list`: names, those that run first first.
pub(crate) fn plugin_names(admin: &Admin, args: &Args) -> Answer {
    let Some(registry) = subsystem(admin, args) else {
        return Err(AdminResponse::text(400, "invalid subsystem passed"));
    };
    let names: Vec<_> = registry.all().iter().map(|def| def.name.to_string()).collect();
    Ok(AdminResponse::json(200, &json!(names)))
}

/// The plugins of the subsystem that is asked for; HTTP's where none is named.
fn subsystem<'a>(admin: &'a Admin, args: &Args) -> Option<&'a Registry> {
    match args.get("subsystem").unwrap_or("http") {
        "http" => Some(&admin.registry),
        "stream" => admin.registry.streams(),
        _ => None,
    }
}

/// `GET` below `/schema` and `/plugins`.
pub(crate) fn read(admin: &Admin, below: &str, names: &[&str], args: &Args) -> Answer {
    match (below, names) {
        ("schema", ["plugins", names @ ..]) | ("plugins", names) => {
            plugin_schema(admin, names.first().copied().unwrap_or_default(), args)
        }
        (_, names) => {
            let name = names.first().copied().unwrap_or_default();
            match resource_schema(name, names.get(1).copied()) {
                Some(schema) => Ok(AdminResponse::json(200, &schema)),
                None => Err(AdminResponse::error(400, format!("not found schema: {name}"))),
            }
        }
    }
}

/// The schema of one kind of resource, or of a part that APISIX shows as well; of secrets that of a manager, if asked.
fn resource_schema(name: &str, manager: Option<&str>) -> Option<Value> {
    match (name, manager) {
        ("id_schema", _) => return Some(parts::id()),
        ("plugins", _) => return Some(parts::plugins()),
        ("secret", Some(manager)) => return secret_of(manager),
        _ => {}
    }
    let kind = Kind::ALL.into_iter().find(|kind| kind.noun().replace(' ', "_") == name)?;
    Some(schema(kind).clone())
}

/// `POST /schema/validate/{collection}`: the schema alone, as in APISIX; nothing is looked up and no plugin asked. All
/// mistakes are named.
pub(crate) fn validate(admin: &Admin, request: &AdminRequest, args: &Args, collection: &str) -> Answer {
    let kind = Kind::from_collection(collection).ok_or_else(|| unsupported(collection))?;
    let Some(body) = body(admin, request)? else {
        return Err(AdminResponse::error(400, "wrong type: expected object, got nil"));
    };
    let mut found = Mistakes::default();
    found.report("", validator(kind).check(&body));
    let unknown = unknown_fields(kind, &body);
    if Manner::of(request, args).strict {
        found.unknown(&unknown);
    }
    if found.any() { Err(found.refusal(true)) } else { Ok(AdminResponse::empty(200).warned(&unknown)) }
}

fn plugin_schema(admin: &Admin, name: &str, args: &Args) -> Answer {
    let asked = args.get("subsystem").unwrap_or("http");
    let Some(registry) = subsystem(admin, args) else {
        return Err(AdminResponse::error(400, format!("unsupported subsystem: {asked}")));
    };
    if args.get("all") == Some("true") {
        let all = registry.all().into_iter();
        let all: Map<_, _> = all.map(|def| (def.name.to_string(), properties(registry, &def))).collect();
        return Ok(AdminResponse::json(200, &Value::Object(all)));
    }
    let Some(def) = registry.get(name) else {
        return Err(AdminResponse::error(404, format!("plugin not found in subsystem {asked}")));
    };
    let schema = match args.get("schema_type") {
        Some("consumer") => registry.consumer_schema(&def.name),
        Some("metadata") => registry.metadata_schema(&def.name),
        _ => registry.schema(&def.name),
    };
    match schema {
        Some(schema) => Ok(AdminResponse::json(200, schema)),
        None => Err(AdminResponse::error(400, "not found schema")),
    }
}

/// A plugin as `?all=true` shows it.
fn properties(registry: &Registry, def: &PluginDef) -> Value {
    let mut shown = json!({
        "version": 0.1,
        "priority": def.priority,
        "schema": registry.schema(&def.name),
        "metadata_schema": registry.metadata_schema(&def.name),
    });
    if let Some(schema) = registry.consumer_schema(&def.name) {
        shown["consumer_schema"] = schema.clone();
        shown["type"] = json!("auth");
    }
    shown
}
