//! The table as an example, as a reference page and as a JSON Schema for editors.

use super::{Effect, Key, Kind, below};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// `config.yaml` with every key that has an effect: defaults as they are, other keys commented out.
#[must_use]
pub fn example() -> String {
    let mut out = String::from(
        "# Every key that has an effect, with its default; keys without a default are commented out. Nothing here has to be\n\
         # written down: without a file the gateway starts with its defaults. `tidegate config schema --format example`\n\
         # prints this file; docs/reference/config.md explains the keys.\n",
    );
    section(&mut out, "", "", false);
    out
}

/// The same with a value at every key, for tests of those who read it.
#[cfg(test)]
pub(crate) fn everything() -> String {
    let mut out = String::new();
    section(&mut out, "", "", true);
    out
}

fn section(out: &mut String, path: &str, indent: &str, everything: bool) {
    for key in below(path).filter(|key| !matches!(key.effect, Effect::Nothing { .. })) {
        if path.is_empty() {
            out.push('\n');
        }
        let name = key.name();
        push(out, format_args!("{indent}# {}{}\n", key.about, remark(key)));
        if matches!(key.kind, Kind::Section | Kind::Open) {
            push(out, format_args!("{indent}{name}:\n"));
            section(out, key.path, &format!("{indent}  "), everything);
            continue;
        }
        for item in below(&format!("{}[]", key.path)) {
            push(out, format_args!("{indent}#   {}: {}\n", item.name(), item.about));
        }
        match (key.default, key.example) {
            (_, example) if everything && !example.is_empty() => {
                push(out, format_args!("{indent}{name}: {example}\n"));
            }
            ("", "") => push(out, format_args!("{indent}# {name}:\n")),
            ("", example) => push(out, format_args!("{indent}# {name}: {example}\n")),
            (default, _) => push(out, format_args!("{indent}{name}: {default}\n")),
        }
    }
}

fn remark(key: &Key) -> &'static str {
    match (key.own, key.effect) {
        (true, Effect::Restart) => " (Tidegate's own; restart)",
        (true, _) => " (Tidegate's own)",
        (false, Effect::Restart) => " (restart)",
        (false, _) => "",
    }
}

/// The reference page.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::from(
        "# Reference: config.yaml\n\n\
         Every key that is known, by section. `tidegate config schema --format markdown` prints this page, and\n\
         `tidegate config schema` a [JSON Schema](config.schema.json) for editors. [Configuration](../guide/configuration.md)\n\
         explains units, variables and what follows from the settings.\n\n\
         \"Takes effect\": `reload` is `tidegate reload`, which closes no connection; `restart` waits for the next start, and a\n\
         reload says so. Keys without effect are accepted because APISIX has them: a value that asks for something is a\n\
         warning of `tidegate test`. *Own* keys are Tidegate's.\n",
    );
    for top in below("") {
        push(&mut out, format_args!("\n## `{}`\n\n", top.path));
        let (with, without): (Vec<&Key>, Vec<&Key>) = super::all()
            .filter(|key| is_in(key, top))
            .partition(|key| !matches!(key.effect, Effect::Nothing { .. }));
        if !with.is_empty() {
            out.push_str(
                "| key | value | default | takes effect | since | meaning |\n|---|---|---|---|---|---|\n",
            );
        }
        for key in with {
            let default = if key.default.is_empty() { String::new() } else { code(key.default) };
            let effect = if key.effect == Effect::Restart { "restart" } else { "reload" };
            let own = if key.own { "*Own.* " } else { "" };
            let about = format!("{own}{}", capital(key.about));
            push(
                &mut out,
                format_args!(
                    "| `{}` | {} | {default} | {effect} | {} | {} |\n",
                    key.path,
                    cell(&words(key.kind)),
                    key.since,
                    cell(&about)
                ),
            );
        }
        if !without.is_empty() {
            out.push_str(
                "\n| without effect | what holds instead | accepted without a warning |\n|---|---|---|\n",
            );
        }
        for key in without {
            let Effect::Nothing { why, fulfilled } = key.effect else { continue };
            let values: Vec<String> =
                fulfilled.iter().filter(|word| !word.is_empty()).map(|word| code(word)).collect();
            push(
                &mut out,
                format_args!("| `{}` | {} | {} |\n", key.path, cell(&capital(why)), values.join(", ")),
            );
        }
    }
    out
}

