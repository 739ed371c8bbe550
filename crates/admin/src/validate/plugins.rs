//! What the plugins say to their configurations.

use crate::validate::mistakes::Mistakes;
use model::{ConfigError, PluginMap};
use plugin::{Ingredients, Parent, Registry};
use serde_json::Value;

/// Where plugins stand: auth plugins are configured otherwise in consumers and credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// In routes, services and all that routes are made of.
    Route,
    /// In stream routes.
    Stream,
    /// In consumers and credentials.
    Consumer,
}

/// Checks each of a resource's `plugins`. Into `unknown` goes what plugins accept without knowing it.
pub(crate) fn check(
    registry: &Registry,
    plugins: &PluginMap,
    side: Side,
    found: &mut Mistakes,
    unknown: &mut Vec<String>,
) {
    let before = if side == Side::Consumer { "invalid plugins configuration: " } else { "" };
    for (name, config) in plugins {
        let pointer = format!("/plugins/{}", name.replace('~', "~0").replace('/', "~1"));
        if !config.is_object() && !config.is_array() {
            let message = format!("invalid plugin conf {config} for plugin [{name}]");
            found.push_as(format!("{before}{message}"), vec![ConfigError::new(pointer, message)]);
            continue;
        }
        let credential =
            side == Side::Consumer && registry.get(name).is_some_and(|def| def.has_credentials());
        let checked = if credential {
            registry.compile_credential(name, config).map(drop)
        } else {
            let parent = Parent { resource_key: "", config_version: 0 };
            registry.compile_one(name, config, Ingredients::default(), parent).map(drop)
        };
        match checked {
            // The schema that knows a credential's fields is the plugin's own.
            Ok(()) if credential => {}
            Ok(()) => {
                let fields = registry.unknown_fields(name, config);
                unknown.extend(fields.into_iter().map(|field| format!("{pointer}{field}")));
            }
            Err(errors) => {
                let first = first_line(registry, name, (config, credential, side), &errors);
                let errors = errors.into_iter().map(|error| error.under("/plugins")).collect();
                found.push_as(format!("{before}{first}"), errors);
            }
        }
    }
}

/// The mistake as APISIX words it: the schema's nested line, if it was the schema.
fn first_line(
    registry: &Registry,
    name: &str,
    (config, credential, side): (&Value, bool, Side),
    errors: &[ConfigError],
) -> String {
    let report = match credential {
        true => registry.check_consumer_config(name, config),
        false => registry.check_config(name, config),
    };
    let usual = format!("failed to check the configuration of plugin {name} err: ");
    let start = match side {
        Side::Stream => &format!("failed to check the configuration of stream plugin [{name}]: "),
        _ => &usual,
    };
    if let Some(line) = report.and_then(|report| report.first) {
        return format!("{start}{line}");
    }
    let Some(error) = errors.first() else { return String::new() };
    if error.path.contains("/_meta/filter") {
        return format!("failed to validate the 'vars' expression: {}", error.message);
    }
    match error.message.strip_prefix(&usual) {
        Some(line) => format!("{start}{line}"),
        None => error.message.clone(),
    }
}
