//! The schema of each kind of resource, and the check of a whole resource.

use super::rules::{self, Found};
use super::{Report, Validator, callers, definitions, route, secret, sets, ssl, stream_route, upstream};
use crate::resource::{
    AwsSecret, Consumer, ConsumerGroup, Credential, GcpSecret, GlobalRule, GraphqlCost, PluginConfig, Proto,
    Route, Service, Ssl, StreamRoute, Upstream, VaultSecret,
};
use crate::{ConfigError, Kind};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::LazyLock;

/// The JSON Schema of resources of this kind, as `GET /apisix/admin/schema/{kind}` shows it. What a secret's manager
/// wants is in [`secret_of`](super::secret_of).
#[must_use]
pub fn schema(kind: Kind) -> &'static Value {
    static ALL: LazyLock<Vec<(Kind, Value)>> =
        LazyLock::new(|| Kind::ALL.map(|kind| (kind, make(kind))).into());
    let known = ALL.iter().find(|(known, _)| *known == kind);
    known.map_or(&Value::Bool(true), |(_, schema)| schema)
}

fn make(kind: Kind) -> Value {
    match kind {
        Kind::Route => route::route(),
        Kind::Service => sets::service(),
        Kind::Upstream => upstream(),
        Kind::Consumer => callers::consumer(),
        Kind::Credential => callers::credential(),
        Kind::ConsumerGroup => callers::consumer_group(),
        Kind::Ssl => ssl::ssl(),
        Kind::StreamRoute => stream_route::stream_route(),
        Kind::PluginConfig => sets::plugin_config(),
        Kind::GlobalRule => sets::global_rule(),
        Kind::PluginMetadata => sets::plugin_metadata(),
        Kind::Proto => definitions::proto(),
        Kind::Secret => secret::secret(),
        Kind::GraphqlCost => definitions::graphql_cost(),
    }
}

/// The compiled form of [`schema`]. Its check alone is what `POST /apisix/admin/schema/validate/{kind}` asks for.
#[must_use]
pub fn validator(kind: Kind) -> &'static Validator {
    static ALL: LazyLock<Vec<Validator>> = LazyLock::new(|| {
        let compile = |kind| {
            Validator::compile(schema(kind)).expect("every resource schema compiles in this file's tests")
        };
        Kind::ALL.map(compile).into()
    });
    &ALL[Kind::ALL.iter().position(|known| *known == kind).unwrap_or(0)]
}

/// Checks a whole resource: its schema, the rules that a schema cannot say, and that it can be read as its type.
///
/// `first` of the report is the `error_msg` APISIX answers, with `invalid configuration: ` before it where APISIX puts
/// that. The id must stand in the value, since plugin configs and global rules require it.
#[must_use]
pub fn check_resource(kind: Kind, value: &Value) -> Report {
    examine(kind, value).map_or_else(|report| report, |filled| readable(kind, filled))
}

/// Reads a whole resource as its type `T`, after the checks of [`check_resource`]; Lua's empty tables, which are arrays
/// and objects in one, are read as what the schema expects.
///
/// # Errors
/// Every mistake, with its path in the resource.
pub fn read_resource<T: DeserializeOwned>(kind: Kind, value: &Value) -> Result<T, Vec<ConfigError>> {
    let filled = examine(kind, value).map_err(|report| report.errors)?;
    serde_json::from_value(filled).map_err(|error| vec![ConfigError::new("", error.to_string())])
}

