//! What holds for every plugin.

mod meanings;
mod reference;

use crate::{all, stream};
use plugin::{FileAccess, PluginDef, Registry};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use stdx::Folders;

const HEADINGS: [&str; 3] = ["## When to use", "## Example", "## Differences from APISIX"];

fn registry(list: Vec<PluginDef>) -> Registry {
    let files = FileAccess { log_roots: Folders::everything(), ..FileAccess::default() };
    Registry::new(list, serde_json::Map::new()).expect("every schema is one").with_files(files)
}

/// The name of every plugin, with a registry of those that are listed with it.
fn every_plugin() -> impl Iterator<Item = (Arc<str>, Rc<Registry>)> {
    [all(), stream()].into_iter().flat_map(|list| {
        let names: Vec<_> = list.iter().map(|def| Arc::clone(&def.name)).collect();
        let registry = Rc::new(registry(list));
        names.into_iter().map(move |name| (name, Rc::clone(&registry)))
    })
}

/// The module documentation of the plugin's file, which is named after it.
fn documentation(name: &str) -> String {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src").join(name.replace('-', "_"));
    let text = std::fs::read_to_string(source.with_extension("rs"))
        .or_else(|_| std::fs::read_to_string(source.join("mod.rs")))
        .unwrap_or_else(|error| panic!("the file of {name}: {error}"));
    let documentation = text.lines().map_while(|line| line.strip_prefix("//!"));
    documentation.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn plugins_are_listed_in_alphabetical_order_and_once() {
    for list in [all(), stream()] {
        assert!(list.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}

#[test]
fn every_plugin_has_a_file_of_its_name_that_documents_it() {
    for def in all().into_iter().chain(stream()) {
        let documentation = documentation(&def.name);
        let mut after = 0;
        for heading in HEADINGS {
            let at = documentation.find(heading);
            let at = at.unwrap_or_else(|| panic!("{}: no `{heading}`", def.name));
            assert!(at >= after, "{}: `{heading}` stands too early", def.name);
            after = at;
        }
        assert!(!documentation.starts_with("##"), "{}: begins with what it does, in a sentence", def.name);
    }
}

#[test]
fn every_documented_example_is_accepted() {
    for (name, registry) in every_plugin() {
        let documentation = documentation(&name);
        let (_, example) =
            documentation.split_once("```json\n").unwrap_or_else(|| panic!("{}: no example", name));
        let (example, _) = example.split_once("```").expect("the example ends");
        let example: Value = serde_json::from_str(example).expect("the example is JSON");
        let plugins = example.as_object().expect("the example is a `plugins` object");
        assert!(plugins.contains_key(&*name), "{}: the example is about it", name);
        assert_eq!(registry.check(plugins), [], "{}", name);
    }
}

#[test]
fn every_mistake_has_a_path() {
    for (name, registry) in every_plugin() {
        for mistake in
            [json!({"_meta": {"priority": "high"}}), json!({"_meta": {"filter": [["a"]]}}), json!("text")]
        {
            let plugins = json!({&*name: mistake});
            let errors = registry.check(plugins.as_object().expect("an object"));
            assert!(!errors.is_empty(), "{}: {mistake}", name);
            let start = format!("/{}", name);
            assert!(errors.iter().all(|error| error.path.starts_with(&start)), "{}: {errors:?}", name);
        }
    }
}

#[test]
fn every_plugin_takes_the_injected_members() {
    let registry = registry(all());
    for def in registry.all() {
        let schema = registry.schema(&def.name).expect("registered");
        assert!(schema.pointer("/properties/_meta/properties/disable").is_some(), "{}", def.name);
        assert!(registry.metadata_schema(&def.name).is_some(), "{}", def.name);
    }
}
