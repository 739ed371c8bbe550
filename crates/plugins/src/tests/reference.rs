//! The pages of `docs/reference/plugins`: one for each plugin, made of its module documentation and its schemas.

use super::{
    documentation,
    meanings::{MEANINGS, meaning},
    registry,
};
use crate::{all, stream};
use plugin::{Hooks, PluginDef};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How deep fields of fields are listed. What is deeper is a schema of its own, such as an upstream.
const DEPTH_MAX: usize = 4;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/plugins")
}

/// The hooks of the plugin's documented example.
fn hooks(list: Vec<PluginDef>, name: &str) -> Hooks {
    let registry = registry(list);
    let text = documentation(name);
    let example =
        text.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let example: Value = serde_json::from_str(example).expect("the example is JSON");
    let parent = plugin::Parent { resource_key: "/routes/1", config_version: 1 };
    let compiled = registry.compile_one(name, &example[name], plugin::Ingredients::default(), parent);
    compiled.unwrap_or_else(|errors| panic!("{name}: {errors:?}")).hooks().clone()
}

/// The phases of requests in which the plugin runs.
fn phases(hooks: &Hooks) -> String {
    listed(&[
        ("rewrite", hooks.rewrite.is_some()),
        ("access", hooks.access.is_some()),
        ("before_proxy", hooks.before_proxy.is_some()),
        ("response", hooks.response.is_some()),
        ("log", hooks.log.is_some()),
    ])
}

/// The phases of stream sessions in which the plugin runs.
fn stream_phases(hooks: &Hooks) -> String {
    listed(&[("preread", hooks.preread.is_some()), ("log", hooks.stream_log.is_some())])
}

fn listed(phases: &[(&str, bool)]) -> String {
    phases.iter().filter(|(_, runs)| *runs).map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// A value as code in a table's cell.
fn code(value: &Value) -> String {
    format!("`{}`", value.to_string().replace('|', "\\|"))
}

fn alternatives(schema: &Value) -> Option<&Vec<Value>> {
    ["oneOf", "anyOf"].iter().find_map(|key| schema.get(key)?.as_array())
}

/// The type: `integer`, `string or integer`, `array of strings`.
fn kind(schema: &Value) -> String {
    if schema.get("enum").is_some() || schema.get("const").is_some() {
        return "enum".to_owned();
    }
    match schema.get("type") {
        Some(Value::String(name)) if name == "array" => match schema.get("items").map(kind) {
            Some(item) if item != "any" => format!("array of {item}"),
            _ => "array".to_owned(),
        },
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => {
            let mut kinds: Vec<String> = Vec::new();
            for kind in alternatives(schema).into_iter().flatten().map(kind) {
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            if kinds.is_empty() { "any".to_owned() } else { kinds.join(" or ") }
        }
    }
}

/// What values of the type are valid.
fn bounds(schema: &Value) -> String {
    let mut parts = Vec::new();
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        parts.push(values.iter().map(code).collect::<Vec<_>>().join(", "));
    }
    parts.extend(schema.get("const").map(code));
    for (key, words) in [
        ("minimum", "at least"),
        ("exclusiveMinimum", "above"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "below"),
        ("minLength", "characters: at least"),
        ("maxLength", "characters: at most"),
        ("minItems", "items: at least"),
        ("maxItems", "items: at most"),
        ("minProperties", "members: at least"),
        ("pattern", "matches"),
    ] {
        match schema.get(key) {
            Some(bound @ Value::String(_)) => parts.push(format!("{words} {}", code(bound))),
            Some(bound) => parts.push(format!("{words} {bound}")),
            None => {}
        }
    }
    if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
        parts.push("no item twice".to_owned());
    }
    for item in ["items", "additionalProperties"].iter().filter_map(|key| schema.get(key)) {
        let inner = bounds(item);
        if !inner.is_empty() {
            parts.push(format!("each: {inner}"));
        }
    }
    for inner in alternatives(schema).into_iter().flatten().map(bounds) {
        if !inner.is_empty() && !parts.contains(&inner) {
            parts.push(inner);
        }
    }
    parts.join("; ")
}

/// One row of a table of fields.
fn row(plugin: &str, path: &str, field: &Value, required: bool) -> String {
    let default = field.get("default").map(code).unwrap_or_default();
    let default = if required { "required".to_owned() } else { default };
    let text = field
        .get("description")
        .and_then(Value::as_str)
        .or_else(|| meaning(plugin, path))
        .unwrap_or_default();
    let text = text.replace('\n', " ").replace('|', "\\|");
    format!("| `{path}` | {} | {default} | {} | {text} |\n", kind(field), bounds(field))
}

