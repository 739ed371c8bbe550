//! Plugins that come at run time: definitions that own their data.

use crate::testkit::{self, Bench};
use crate::{
    CompileContext, CompiledCredential, ConsumerSide, Exchange, Flow, Hooks, OnAccess, PluginDef, Registry,
    Reply,
};
use model::ConfigError;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Answers with a text that the definition owns.
struct Answer(String);

impl OnAccess for Answer {
    fn access(&self, _: &mut Exchange<'_>) -> Flow {
        Flow::reply(Reply::text(200, self.0.as_str()))
    }
}

/// A plugin as a host of scripts would make it: name, source and behaviour are known at run time only.
fn scripted(name: &str, greeting: &str, version: u64) -> PluginDef {
    let greeting = greeting.to_owned();
    let schema = json!({"type": "object", "properties": {"to": {"type": "string", "default": "you"}}});
    let compile = move |config: Value, _: &CompileContext<'_>| match config["to"].as_str() {
        Some("nobody") => Err(vec![ConfigError::new("/to", "somebody is needed")]),
        to => {
            let text = format!("{greeting} {}", to.unwrap_or_default());
            Ok(Hooks { access: Some(Arc::new(Answer(text))), ..Hooks::default() })
        }
    };
    PluginDef { version, ..PluginDef::of(name, 10, schema, compile) }
}

fn answer(registry: &Registry, name: &str, config: &Value) -> String {
    let chain = testkit::chain(registry, &json!({ name: config })).expect("a valid configuration");
    let bench = Bench::new("GET /");
    let reply = testkit::request(&chain, &mut bench.exchange()).expect("an answer");
    String::from_utf8(reply.body.expect("a body")).expect("text")
}

#[test]
fn a_definition_made_at_run_time_runs_with_its_own_data() {
    let name = ["greet", "er"].concat();
    let registry = Registry::new([scripted(&name, "hello", 1)], Map::new()).expect("a valid schema");
    assert_eq!(answer(&registry, &name, &json!({})), "hello you");
    assert_eq!(answer(&registry, &name, &json!({"to": "me"})), "hello me");
    for (config, path) in [(json!({"to": "nobody"}), "/greeter/to"), (json!({"to": 1}), "/greeter/to")] {
        let plugins = json!({ &*name: config });
        let errors = registry.check(plugins.as_object().expect("an object"));
        assert_eq!(errors.iter().map(|error| &*error.path).collect::<Vec<_>>(), [path]);
    }
}

#[test]
fn a_replaced_definition_serves_new_chains_and_leaves_old_ones_alone() {
    let before = Registry::new([scripted("greeter", "hello", 1)], Map::new()).expect("a valid schema");
    let old = testkit::chain(&before, &json!({"greeter": {}})).expect("valid");
    let like = Registry::new([scripted("greeter", "hello", 1)], Map::new()).expect("a valid schema");
    let like = like.succeeding(&before);
    assert!(like.treats_alike(&before, "greeter"), "the same version");
    let after = like.with(scripted("greeter", "goodbye", 2)).expect("a valid schema");
    assert!(!after.treats_alike(&before, "greeter"), "another version");
    assert_eq!(answer(&after, "greeter", &json!({})), "goodbye you");
    drop(before);
    let bench = Bench::new("GET /");
    let reply = testkit::request(&old, &mut bench.exchange()).expect("an answer");
    assert_eq!(reply.body.as_deref(), Some(&b"hello you"[..]));
    assert_eq!(old.plugins().next().map(|plugin| plugin.def.version), Some(1));
}

#[test]
fn a_plugin_that_was_switched_off_can_be_added() {
    let registry = Registry::default().without(vec!["greeter".into()]);
    assert!(registry.is_disabled("greeter"));
    let registry = registry.with(scripted("greeter", "hello", 1)).expect("a valid schema");
    assert!(!registry.is_disabled("greeter"));
    assert_eq!(registry.all().len(), 1);
}

#[test]
fn a_schema_that_is_none_is_refused_with_the_plugins_name() {
    let broken = PluginDef::of("broken", 1, json!({"type": 1}), |_: Value, _: &CompileContext<'_>| {
        Ok(Hooks::default())
    });
    assert_eq!(Registry::default().with(broken).expect_err("refused").path, "broken");
}

#[test]
fn credentials_of_a_plugin_made_at_run_time_are_found_by_its_name() {
    let compile = |config: Value| {
        let key = config["key"].as_str().unwrap_or_default().as_bytes();
        Ok(CompiledCredential::new("script-auth", key, Arc::new(config.clone())))
    };
    let schema = json!({"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]});
    let consumer = Some(ConsumerSide { schema, compile: Box::new(compile) });
    let def = PluginDef { consumer, ..scripted("script-auth", "hello", 1) };
    let registry = Registry::new([def], Map::new()).expect("valid schemas");
    let jack = ("jack", json!({"script-auth": {"key": "k"}}));
    let consumers = testkit::consumers(&registry, &[jack]).expect("valid");
    let (identity, data) = consumers.find_named("script-auth", b"k").expect("jack");
    assert_eq!(identity.consumer.name, "jack");
    assert_eq!(data.downcast_ref::<Value>(), Some(&json!({"key": "k"})));
    assert!(consumers.find_named("other", b"k").is_none());
    assert!(consumers.find_named("script-auth", b"x").is_none());
    let all: Vec<_> =
        consumers.all_named("script-auth").map(|(key, whose, _)| (key, &*whose.consumer.name)).collect();
    assert_eq!(all, [(&b"k"[..], "jack")]);
    assert_eq!(consumers.all_named("other").count(), 0);
    let mut changed = consumers.clone();
    assert_eq!(changed.revision(), consumers.revision());
    changed.set("jack", None);
    assert_ne!(changed.revision(), consumers.revision());
}