/// Whether a row of the page stands below `top`: all keys but the sections themselves.
fn is_in(key: &Key, top: &Key) -> bool {
    let rest = key.path.strip_prefix(top.path);
    let inside = rest.is_some_and(|rest| rest.starts_with(['.', '[']) || rest.is_empty());
    inside && key.kind != Kind::Section
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn code(text: &str) -> String {
    cell(&format!("`{text}`"))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A kind in words.
fn words(kind: Kind) -> String {
    match kind {
        Kind::Section => "mapping".to_owned(),
        Kind::Open => "mapping by plugin".to_owned(),
        Kind::Free => "anything".to_owned(),
        Kind::Bool => "boolean".to_owned(),
        Kind::Switch => "`on`, `off`".to_owned(),
        Kind::Integer(low, high) if high >= i64::from(u32::MAX) => format!("integer from {low}"),
        Kind::Integer(low, high) => format!("integer, {low} to {high}"),
        Kind::Number => "number".to_owned(),
        Kind::Text => "string".to_owned(),
        Kind::Time => "time".to_owned(),
        Kind::Size => "size".to_owned(),
        Kind::Port => "port".to_owned(),
        Kind::Ip => "IP address".to_owned(),
        Kind::Network => "address or CIDR range".to_owned(),
        Kind::Words(choices) => choices.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::List(item) => format!("list: {}", words(*item)),
        Kind::Any(kinds) => kinds.iter().map(|kind| words(*kind)).collect::<Vec<_>>().join(", or "),
    }
}

/// The JSON Schema (draft 7), for editors that complete and check YAML.
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = mapping("", Kind::Section);
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "config.yaml of Tidegate and Apache APISIX".into();
    schema["definitions"] = json!({ "variable": { "type": "string", "pattern": "\\$\\{\\{.+\\}\\}" } });
    schema
}

/// The schema of the mapping at `path`.
fn mapping(path: &str, kind: Kind) -> Value {
    let properties: Map<String, Value> =
        below(path).map(|key| (key.name().to_owned(), property(key))).collect();
    let mut schema = json!({ "type": ["object", "null"], "properties": properties });
    if kind == Kind::Section {
        schema["additionalProperties"] = false.into();
    }
    schema
}

fn property(key: &Key) -> Value {
    let mut schema = match key.kind {
        Kind::Section | Kind::Open => mapping(key.path, key.kind),
        Kind::Free => json!({}),
        kind => {
            let mut any = alternatives(kind, key.path);
            any.push(json!({ "type": "null" }));
            json!({ "anyOf": any })
        }
    };
    schema["description"] = match key.effect {
        Effect::Nothing { why, .. } => format!("Without effect: {why}."),
        Effect::Restart => format!("{}. A change waits for a restart.", capital(key.about)),
        Effect::Reload => format!("{}.", capital(key.about)),
    }
    .into();
    if let Ok(default) = serde_saphyr::from_str::<Value>(key.default)
        && !key.default.is_empty()
    {
        schema["default"] = default;
    }
    schema
}

/// The forms that a value may have. `path` is the key's: items that are mappings have their keys below it.
fn alternatives(kind: Kind, path: &str) -> Vec<Value> {
    let or_variable = |schema: Value| vec![schema, json!({ "$ref": "#/definitions/variable" })];
    match kind {
        Kind::Section => vec![mapping(&format!("{path}[]"), kind)],
        Kind::Open | Kind::Free => vec![json!({})],
        Kind::Bool => or_variable(json!({ "type": "boolean" })),
        Kind::Switch => or_variable(json!({ "enum": ["on", "off", true, false] })),
        Kind::Integer(low, i64::MAX) => or_digits(json!({ "type": "integer", "minimum": low })),
        Kind::Integer(low, high) => or_digits(json!({ "type": "integer", "minimum": low, "maximum": high })),
        Kind::Number => or_variable(json!({ "type": "number" })),
        Kind::Text | Kind::Ip | Kind::Network => vec![json!({ "type": "string" })],
        Kind::Time => vec![json!({ "type": "number", "minimum": 0 }), json!({ "type": "string" })],
        Kind::Size => vec![json!({ "type": "integer", "minimum": 0 }), json!({ "type": "string" })],
        Kind::Port => or_digits(json!({ "type": "integer", "minimum": 0, "maximum": 65_535 })),
        Kind::Words(choices) => or_variable(json!({ "enum": choices })),
        Kind::List(item) => {
            vec![json!({ "type": "array", "items": { "anyOf": alternatives(*item, path) } })]
        }
        Kind::Any(kinds) => kinds.iter().flat_map(|kind| alternatives(*kind, path)).collect(),
    }
}

/// A number that may be a string of digits too, or a variable.
fn or_digits(schema: Value) -> Vec<Value> {
    vec![schema, json!({ "type": "string", "pattern": "^[0-9]+$|\\$\\{\\{" })]
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok(), "a String takes everything");
}
