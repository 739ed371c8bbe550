//! The same resources under another list of plugins.

use super::fixture::{Gateway, alpha_def, beta_def, put, trace};
use serde_json::{Map, Value, json};
use std::sync::Arc;

fn attributes(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn gateway() -> Gateway {
    Gateway::with(&[
        (
            "/routes/1",
            json!({"uri": "/", "plugins": {"alpha": {"text": "a"}, "beta": {"text": "b"}},
                   "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}}),
        ),
        ("/plugin_metadata/alpha", json!({"forbid": "evil"})),
        ("/routes/2", json!({"uri": "/2", "plugins": {"alpha": {"text": "evil"}}})),
    ])
}

#[test]
fn a_plugin_that_is_switched_off_does_not_run_and_comes_back() {
    let mut gateway = gateway();
    let whole = trace(&gateway.route("/").chain);
    assert_eq!(whole, ["a@/routes/1!evil", "b@/routes/1!"]);
    gateway.renew(vec![beta_def()], Map::new());
    assert_eq!(trace(&gateway.route("/").chain), ["b@/routes/1!"]);
    assert_eq!(gateway.problems(), [""; 0], "what doesn't run can't be wrong");
    // Changes are compiled with the plugins that are left.
    gateway.put("/routes/3", &json!({"uri": "/3", "plugins": {"alpha": {"text": "c"}}}));
    assert!(trace(&gateway.route("/3").chain).is_empty());
    gateway.renew(vec![alpha_def(), beta_def()], Map::new());
    assert_eq!(trace(&gateway.route("/").chain), whole);
    assert_eq!(trace(&gateway.route("/3").chain), ["c@/routes/3!evil"]);
    assert_eq!(gateway.problems(), ["/routes/2 /plugins/alpha/text"]);
}

#[test]
fn what_stays_the_same_is_carried_over() {
    let mut gateway = gateway();
    let upstream = gateway.route("/").upstream.clone().expect("an upstream");
    let compiled = gateway.compiled();
    gateway.renew(vec![alpha_def(), beta_def()], Map::new());
    // With the resources, and because there is metadata.
    assert_eq!(gateway.compiled(), compiled + 2, "only the refused one is tried again");
    gateway.renew(vec![alpha_def(), beta_def()], attributes(&json!({"beta": {"size": 1}})));
    assert_eq!(gateway.compiled(), compiled + 5, "and the one with other attributes");
    assert!(Arc::ptr_eq(&upstream, gateway.route("/").upstream.as_ref().expect("an upstream")));
}

#[test]
fn a_refused_change_leaves_the_version_before_in_use() {
    let mut gateway = gateway();
    gateway.apply(&[put("/routes/1", &json!({"uri": "/", "plugins": {"alpha": {"text": "evil"}}}))]);
    gateway.renew(vec![alpha_def()], Map::new());
    assert_eq!(trace(&gateway.route("/").chain), ["a@/routes/1!evil"]);
    assert_eq!(gateway.problems().len(), 2);
}