/// The fields of an object in rows, with those of objects inside it.
fn rows(plugin: &str, schema: &Value, prefix: &str, depth: usize, out: &mut String) {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, field) in properties.into_iter().flatten().filter(|(name, _)| *name != "_meta") {
        let path = format!("{prefix}{name}");
        // A condition on a field that is listed already.
        let condition = ["enum", "const", "pattern"];
        if field.as_object().is_none_or(|field| field.keys().all(|key| condition.contains(&&**key))) {
            continue;
        }
        out.push_str(&row(plugin, &path, field, required.contains(&&**name)));
        if depth == DEPTH_MAX || name == "upstream" {
            continue;
        }
        rows(plugin, field, &format!("{path}."), depth + 1, out);
        let mut item = field.get("items");
        let mut path = path;
        while let Some(inner) = item {
            path.push_str("[]");
            rows(plugin, inner, &format!("{path}."), depth + 1, out);
            item = inner.get("items");
        }
        for inner in alternatives(field).into_iter().flatten() {
            rows(plugin, inner, &format!("{path}."), depth + 1, out);
        }
    }
}

const HEADER: &str = "| field | type | default | valid values | meaning |\n|---|---|---|---|---|\n";

/// `schema`'s fields, and those that depend on others under headings of their own.
fn fields(plugin: &str, schema: &Value, out: &mut String) {
    let mut table = String::new();
    rows(plugin, schema, "", 0, &mut table);
    if table.is_empty() {
        out.push_str("None.\n");
    } else {
        out.push_str(HEADER);
        out.push_str(&table);
    }
    out.push_str(&needs(schema));
    let mut branch = Some(schema);
    let parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
    let mut branches: Vec<&Value> = parts.filter(|part| part.get("if").is_some()).collect();
    while let Some(inner) = branch.filter(|inner| inner.get("if").is_some()) {
        branches.push(inner);
        branch = inner.get("else");
    }
    for part in branches {
        let mut table = String::new();
        rows(plugin, &part["then"], "", 0, &mut table);
        if !table.is_empty() {
            let _ = write!(out, "\nWith {}:\n\n{HEADER}{table}", condition(&part["if"]));
        }
    }
}

/// `policy` is `redis`.
fn condition(schema: &Value) -> String {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let each = properties.map(|(name, value)| {
        let values = value.get("enum").and_then(Value::as_array).cloned();
        let values = values.or_else(|| Some(vec![value.get("const")?.clone()])).unwrap_or_default();
        let values: Vec<String> = values.iter().map(|value| value.to_string().replace('"', "")).collect();
        format!("`{name}` `{}`", values.join("` or `"))
    });
    each.collect::<Vec<_>>().join(" and ")
}

/// Which of several sets of fields a configuration needs.
fn needs(schema: &Value) -> String {
    let mut out = String::new();
    for (key, words) in [("oneOf", "Exactly one"), ("anyOf", "At least one")] {
        let sets = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        let sets: Vec<String> = sets
            .filter_map(|set| {
                let names = set.get("required")?.as_array()?.iter().filter_map(Value::as_str);
                Some(names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" with "))
            })
            .collect();
        if !sets.is_empty() {
            let _ = writeln!(out, "\n{words} of these is required: {}.", sets.join("; "));
        }
    }
    out
}

/// What the page says before its first heading. `http` and `streams` are the hooks on routes and on stream routes.
fn facts(def: &PluginDef, http: Option<&Hooks>, streams: Option<&Hooks>) -> String {
    let mut out = String::from("| | |\n|---|---|\n");
    let _ = writeln!(out, "| Priority | {} |", def.priority);
    if let Some(hooks) = http {
        let _ = writeln!(out, "| Phases on routes | {} |", phases(hooks));
    }
    if let Some(hooks) = streams {
        let _ = writeln!(out, "| Phases on stream routes | {} |", stream_phases(hooks));
    }
    if !def.encrypt_fields.is_empty() {
        let fields: Vec<String> = def.encrypt_fields.iter().map(|field| format!("`{field}`")).collect();
        let _ = writeln!(out, "| Fields stored encrypted | {} |", fields.join(", "));
    }
    out
}

