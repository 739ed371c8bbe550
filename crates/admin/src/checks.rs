//! Whether a resource may be written: everything APISIX checks, in its order, and all mistakes at once.
//!
//! Lua in a resource (`filter_func`, `script`) is code that the Admin API would run; it is refused, since this gateway
//! has no Lua host yet. So is an upstream that wants another protocol than HTTP/1.1 in the clear: what is meant to be
//! encrypted must not be sent as it is.

use crate::mistakes::Mistakes;
use crate::{Admin, AdminResponse, plugin_checks, references};
use model::resource::Scheme;
use model::schema::check_resource;
use model::{Kind, PluginMap, Route};
use router::{Conditions, Expr};
use serde_json::{Map, Value};
use store::StoreError;

/// A resource to be checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its id; none yet before a POST.
    pub id: Option<&'a str>,
    /// The resource, with its id.
    pub fields: &'a Map<String, Value>,
    /// Whether what it refers to must exist.
    pub references: bool,
}

/// The fields that its plugins accept without knowing them, as JSON pointers.
pub(crate) async fn check(admin: &Admin, candidate: Candidate<'_>) -> Result<Vec<String>, AdminResponse> {
    let (mistakes, unknown) = mistakes(admin, candidate).await?;
    if mistakes.any() { Err(mistakes.refusal()) } else { Ok(unknown) }
}

/// All that is wrong with it, and the fields that its plugins accept without knowing them.
pub(crate) async fn mistakes(
    admin: &Admin,
    candidate: Candidate<'_>,
) -> Result<(Mistakes, Vec<String>), StoreError> {
    let Candidate { kind, id, fields, .. } = candidate;
    let mut found = Mistakes::default();
    let mut unknown = Vec::new();
    let value = Value::Object(fields.clone());
    if kind == Kind::PluginMetadata {
        match id.and_then(|name| admin.registry.check_metadata(name, &value)) {
            Some(report) => found.report("invalid configuration: ", report),
            None => found.push("", if id.is_some() { "invalid plugin name" } else { "missing plugin name" }),
        }
        return Ok((found, unknown));
    }
    found.report("", check_resource(kind, &value));
    let schema_holds = !found.any();
    if candidate.references {
        references::check_existence(admin, kind, fields, &mut found).await?;
    }
    let none = PluginMap::new();
    let plugins = fields.get("plugins").and_then(Value::as_object).unwrap_or(&none);
    plugin_checks::check(&admin.registry, plugins, &mut found, &mut unknown);
    match kind {
        Kind::Route => {
            check_vars(fields, &mut found);
            if schema_holds {
                check_addresses(value, &mut found);
            }
            refuse_lua(fields, &["filter_func", "script"], &mut found);
        }
        Kind::Service => refuse_lua(fields, &["script"], &mut found),
        Kind::Upstream => refuse_scheme(fields, "", &mut found),
        Kind::GlobalRule => references::check_conflicts(admin, id, plugins, &mut found).await?,
        _ => {}
    }
    if let Some(upstream) = fields.get("upstream").and_then(Value::as_object) {
        refuse_scheme(upstream, "/upstream", &mut found);
    }
    Ok((found, unknown))
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
        found.push(format!("/{name}"), format!("'{name}' is Lua code, and this gateway has no Lua host yet"));
    }
}

fn refuse_scheme(upstream: &Map<String, Value>, path: &str, found: &mut Mistakes) {
    let Some(scheme) = upstream.get("scheme").and_then(Value::as_str) else { return };
    if scheme != Scheme::default().as_str() {
        let message = format!("'{scheme}' is not spoken to upstreams yet; 'http' is");
        found.push(format!("{path}/scheme"), message);
    }
}