/// The value with its defaults, where schema and rules accept it.
fn examine(kind: Kind, value: &Value) -> Result<Value, Report> {
    let mut found = Found::default();
    if kind == Kind::Route {
        rules::exclusive_fields(value, &mut found);
    }
    if kind == Kind::Upstream {
        rules::bracketed_nodes(value, "", &mut found);
    }
    let (report, filled) = match kind {
        Kind::Secret => match secret_validator(value, &mut found) {
            Some(validator) => validator.walk(value),
            None => return Err(found.into_report()),
        },
        kind => validator(kind).walk(value),
    };
    found.schema(report);
    let Some(filled) = filled else { return Err(found.into_report()) };
    match kind {
        Kind::Upstream => rules::upstream(&filled, "", &mut found),
        Kind::Route | Kind::Service | Kind::StreamRoute => {
            if let Some(upstream) = filled.get("upstream") {
                rules::bracketed_nodes(upstream, "/upstream", &mut found);
                rules::upstream(upstream, "/upstream", &mut found);
            }
        }
        Kind::Ssl => rules::certificate_pairs(&filled, &mut found),
        _ => {}
    }
    let report = found.into_report();
    if report.is_ok() { Ok(filled) } else { Err(report) }
}

/// The fields that the schema accepts without knowing them, as JSON pointers. What stands in `plugins` is the plugins'.
#[must_use]
pub fn unknown_fields(kind: Kind, value: &Value) -> Vec<String> {
    let secret = || secret::validator_of(manager(value));
    let validator = if kind == Kind::Secret { secret() } else { Some(validator(kind)) };
    let mut unknown = validator.map_or_else(Vec::new, |validator| validator.unknown_fields(value));
    // The Admin API's own, of which the managers' schemas don't speak.
    if kind == Kind::Secret {
        unknown.retain(|field| !["/id", "/create_time", "/update_time"].contains(&field.as_str()));
    }
    unknown
}

/// What checks a secret: its id says of which manager it is.
fn secret_validator(value: &Value, found: &mut Found) -> Option<&'static Validator> {
    let validator = secret::validator_of(manager(value));
    if validator.is_none() {
        found.bare("/id".to_owned(), format!("invalid secret manager: {}", manager(value)));
    }
    let id = value.get("id").and_then(Value::as_str).unwrap_or_default();
    if id.ends_with("/.") || id.ends_with("/..") {
        found.bare("/id".to_owned(), format!("invalid secret id: {id}"));
    }
    validator
}

/// The manager that a secret's id begins with.
fn manager(secret: &Value) -> &str {
    let id = secret.get("id").and_then(Value::as_str).unwrap_or_default();
    id.split_once('/').map_or(id, |(manager, _)| manager)
}

/// What passes so far can be read as its type; the rest are values that APISIX takes and then cannot use, such as a
/// weight beyond 32 bits.
fn readable(kind: Kind, value: Value) -> Report {
    let read = match kind {
        Kind::Route => unreadable::<Route>(value),
        Kind::Service => unreadable::<Service>(value),
        Kind::Upstream => unreadable::<Upstream>(value),
        Kind::Consumer => unreadable::<Consumer>(value),
        Kind::Credential => unreadable::<Credential>(value),
        Kind::ConsumerGroup => unreadable::<ConsumerGroup>(value),
        Kind::Ssl => unreadable::<Ssl>(value),
        Kind::StreamRoute => unreadable::<StreamRoute>(value),
        Kind::PluginConfig => unreadable::<PluginConfig>(value),
        Kind::GlobalRule => unreadable::<GlobalRule>(value),
        Kind::PluginMetadata => None,
        Kind::Proto => unreadable::<Proto>(value),
        Kind::Secret => match manager(&value) {
            "vault" => unreadable::<VaultSecret>(value),
            "aws" => unreadable::<AwsSecret>(value),
            _ => unreadable::<GcpSecret>(value),
        },
        Kind::GraphqlCost => unreadable::<GraphqlCost>(value),
    };
    let Some(error) = read else { return Report::default() };
    let message = error.to_string();
    let first = Some(format!("invalid configuration: {message}"));
    Report { errors: vec![ConfigError::new("", message)], first }
}

fn unreadable<T: DeserializeOwned>(value: Value) -> Option<serde_json::Error> {
    serde_json::from_value::<T>(value).err()
}

#[cfg(test)]
mod tests;
