//! Holds the table of keys to the reader, the settings and the documents.

use super::reader::{ASKED, Section, keys};
use super::table::{self, Effect, Key, Kind, render};
use super::{Context, Settings, read_text, sections};
use document::Found;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

fn read(text: &str) -> Settings {
    read_text("f", text, &|_| None).unwrap_or_else(|report| panic!("{report}")).settings
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn the_defaults_of_the_table_are_those_that_hold() {
    let example = render::example();
    let loaded = read_text("f", &example, &|_| None).unwrap_or_else(|report| panic!("{report}\n{example}"));
    assert!(loaded.warnings.diagnostics.is_empty(), "{}", loaded.warnings);
    // What stands there is what plugins get.
    let settings = Settings { plugin_attr: serde_json::Map::new(), ..loaded.settings };
    assert_eq!(settings, read(""));
}

#[test]
fn every_key_with_an_effect_is_read_and_no_other() {
    let mut asked = BTreeSet::new();
    ASKED.take();
    for role in ["traditional", "control_plane", "data_plane"] {
        let text = render::everything().replace("role: traditional", &format!("role: {role}"));
        let root = document::parse_yaml(&text).unwrap_or_else(|problem| panic!("{problem:?}\n{text}"));
        let found = Found::default();
        keys::check(&root, &found);
        sections::read(&Section::root(&root, &found), &Context::new(&|_| None), &found);
        asked.append(&mut ASKED.take());
    }
    let with_effect = |key: &&Key| !matches!(key.effect, Effect::Nothing { .. });
    let unread: Vec<&str> = table::all()
        .filter(with_effect)
        .filter(|key| !asked.contains(key.path) && !matches!(key.kind, Kind::Section))
        .map(|key| key.path)
        .collect();
    assert_eq!(unread, [""; 0], "keys that nobody reads");
    let declared: BTreeSet<&str> = table::all().filter(with_effect).map(|key| key.path).collect();
    let undeclared: Vec<&String> = asked.iter().filter(|path| !declared.contains(path.as_str())).collect();
    assert_eq!(undeclared, [""; 0], "keys that are read and not declared");
}

#[test]
fn every_setting_is_used_by_somebody() {
    let source = include_str!("settings/mod.rs");
    let fields = source.lines().filter_map(|line| {
        let name = line.trim().strip_prefix("pub ")?.split_once(": ")?.0;
        name.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
            .then_some(name)
    });
    let mut users = String::new();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../gateway/src")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            users.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    let unused: Vec<&str> = fields.filter(|name| !users.contains(&format!(".{name}"))).collect();
    assert_eq!(unused, [""; 0], "settings that are read from the file and used by nobody");
}

/// Another value than the default, for the kinds that have an obvious one.
fn other(key: &Key) -> Option<Value> {
    let plain = key.default.trim_matches('"');
    Some(match key.kind {
        Kind::Bool => json!(plain != "true"),
        Kind::Switch => json!(if plain == "on" { "off" } else { "on" }),
        Kind::Port => json!(1234),
        Kind::Ip => json!("127.0.0.77"),
        Kind::Integer(..) => json!(77),
        Kind::Time => json!("77s"),
        Kind::Size => json!("77k"),
        Kind::Text if plain.starts_with('/') => json!("/another"),
        Kind::Text => json!("another"),
        Kind::Words(words) => json!(words.iter().find(|word| **word != plain)?),
        _ => return None,
    })
}

/// The document in which `path` alone stands, with `value`.
fn document(path: &str, value: Value) -> Value {
    path.rsplit('.').fold(value, |value, name| json!({ name: value }))
}

#[test]
fn a_restart_is_needed_where_the_table_says_so() {
    let mut checked = 0;
    let old = read("");
    for key in table::all() {
        // What counts in company alone; and the files that a process may open, whose number is never lowered.
        let skipped = ["deployment.", "nginx_config.worker_rlimit_nofile", "nginx_config.user"];
        let Some(value) = other(key).filter(|_| {
            !key.path.contains("[]")
                && !matches!(key.effect, Effect::Nothing { .. })
                && !skipped.iter().any(|start| key.path.starts_with(start))
        }) else {
            continue;
        };
        let text = document(key.path, value).to_string();
        let Ok(loaded) = read_text("f", &text, &|_| None) else { continue };
        let waiting = old.needs_restart(&loaded.settings);
        assert_eq!(key.effect == Effect::Restart, !waiting.is_empty(), "{text}: {waiting:?}");
        checked += 1;
    }
    assert!(checked > 60, "{checked}");
}

#[test]
fn the_documents_are_those_that_the_table_makes() {
    let schema = format!("{:#}\n", render::json_schema());
    for (file, made, format) in [
        ("docs/guide/config.example.yaml", render::example(), "example"),
        ("docs/reference/config.md", render::markdown(), "markdown"),
        ("docs/reference/config.schema.json", schema, "json-schema"),
    ] {
        let path = repository().join(file);
        if std::env::var_os("TIDEGATE_WRITE_DOCS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &made).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == made, "{file} is not current: tidegate config schema --format {format} > {file}");
    }
}

#[test]
fn the_schema_knows_what_the_table_does() {
    let schema = render::json_schema();
    let at = |path: &str| path.split('.').fold(&schema, |node, name| &node["properties"][name]);
    assert_eq!(at("apisix")["additionalProperties"], false);
    assert!(at("plugin_attr")["additionalProperties"].is_null());
    assert_eq!(at("apisix.enable_admin")["default"], true);
    let listen = at("apisix.node_listen");
    assert_eq!(listen["anyOf"][1], json!({ "type": "string", "pattern": "^[0-9]+$|\\$\\{\\{" }));
    assert!(listen.to_string().contains("\"ip\""), "{listen}");
    assert!(at("nginx_config.http.lua_shared_dict")["description"].as_str().unwrap().starts_with("Without"));
}
