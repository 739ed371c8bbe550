//! Who is found by which credential, and what a change of consumers touches.

use super::fixture::{delete, put};
use crate::{BuildOptions, Builder, Snapshot};
use model::ConfigError;
use plugin::{Authenticator, CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef, Registry};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Change;

fn auth() -> PluginDef {
    PluginDef::new::<Auth>("auth", 2).authenticates().on_rewrite().build()
}

fn mark() -> PluginDef {
    PluginDef::new::<Mark>("mark", 1).on_rewrite().build()
}

struct Auth;
struct Mark;

#[derive(Deserialize)]
struct Key {
    key: String,
}

impl Plugin for Auth {
    type Config = Value;

    fn compile(_: Value, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self)
    }

    fn schema() -> Value {
        json!({"type": "object"})
    }
}

impl Authenticator for Auth {
    type CredentialConfig = Key;
    type Credential = ();

    fn credential_schema() -> Value {
        json!({"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]})
    }

    fn credential(config: Key) -> Result<(Vec<u8>, ()), Vec<ConfigError>> {
        Ok((config.key.into_bytes(), ()))
    }
}

impl OnRewrite for Auth {
    fn rewrite(&self, _: &mut Exchange<'_>) -> Flow {
        Flow::Next
    }
}

impl Plugin for Mark {
    type Config = Value;

    fn compile(_: Value, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self)
    }

    fn schema() -> Value {
        json!({"type": "object"})
    }
}

impl OnRewrite for Mark {
    fn rewrite(&self, _: &mut Exchange<'_>) -> Flow {
        Flow::Next
    }
}

fn builder() -> Builder {
    let registry = Registry::new([auth(), mark()], Map::new()).expect("valid schemas");
    Builder::new(Arc::new(registry), BuildOptions::default())
}

/// Name, credential's id, group and label of who has the key; empty where nobody has.
fn who(snapshot: &Snapshot, key: &str) -> String {
    let Some((identity, ())) = snapshot.consumers.find::<Auth>(key.as_bytes()) else { return String::new() };
    let consumer = &identity.consumer;
    let label = consumer.labels.get("custom_id").map_or("-", String::as_str);
    let id = identity.credential_id.as_deref().unwrap_or("-");
    format!(
        "{} {id} {} {label} {}",
        consumer.name,
        consumer.group_id,
        snapshot.consumer_plugins.of(consumer).len()
    )
}

fn jack(key: &str, label: &str) -> Change {
    let plugins = json!({"auth": {"key": key}, "mark": {}});
    let value =
        json!({"username": "jack", "group_id": "g", "labels": {"custom_id": label}, "plugins": plugins});
    put("/consumers/jack", &value)
}

#[test]
fn consumers_are_found_by_their_own_and_their_separate_credentials() {
    let mut builder = builder();
    let credential =
        |key: &str| put("/consumers/jack/credentials/1", &json!({"plugins": {"auth": {"key": key}}}));
    let snapshot = builder.apply(1, &[credential("b"), jack("a", "x")]);
    assert_eq!(builder.problems(), []);
    assert_eq!([who(&snapshot, "a"), who(&snapshot, "b")], ["jack - g x 1", "jack 1 g x 1"]);
    // What a credential says of its consumer follows that.
    let next = builder.apply(2, &[jack("c", "y")]);
    assert_eq!([who(&next, "a"), who(&next, "b"), who(&next, "c")], ["", "jack 1 g y 1", "jack - g y 1"]);
    assert_eq!(who(&snapshot, "a"), "jack - g x 1", "a snapshot does not change");
    let next = builder.apply(3, &[credential("d")]);
    assert_eq!([who(&next, "b"), who(&next, "d")], ["", "jack 1 g y 1"]);
    let next = builder.apply(4, &[delete("/consumers/jack")]);
    assert_eq!([who(&next, "c"), who(&next, "d")], ["", ""], "a credential without its consumer is nobody's");
    assert!(next.consumers.is_empty());
    let next = builder.apply(5, &[jack("c", "z")]);
    assert_eq!(who(&next, "d"), "jack 1 g z 1");
}

#[test]
fn of_two_with_one_key_the_last_counts_and_the_other_comes_back() {
    let mut builder = builder();
    let consumer = |name: &str| {
        put(&format!("/consumers/{name}"), &json!({"username": name, "plugins": {"auth": {"key": "k"}}}))
    };
    let both = builder.apply(1, &[consumer("b"), consumer("a")]);
    assert!(who(&both, "k").starts_with("b "));
    assert!(who(&builder.apply(2, &[delete("/consumers/b")]), "k").starts_with("a "));
}

#[test]
fn a_credential_that_is_switched_off_or_wrong_lets_nobody_in() {
    let mut builder = builder();
    let off = json!({"username": "a", "plugins": {"auth": {"key": "a", "_meta": {"disable": true}}}});
    let wrong = json!({"username": "b", "plugins": {"auth": {"key": 1}}});
    let snapshot = builder.apply(1, &[put("/consumers/a", &off), put("/consumers/b", &wrong)]);
    assert_eq!([who(&snapshot, "a"), who(&snapshot, "1")], ["", ""]);
    assert!(snapshot.consumers.named("a").is_some());
    assert_eq!(builder.problems().len(), 1);
    assert_eq!(builder.problems()[0].errors[0].path, "/plugins/auth/key");
}

#[test]
fn groups_are_found_by_id() {
    let mut builder = builder();
    let with = builder.apply(1, &[put("/consumer_groups/g", &json!({"id": "g", "plugins": {"mark": {}}}))]);
    assert_eq!(with.consumer_plugins.group("g").map(|group| group.plugins.len()), Some(1));
    let without = builder.apply(2, &[delete("/consumer_groups/g")]);
    assert!(without.consumer_plugins.group("g").is_none() && with.consumer_plugins.group("g").is_some());
}

#[test]
fn one_change_among_many_consumers_stays_in_milliseconds() {
    const CONSUMERS: usize = 20_000;
    let mut builder = builder();
    let consumer = |at: usize, key: &str| {
        let name = format!("c{at}");
        put(&format!("/consumers/{name}"), &json!({"username": name, "plugins": {"auth": {"key": key}}}))
    };
    let all: Vec<_> = (0..CONSUMERS).map(|at| consumer(at, &format!("k{at}"))).collect();
    let before = builder.apply(1, &all);
    let started = Instant::now();
    let after = builder.apply(2, &[consumer(7, "new")]);
    let took = started.elapsed();
    assert!(who(&after, "new").starts_with("c7 ") && who(&after, "k7").is_empty());
    assert!(who(&before, "k7").starts_with("c7 ") && who(&after, "k8").starts_with("c8 "));
    // Tens of microseconds; the bound is for machines that do a dozen other things.
    assert!(took < Duration::from_millis(200), "{took:?}");
}
