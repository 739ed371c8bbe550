//! `plugins`, `stream_plugins` and `plugin_attr`.

use super::listening::Ports;
use crate::reader::{Field, Section};
use crate::settings::Metrics;
use document::Value;
use document::codes;

/// A list of plugin names. The key with nothing behind it is an empty list, as in APISIX.
pub(super) fn names(root: &Section<'_>, key: &str) -> Option<Vec<String>> {
    match root.texts(key) {
        None if root.is_emptied(key) => Some(Vec::new()),
        names => names,
    }
}

/// Warns of names in the list at `key` that are none of `built_in`: of one that is most likely misspelt by itself, and of
/// the others, which APISIX has, in one line. `in_lua` says whether a module in Lua has a name. Without built-in plugins
/// nothing is checked.
pub(super) fn check_names(root: &Section<'_>, key: &str, built_in: &[String], in_lua: impl Fn(&str) -> bool) {
    if built_in.is_empty() {
        return;
    }
    let mut missing = Vec::new();
    for item in root.list(key).unwrap_or_default() {
        let is_known = |name: &str| built_in.iter().any(|known| known == name) || in_lua(name);
        let Some(name) = item.text().filter(|name| !is_known(name)) else {
            continue;
        };
        // Names of APISIX's plugins lie two letters from each other; a typing error is one.
        match built_in.iter().find(|other| strsim::damerau_levenshtein(name, other) == 1) {
            Some(near) => {
                item.warn(
                    codes::UNKNOWN_PLUGIN,
                    format!("unknown plugin {name}, left out"),
                    format!("did you mean {near}?"),
                );
            }
            None => missing.push(name),
        }
    }
    if let (false, Some(field)) = (missing.is_empty(), root.field(key)) {
        field.warn(
            codes::UNKNOWN_PLUGIN,
            format!("plugins that are not built in are left out: {}", missing.join(", ")),
            "remove them: a resource that uses one is refused",
        );
    }
}

/// By plugin, its attributes as JSON.
pub(super) fn attributes(root: &Section<'_>) -> serde_json::Map<String, serde_json::Value> {
    match root.field("plugin_attr").map(|field| field.json()) {
        Some(serde_json::Value::Object(attributes)) => attributes,
        // Anything else was reported when the section was read.
        _ => serde_json::Map::new(),
    }
}

/// The metrics server. Other attributes of the same section are left to whoever makes the metrics.
pub(super) fn metrics<'a>(section: &Section<'a>, ports: &mut Ports<'a>) -> Metrics {
    let default = Metrics::default();
    let enabled = section.bool("enable_export_server", true);
    let (address, field) = section
        .section("export_addr")
        .address(default.listen.unwrap_or_else(|| crate::settings::loopback(0)));
    if enabled {
        ports.claim("the metrics server", address, field);
    }
    Metrics {
        listen: enabled.then_some(address),
        uri: section.field("export_uri").and_then(|field| uri(&field)).unwrap_or(default.uri),
        prefix: section.field("metric_prefix").and_then(|field| prefix(&field)).unwrap_or(default.prefix),
        buckets: section
            .field("default_buckets")
            .and_then(|field| buckets(&field))
            .unwrap_or(default.buckets),
    }
}

fn uri(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    if !text.starts_with('/') {
        return field.fail(format!("a path begins with a slash, found {text:?}"), format!("write /{text}"));
    }
    Some(text.to_owned())
}

/// The data model of the exposition format: letters, digits, `_` and `:`, no digit first.
fn prefix(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let valid = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
    if !valid || text.starts_with(|c: char| c.is_ascii_digit()) {
        return field
            .fail(format!("{text:?} can't begin a metric's name"), "use letters, digits and underscores");
    }
    Some(text.to_owned())
}

fn buckets(field: &Field<'_>) -> Option<Vec<f64>> {
    let items = field.list()?;
    let mut bounds: Vec<f64> = Vec::with_capacity(items.len());
    for item in &items {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds beyond 2^53 are no latency")]
        let bound = match item.value() {
            Value::Int(number) => *number as f64,
            Value::Float(number) => *number,
            _ => return item.fail("expected a number of milliseconds", "write it without a unit"),
        };
        if bounds.last().is_some_and(|last| *last >= bound) {
            return item.fail("bounds must ascend", "sort them and remove duplicates");
        }
        bounds.push(bound);
    }
    if bounds.is_empty() {
        return field.fail("default_buckets must not be empty", "remove the key to have the default bounds");
    }
    Some(bounds)
}