/// The page of a plugin.
fn page(def: &PluginDef, http: Option<&Hooks>, streams: Option<&Hooks>) -> String {
    let text = documentation(&def.name);
    let (before, differences) = text.split_once("## Differences from APISIX").expect("tested elsewhere");
    let (purpose, rest) = before.split_once("## ").expect("tested elsewhere");
    let mut out = format!("# {}\n\n{}\n\n{}\n", def.name, purpose.trim(), facts(def, http, streams));
    let _ = write!(out, "## {}\n\n## Fields\n\n", rest.trim());
    fields(&def.name, &def.schema, &mut out);
    if let Some(consumer) = &def.consumer {
        out.push_str("\n## Fields in consumers and credentials\n\n");
        fields(&def.name, &consumer.schema, &mut out);
    }
    if let Some(metadata) = &def.metadata_schema {
        out.push_str("\n## Plugin metadata\n\n");
        fields(&def.name, metadata, &mut out);
    }
    let _ = write!(out, "\n## Differences from APISIX\n{}\n", differences.trim_end());
    out
}

/// The list of all plugins.
fn index(pages: &BTreeMap<String, (i32, String, bool, bool)>) -> String {
    let mut out = String::from(
        "# Plugins\n\n\
        One page for each plugin, made from its source: `TIDEGATE_WRITE_DOCS=1 cargo test -p plugins reference`\n\
        writes them. Every field that every plugin has (`_meta`) is described below the table. Within a phase, plugins\n\
        run from the highest priority to the lowest.\n\n\
        | plugin | priority | HTTP | streams | purpose |\n|---|---|---|---|---|\n",
    );
    let mark = |on| if on { "yes" } else { "" };
    for (name, (priority, purpose, http, stream)) in pages {
        let _ = writeln!(
            out,
            "| [{name}]({name}.md) | {priority} | {} | {} | {purpose} |",
            mark(*http),
            mark(*stream)
        );
    }
    out.push_str("\n## Fields of `_meta`\n\n");
    fields("_meta", &plugin::Meta::schema(), &mut out);
    out
}

fn write_or_compare(path: &Path, made: &str) {
    if std::env::var_os("TIDEGATE_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
        std::fs::write(path, made).expect("the page is written");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == made,
        "{} is not current: TIDEGATE_WRITE_DOCS=1 cargo test -p plugins reference",
        path.display()
    );
}

/// All pages by the names of their files.
fn pages() -> BTreeMap<String, String> {
    let (http, streams) = (all(), stream());
    let mut pages = BTreeMap::new();
    let mut listed = BTreeMap::new();
    for def in http.iter().chain(&streams) {
        let name = def.name.to_string();
        if pages.contains_key(&format!("{name}.md")) {
            continue;
        }
        let on = |list: &[PluginDef]| list.iter().any(|other| other.name == def.name);
        let hooks_http = on(&http).then(|| hooks(all(), &name));
        let hooks_streams = on(&streams).then(|| hooks(stream(), &name));
        let made = page(def, hooks_http.as_ref(), hooks_streams.as_ref());
        let purpose = made.split("\n\n").nth(1).expect("a purpose").replace('\n', " ");
        listed.insert(name.clone(), (def.priority, purpose, hooks_http.is_some(), hooks_streams.is_some()));
        pages.insert(format!("{name}.md"), made);
    }
    pages.insert("README.md".to_owned(), index(&listed));
    pages
}

#[test]
fn the_reference_is_what_the_plugins_say() {
    let pages = pages();
    for (name, made) in &pages {
        write_or_compare(&folder().join(name), made);
    }
    for file in std::fs::read_dir(folder()).expect("the folder") {
        let name = file.expect("an entry").file_name().to_string_lossy().into_owned();
        assert!(pages.contains_key(&name), "{name} is the page of no plugin");
    }
}

#[test]
fn every_field_of_a_plugin_says_what_it_means() {
    let mut silent = Vec::new();
    for (file, page) in pages() {
        let rows = page.lines().filter(|line| line.starts_with("| `") && line.ends_with("|  |"));
        silent.extend(rows.map(|row| format!("{file}: {}", row.split(" | ").next().unwrap_or_default())));
    }
    assert!(silent.is_empty(), "{} fields without a description:\n{}", silent.len(), silent.join("\n"));
}

#[test]
fn every_meaning_is_used() {
    let pages: String = pages().into_values().collect();
    let unused: Vec<_> =
        MEANINGS.iter().filter(|row| !pages.contains(row.2)).map(|row| (row.0, row.1)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}
