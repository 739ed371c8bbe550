//! Whatever the way, the last state decides.

use super::fixture::{Gateway, delete, describe, put, trace};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const HOSTS: [&str; 3] = ["", "a.com", "b.com"];
const PATHS: [&str; 4] = ["/1", "/2", "/2/x", "/3"];

/// A resource that may stand at `key`; variants differ in what they name and say.
fn value(key: &str, variant: u8) -> Value {
    let bit = |n: u8| variant & (1 << n) != 0;
    let id = 1 + u8::from(bit(0));
    let collection = key.split('/').nth(1).unwrap_or_default();
    match collection {
        "routes" => {
            let path = ["/1", "/2*", "/3"][usize::from(variant) % 3];
            let mut route =
                json!({"uri": path, "plugins": {}, "priority": id, "status": u8::from(variant != 5)});
            for (at, field, content) in [
                (1, "service_id", json!(id)),
                (2, "upstream_id", json!(id)),
                (3, "plugin_config_id", json!(id)),
                (4, "upstream", json!({"nodes": {"inline:1": id}})),
                (5, "plugins", json!({"alpha": {"text": "route"}})),
                (6, "host", json!("a.com")),
                (7, "enable_websocket", json!(bit(0))),
            ] {
                if bit(at) {
                    route[field] = content;
                }
            }
            route
        }
        "services" => {
            let mut service = json!({"plugins": {"beta": {"text": format!("service {id}")}}});
            for (at, field, content) in [
                (1, "upstream_id", json!(id)),
                (2, "upstream", json!({"nodes": {"service:1": id}})),
                (3, "hosts", json!(["b.com"])),
                (4, "enable_websocket", json!(true)),
            ] {
                if bit(at) {
                    service[field] = content;
                }
            }
            service
        }
        "upstreams" => json!({"nodes": {format!("node-{id}:1"): 1}, "retries": variant}),
        "plugin_metadata" => json!({"forbid": format!("{variant}")}),
        _ => {
            json!({"plugins": {if bit(1) { "alpha" } else { "beta" }: {"text": format!("{collection} {id}")}}})
        }
    }
}

/// All that requests can notice, for every host and path of this test.
fn answers(gateway: &Gateway) -> Vec<String> {
    let mut answers = trace(&gateway.snapshot.global);
    for host in HOSTS {
        for path in PATHS {
            let found = gateway.find(host, path);
            answers.push(format!("{host}{path}: {}", found.map_or_else(String::new, describe)));
        }
    }
    answers
}

/// Keys with a new value each, or without one.
fn changes() -> impl Strategy<Value = Vec<(String, Option<u8>)>> {
    let collections =
        ["routes", "routes", "routes", "services", "upstreams", "plugin_configs", "global_rules"];
    let resource =
        (prop::sample::select(collections.to_vec()), 1..3_u8).prop_map(|(name, id)| format!("/{name}/{id}"));
    let key = prop_oneof![9 => resource, 1 => Just("/plugin_metadata/alpha".to_owned())];
    prop::collection::vec((key, prop::option::weighted(0.8, any::<u8>())), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changes_one_by_one_together_and_a_fresh_start_give_the_same_answers(changes in changes(), batch in 1..5_usize) {
        let mut state = BTreeMap::new();
        let mut gateway = Gateway::new();
        for batch in changes.chunks(batch) {
            let mut together = Vec::new();
            for (key, variant) in batch {
                state.insert(key.as_str(), variant.map(|variant| value(key, variant)));
                together.push(state[key.as_str()].as_ref().map_or_else(|| delete(key), |value| put(key, value)));
            }
            gateway.apply(&together);
        }
        let last: Vec<_> = state.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let fresh = Gateway::with(&last);
        prop_assert_eq!(answers(&gateway), answers(&fresh));
        prop_assert_eq!(gateway.problems(), Vec::<String>::new());

        let linked = gateway.builder.routes_linked();
        gateway.load(&last);
        prop_assert_eq!(gateway.builder.routes_linked(), linked);
        prop_assert_eq!(answers(&gateway), answers(&fresh));
    }
}
