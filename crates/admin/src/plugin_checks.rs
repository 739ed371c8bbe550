//! What the plugins say to their configurations.

use crate::mistakes::Mistakes;
use model::{ConfigError, PluginMap};
use plugin::{Parent, Registry};
use serde_json::Value;

/// Checks each of a resource's `plugins`. Into `unknown` goes what plugins accept without knowing it.
pub(crate) fn check(
    registry: &Registry,
    plugins: &PluginMap,
    found: &mut Mistakes,
    unknown: &mut Vec<String>,
) {
    for (name, config) in plugins {
        let pointer = format!("/plugins/{}", name.replace('~', "~0").replace('/', "~1"));
        if !config.is_object() && !config.is_array() {
            let message = format!("invalid plugin conf {config} for plugin [{name}]");
            found.push(pointer, message);
            continue;
        }
        let parent = Parent { resource_key: "", config_version: 0 };
        match registry.compile_one(name, config, None, parent) {
            Ok(_) => {
                let fields = registry.unknown_fields(name, config);
                unknown.extend(fields.into_iter().map(|field| format!("{pointer}{field}")));
            }
            Err(errors) => {
                let first = first_line(registry, name, config, &errors);
                found.push_as(first, errors.into_iter().map(|error| error.under("/plugins")).collect());
            }
        }
    }
}

/// The mistake as APISIX words it: the schema's nested line, if it was the schema.
fn first_line(registry: &Registry, name: &str, config: &Value, errors: &[ConfigError]) -> String {
    if let Some(line) = registry.check_config(name, config).and_then(|report| report.first) {
        return format!("failed to check the configuration of plugin {name} err: {line}");
    }
    let Some(error) = errors.first() else { return String::new() };
    if error.path.contains("/_meta/filter") {
        return format!("failed to validate the 'vars' expression: {}", error.message);
    }
    error.message.clone()
}
