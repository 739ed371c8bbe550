//! What a route takes from plugin config, service and upstream.

use super::fixture::{Gateway, trace};
use crate::{Broken, Timeouts};
use serde_json::{Value, json};
use std::time::Duration;

fn nodes(node: &str) -> Value {
    json!({"nodes": {node: 1}})
}

#[test]
fn plugins_of_the_route_stand_above_its_plugin_config_and_those_above_the_service() {
    let of = |names: &[&str]| -> Value {
        names
            .iter()
            .map(|name| ((*name).to_owned(), json!({"text": "x"})))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    for (route, plugin_config, service, expected) in [
        (of(&["alpha"]), of(&["alpha"]), of(&["alpha", "beta"]), ["x@/routes/1!", "x@/services/1!"]),
        (of(&["beta"]), of(&["alpha"]), of(&["alpha", "beta"]), ["x@/plugin_configs/1!", "x@/routes/1!"]),
        (of(&[]), of(&["beta"]), of(&["alpha", "beta"]), ["x@/services/1!", "x@/plugin_configs/1!"]),
    ] {
        let gateway = Gateway::with(&[
            ("/routes/1", json!({"uri": "/", "plugins": route, "plugin_config_id": 1, "service_id": "1"})),
            ("/plugin_configs/1", json!({"plugins": plugin_config})),
            ("/services/1", json!({"plugins": service})),
        ]);
        assert_eq!(trace(&gateway.route("/").chain), expected);
    }
}

#[test]
fn a_plugin_switched_off_on_the_route_does_not_run_for_the_service_either() {
    // What never runs may be configured for another node.
    for text in [json!(""), json!(5)] {
        let off = json!({"alpha": {"text": text, "_meta": {"disable": true}}});
        let gateway = Gateway::with(&[
            ("/routes/1", json!({"uri": "/", "service_id": 1, "plugins": off})),
            ("/services/1", json!({"plugins": {"alpha": {"text": "x"}}})),
        ]);
        assert!(gateway.route("/").chain.is_empty());
    }
}

#[test]
fn the_upstream_is_the_routes_before_the_services_and_by_id_before_written_there() {
    let (inline, by_id) = (("upstream", nodes("inline:1")), ("upstream_id", json!(1)));
    let of_service = ("upstream", nodes("service:1"));
    for (route, service, expected) in [
        (vec![&inline, &by_id], vec![&of_service], "by-id:1"),
        (vec![&inline], vec![&by_id, &of_service], "inline:1"),
        (vec![&by_id], vec![&of_service], "by-id:1"),
        (vec![], vec![&of_service, &by_id], "by-id:1"),
        (vec![], vec![&of_service], "service:1"),
    ] {
        let with = |mut resource: Value, fields: &[&(&str, Value)]| {
            for (name, value) in fields.iter().copied() {
                resource[*name] = value.clone();
            }
            resource
        };
        let gateway = Gateway::with(&[
            ("/routes/1", with(json!({"uri": "/", "service_id": "1"}), &route)),
            ("/services/1", with(json!({}), &service)),
            ("/upstreams/1", nodes("by-id:1")),
        ]);
        let upstream = gateway.route("/").upstream.as_ref().expect("an upstream");
        assert_eq!(&*upstream.nodes[0].authority, expected);
    }
}

#[test]
fn hosts_and_websocket_are_the_services_where_the_route_says_nothing() {
    let service = ("/services/1", json!({"name": "s", "hosts": ["a.com"], "enable_websocket": true}));
    for (route, host, websocket) in [
        (json!({"uri": "/", "service_id": "1", "name": "r"}), "a.com", true),
        (json!({"uri": "/", "service_id": "1", "name": "r", "host": "b.com"}), "b.com", true),
        (
            json!({"uri": "/", "service_id": "1", "name": "r", "hosts": ["b.com"], "enable_websocket": false}),
            "b.com",
            false,
        ),
    ] {
        let gateway = Gateway::with(&[("/routes/1", route), service.clone()]);
        let route = gateway.find(host, "/").expect("a route at this host");
        assert_eq!(route.websocket, websocket);
        let info = &route.info;
        assert_eq!([&info.id, &info.name, &info.service_id, &info.service_name], ["1", "r", "1", "s"]);
        assert!(gateway.find("c.com", "/").is_none());
    }
}

#[test]
fn the_routes_timeout_is_kept_beside_the_upstreams() {
    let second = Duration::from_secs(1);
    let times = json!({"connect": 1, "send": 1, "read": 1});
    let gateway =
        Gateway::with(&[("/routes/1", json!({"uri": "/", "timeout": times, "upstream": nodes("a:1")}))]);
    let route = gateway.route("/");
    assert_eq!(route.timeouts, Some(Timeouts { connect: second, send: second, read: second }));
    assert_eq!(route.upstream.as_ref().expect("an upstream").timeouts, Timeouts::default());
}

#[test]
fn a_route_that_names_what_does_not_exist_answers_as_apisix_does() {
    let id = |id: &str| id.to_owned();
    for (route, broken, refusal, without_upstream) in [
        (
            json!({"plugin_config_id": 7, "service_id": 8}),
            Some(Broken::PluginConfig(id("7"))),
            Some(503),
            503,
        ),
        (json!({"service_id": 8, "upstream_id": 9}), Some(Broken::Service(id("8"))), Some(404), 404),
        (json!({"upstream_id": 9}), Some(Broken::Upstream(id("9"))), None, 502),
        (json!({"service_id": "1"}), Some(Broken::Upstream(id("9"))), None, 502),
        (json!({}), None, None, 503),
    ] {
        let mut resource = json!({"uri": "/", "plugins": {"alpha": {"text": ""}}});
        resource.as_object_mut().expect("an object").extend(route.as_object().expect("an object").clone());
        let gateway = Gateway::with(&[("/routes/1", resource), ("/services/1", json!({"upstream_id": 9}))]);
        let found = gateway.route("/");
        assert_eq!((&found.broken, found.refusal()), (&broken, refusal), "{route}");
        assert_eq!(found.status_without_upstream(), without_upstream, "{route}");
        assert_eq!(found.chain.is_empty(), refusal.is_some(), "{route}");
        assert!(found.upstream.is_none(), "{route}");
    }
}

#[test]
fn global_rules_make_one_chain_and_a_plugin_of_two_rules_runs_in_none() {
    let rule = |plugin: &str| json!({"plugins": {plugin: {"text": "x"}}});
    let mut gateway = Gateway::with(&[("/global_rules/1", rule("beta")), ("/global_rules/2", rule("alpha"))]);
    assert_eq!(trace(&gateway.snapshot.global), ["x@/global_rules/2!", "x@/global_rules/1!"]);
    gateway.put("/global_rules/3", &rule("alpha"));
    assert_eq!(trace(&gateway.snapshot.global), ["x@/global_rules/1!"]);
    gateway.delete("/global_rules/2");
    assert_eq!(trace(&gateway.snapshot.global), ["x@/global_rules/3!", "x@/global_rules/1!"]);
}

#[test]
fn a_route_that_is_switched_off_is_not_matched() {
    let mut gateway = Gateway::with(&[("/routes/1", json!({"uri": "/", "status": 0}))]);
    assert!(gateway.find("", "/").is_none());
    gateway.put("/routes/1", &json!({"uri": "/", "status": 1}));
    assert!(gateway.find("", "/").is_some());
    gateway.put("/routes/1", &json!({"uri": "/", "status": 0}));
    assert!(gateway.find("", "/").is_none());
}
