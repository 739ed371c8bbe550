//! `idle-plugin`: a plugin that is configured and never runs.

use super::scene::{Scene, escaped};
use document::diagnostic::Code;
use document::{Diagnostic, Severity, codes};
use model::Kind;
use serde_json::Value;
use std::collections::HashMap;

const RULE: (Code, Severity) = (codes::IDLE_PLUGIN, Severity::Warning);

const LOAD: &str = "name it in `plugins` of config.yaml, or take it out here";
const LOAD_FOR_STREAMS: &str = "name it in `stream_plugins` of config.yaml, or take it out here";

pub(super) fn check(scene: &Scene<'_>, found: &mut Vec<Diagnostic>) {
    for item in scene.items().iter().filter(|item| item.kind != Kind::PluginMetadata) {
        let streams = scene.registry.streams().filter(|_| item.kind == Kind::StreamRoute);
        let (registry, advice) = streams.map_or((scene.registry, LOAD), |own| (own, LOAD_FOR_STREAMS));
        for (name, config) in item.plugins() {
            let place = format!("/plugins/{}", escaped(name));
            let meta = |field: &str| config.get("_meta").and_then(|meta| meta.get(field));
            let (path, message, advice) = if registry.get(name).is_none() || registry.is_disabled(name) {
                (place, format!("the plugin {name} is not loaded"), advice)
            } else if meta("disable") == Some(&Value::Bool(true)) {
                let path = format!("{place}/_meta/disable");
                (path, format!("{name} is switched off"), "take `_meta.disable` out, or the plugin")
            } else if item.kind == Kind::Route && !item.is_on() {
                let message = format!("{name} does not run: the route is switched off");
                (place, message, "set the route's status to 1, or delete it")
            } else if meta("filter").is_some_and(is_never) {
                let path = format!("{place}/_meta/filter");
                (path, format!("the filter of {name} is never true"), "correct the filter")
            } else {
                continue;
            };
            found.push(item.finding(RULE, path, message, advice));
        }
    }
}

/// Whether a list of conditions that must all hold contradicts itself: one variable is to equal two values, or one of
/// no values.
fn is_never(filter: &Value) -> bool {
    let Some(terms) = filter.as_array() else { return false };
    let terms = match terms.first().and_then(Value::as_str) {
        Some("AND") => &terms[1..],
        Some(_) => return false,
        None => terms.as_slice(),
    };
    let mut equal: HashMap<&str, &Value> = HashMap::new();
    for term in terms {
        let Some([name, operator, value]) = term.as_array().map(Vec::as_slice) else { continue };
        match (name.as_str(), operator.as_str()) {
            (Some(name), Some("==")) if equal.insert(name, value).is_some_and(|before| before != value) => {
                return true;
            }
            (Some(_), Some("in" | "IN")) if value.as_array().is_some_and(Vec::is_empty) => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;
    use serde_json::json;

    #[test]
    fn plugins_that_never_run_are_found() {
        let route = |config: Value| json!({"uri": "/", "plugins": {"limit-count": config}});
        let mut off = route(json!({}));
        off["status"] = json!(0);
        for (resource, expected) in [
            (route(json!({})), None),
            (route(json!({"_meta": {"disable": true}})), Some("/plugins/limit-count/_meta/disable")),
            (off, Some("/plugins/limit-count")),
            (json!({"plugins": {"no-such": {}}}), Some("/plugins/no-such")),
            (
                route(json!({"_meta": {"filter": [["arg_a", "==", "1"], ["arg_a", "==", "2"]]}})),
                Some("/plugins/limit-count/_meta/filter"),
            ),
            (
                route(json!({"_meta": {"filter": ["AND", ["arg_a", "in", []]]}})),
                Some("/plugins/limit-count/_meta/filter"),
            ),
            (route(json!({"_meta": {"filter": [["arg_a", "==", "1"], ["arg_b", "==", "2"]]}})), None),
            (route(json!({"_meta": {"filter": ["OR", ["arg_a", "==", "1"], ["arg_a", "==", "2"]]}})), None),
        ] {
            let places = found(check, &[("/routes/1", resource.clone())]);
            let paths: Vec<&str> = places.iter().map(|(_, path)| path.as_str()).collect();
            assert_eq!(paths, expected.into_iter().collect::<Vec<_>>(), "{resource}");
        }
    }
}
