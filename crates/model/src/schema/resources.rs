//! The schema of each kind of resource, and the check of a whole resource.

use super::rules::{self, Found};
use super::{Report, Validator, route, sets, upstream};
use crate::resource::{GlobalRule, PluginConfig, Route, Service, Upstream};
use crate::{ConfigError, Kind};
use serde_json::Value;
use std::sync::LazyLock;

/// The JSON Schema of resources of this kind, as `GET /apisix/admin/schema/{kind}` shows it.
#[must_use]
pub fn schema(kind: Kind) -> &'static Value {
    static ROUTE: LazyLock<Value> = LazyLock::new(route::route);
    static SERVICE: LazyLock<Value> = LazyLock::new(sets::service);
    static UPSTREAM: LazyLock<Value> = LazyLock::new(upstream);
    static PLUGIN_CONFIG: LazyLock<Value> = LazyLock::new(sets::plugin_config);
    static GLOBAL_RULE: LazyLock<Value> = LazyLock::new(sets::global_rule);
    static PLUGIN_METADATA: LazyLock<Value> = LazyLock::new(sets::plugin_metadata);
    match kind {
        Kind::Route => &ROUTE,
        Kind::Service => &SERVICE,
        Kind::Upstream => &UPSTREAM,
        Kind::PluginConfig => &PLUGIN_CONFIG,
        Kind::GlobalRule => &GLOBAL_RULE,
        Kind::PluginMetadata => &PLUGIN_METADATA,
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
    let mut found = Found::default();
    if kind == Kind::Route {
        rules::exclusive_fields(value, &mut found);
    }
    if kind == Kind::Upstream {
        rules::bracketed_nodes(value, "", &mut found);
    }
    let (report, filled) = validator(kind).walk(value);
    found.schema(report);
    let Some(filled) = filled else { return found.into_report() };
    match kind {
        Kind::Upstream => rules::upstream(&filled, "", &mut found),
        Kind::Route | Kind::Service => {
            if let Some(upstream) = filled.get("upstream") {
                rules::bracketed_nodes(upstream, "/upstream", &mut found);
                rules::upstream(upstream, "/upstream", &mut found);
            }
        }
        Kind::PluginConfig | Kind::GlobalRule | Kind::PluginMetadata => {}
    }
    let report = found.into_report();
    if report.is_ok() { readable(kind, filled) } else { report }
}

/// What passes so far can be read as its type; the rest are values that APISIX takes and then cannot use, such as a
/// weight beyond 32 bits.
fn readable(kind: Kind, value: Value) -> Report {
    let read = match kind {
        Kind::Route => serde_json::from_value::<Route>(value).err(),
        Kind::Service => serde_json::from_value::<Service>(value).err(),
        Kind::Upstream => serde_json::from_value::<Upstream>(value).err(),
        Kind::PluginConfig => serde_json::from_value::<PluginConfig>(value).err(),
        Kind::GlobalRule => serde_json::from_value::<GlobalRule>(value).err(),
        Kind::PluginMetadata => None,
    };
    let Some(error) = read else { return Report::default() };
    let message = error.to_string();
    let first = Some(format!("invalid configuration: {message}"));
    Report { errors: vec![ConfigError::new("", message)], first }
}

#[cfg(test)]
mod tests;
