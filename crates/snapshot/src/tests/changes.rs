//! What a change compiles, what it carries over, and what it can't take away.

use super::fixture::{Gateway, alpha_def, delete, entry, put, trace};
use crate::{BuildOptions, Builder};
use plugin::Registry;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use store::Change;

fn alpha(text: &str) -> Value {
    json!({"uri": "/", "plugins": {"alpha": {"text": text}}})
}

#[test]
fn a_change_reaches_every_route_that_uses_the_resource() {
    let mut gateway = Gateway::with(&[
        ("/routes/1", json!({"uri": "/1", "service_id": 1})),
        ("/routes/2", json!({"uri": "/2", "plugin_config_id": 1, "upstream_id": 1})),
        ("/routes/3", json!({"uri": "/3", "upstream_id": 2})),
    ]);
    let linked = gateway.builder.routes_linked();
    assert!(gateway.route("/1").broken.is_some());

    gateway.put("/services/1", &json!({"upstream_id": 1, "plugins": {"alpha": {"text": "s"}}}));
    gateway.put("/plugin_configs/1", &json!({"plugins": {"alpha": {"text": "p"}}}));
    gateway.put("/upstreams/1", &json!({"nodes": {"a:1": 1}}));
    assert_eq!(gateway.builder.routes_linked() - linked, 1 + 1 + 2);
    for (path, text) in [("/1", "s@/services/1!"), ("/2", "p@/plugin_configs/1!")] {
        let route = gateway.route(path);
        assert_eq!((trace(&route.chain), &route.broken), (vec![text.to_owned()], &None));
        assert_eq!(&*route.upstream.as_ref().expect("an upstream").nodes[0].authority, "a:1");
    }

    gateway.delete("/upstreams/1");
    for path in ["/1", "/2", "/3"] {
        assert_eq!(gateway.route(path).status_without_upstream(), 502, "{path}");
    }
    gateway.put("/routes/1", &json!({"uri": "/1"}));
    let linked = gateway.builder.routes_linked();
    gateway.delete("/services/1");
    assert_eq!(gateway.builder.routes_linked(), linked, "nobody uses it any more");
}

#[test]
fn a_route_brings_itself_and_its_service_as_stored() {
    let mut gateway = Gateway::with(&[
        ("/routes/1", json!({"uri": "/", "name": "r", "service_id": 1})),
        ("/services/1", json!({"name": "before"})),
    ]);
    let names = |gateway: &Gateway| {
        let route = gateway.route("/");
        [&route.info.stored, &route.info.service_stored]
            .map(|stored| stored.members().map(|all| all["name"].clone()))
    };
    assert_eq!(names(&gateway), [Some(json!("r")), Some(json!("before"))]);
    gateway.put("/services/1", &json!({"name": "after"}));
    assert_eq!(names(&gateway), [Some(json!("r")), Some(json!("after"))]);
    gateway.put("/routes/1", &json!({"uri": "/", "name": "alone"}));
    assert_eq!(names(&gateway), [Some(json!("alone")), None]);
}

#[test]
fn what_did_not_change_is_carried_over() {
    let upstream = json!({"nodes": {"a:1": 1}});
    let mut resource = alpha("x");
    resource["upstream"] = upstream.clone();
    let mut gateway = Gateway::with(&[("/routes/1", resource.clone()), ("/upstreams/1", upstream)]);
    let (uid, compiled) = (gateway.route("/").upstream.as_ref().expect("one").uid, gateway.compiled());

    resource["upstream"]["name"] = json!("a name changes no request");
    resource["desc"] = json!("nor does a description");
    gateway.put("/routes/1", &resource);
    assert_eq!(gateway.route("/").upstream.as_ref().expect("one").uid, uid);
    assert_eq!(gateway.compiled(), compiled);

    resource["upstream"]["nodes"] = json!({"a:1": 2});
    resource["plugins"]["alpha"]["text"] = json!("y");
    gateway.put("/routes/1", &resource);
    assert_ne!(gateway.route("/").upstream.as_ref().expect("one").uid, uid);
    assert_eq!(gateway.compiled(), compiled + 1);
}

#[test]
fn routes_of_a_service_share_its_plugins_and_upstream() {
    let gateway = Gateway::with(&[
        ("/routes/1", json!({"uri": "/1", "service_id": 1})),
        ("/routes/2", json!({"uri": "/2", "service_id": 1})),
        ("/services/1", json!({"plugins": {"alpha": {"text": "x"}}, "upstream": {"nodes": {"a:1": 1}}})),
    ]);
    let (one, two) = (gateway.route("/1"), gateway.route("/2"));
    assert!(Arc::ptr_eq(&one.chain.access[0].hook, &two.chain.access[0].hook));
    assert!(Arc::ptr_eq(one.upstream.as_ref().expect("one"), two.upstream.as_ref().expect("one")));
    assert_eq!(gateway.compiled(), 1);
}

#[test]
fn equal_upstreams_of_two_resources_are_two() {
    let route = |uri: &str| json!({"uri": uri, "upstream": {"nodes": {"a:1": 1}}});
    let gateway = Gateway::with(&[("/routes/1", route("/1")), ("/routes/2", route("/2"))]);
    let uid = |path: &str| gateway.route(path).upstream.as_ref().expect("one").uid;
    assert_ne!(uid("/1"), uid("/2"));
}

#[test]
fn a_start_on_a_bad_value_uses_the_last_valid_version() {
    let text = |value: &Value| entry("/routes/1", &value.to_string());
    let (oldest, valid) = (text(&alpha("x")), text(&alpha("y")));
    let (bad, metadata) = (entry("/routes/1", "{"), "/plugin_metadata/alpha");
    let mut gateway = Gateway::new();
    let earlier = [
        oldest,
        valid.clone(),
        entry("/routes/2", "{\"uri\": \"/2\"}"),
        entry(metadata, "{\"forbid\": \"z\"}"),
    ];
    gateway.snapshot =
        gateway.builder.load_after(1, &earlier, &[bad.clone(), entry(metadata, "{\"forbid\": 1}")]);
    assert_eq!(trace(&gateway.route("/").chain), ["y@/routes/1!z"]);
    assert!(gateway.find("", "/2").is_none(), "what was deleted since doesn't come back");
    assert!(gateway.builder.problems().iter().all(|problem| problem.earlier_in_use));
    let in_use: Vec<_> =
        gateway.builder.earlier_in_use().into_iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(in_use, [metadata, "/routes/1"]);
    assert_eq!(gateway.builder.earlier_in_use()[1].1, valid.value);

    // A later listing asks for no earlier version: the builder has it.
    gateway.snapshot = gateway.builder.load_after(2, &[text(&alpha("w"))], &[bad]);
    assert_eq!(trace(&gateway.route("/").chain), ["y@/routes/1!"]);
    gateway.put("/routes/1", &alpha("new"));
    assert!(gateway.builder.earlier_in_use().is_empty());
}

#[test]
fn a_bad_value_is_named_and_takes_nothing_away() {
    let mut gateway = Gateway::with(&[("/routes/1", alpha("x")), ("/routes/2", json!({"uri": "/2"}))]);
    for (value, places) in [
        ("{", vec!["/routes/1 "]),
        (r#"{"uri": 1}"#, vec!["/routes/1 /uri"]),
        (r#"{"plugins": {}}"#, vec!["/routes/1 /uri"]),
        (
            r#"{"uri": "/", "plugins": {"gamma": {}, "alpha": {}}}"#,
            vec!["/routes/1 /plugins/gamma", "/routes/1 /plugins/alpha"],
        ),
        (
            r#"{"uri": "/", "upstream": {"nodes": {}, "type": "fair"}, "vars": [["a", "?", 1]]}"#,
            vec!["/routes/1 /upstream/type", "/routes/1 /vars/0/1"],
        ),
        (r#"{"uri": "/", "filter_func": "function() return true end"}"#, vec!["/routes/1 /filter_func"]),
    ] {
        gateway.apply(&[Change::Put(entry("/routes/1", value))]);
        let found = gateway.problems();
        assert!(
            places.iter().all(|place| found.iter().any(|found| found.starts_with(place))),
            "{value}: {found:?}"
        );
        assert_eq!(trace(&gateway.route("/").chain), ["x@/routes/1!"], "{value}");
        assert!(gateway.builder.problems()[0].earlier_in_use);
        assert!(gateway.find("", "/2").is_some());
    }
    gateway.put("/routes/1", &alpha("y"));
    assert_eq!(
        (trace(&gateway.route("/").chain), gateway.problems()),
        (vec!["y@/routes/1!".to_owned()], vec![])
    );

    gateway.apply(&[Change::Put(entry("/routes/3", "{"))]);
    assert!(!gateway.builder.problems()[0].earlier_in_use);
    gateway.delete("/routes/3");
    assert!(gateway.builder.problems().is_empty());
}

#[test]
fn empty_tables_as_lua_writes_them_are_read_as_what_is_meant() {
    for doubts_values in [false, true] {
        let registry = Arc::new(Registry::new([alpha_def()], Map::new()).expect("valid schemas"));
        let mut builder = Builder::new(registry, BuildOptions { doubts_values, ..BuildOptions::default() });
        let nodes = r#"{"type": "roundrobin", "nodes": {}, "tls": [], "labels": []}"#;
        let text =
            format!(r#"{{"uri": "/", "plugins": [], "labels": [], "vars": {{}}, "upstream": {nodes}}}"#);
        builder.load(1, &[entry("/routes/1", &text)]);
        assert_eq!(builder.problems(), []);
    }
}

#[test]
fn the_schema_is_asked_where_others_write() {
    // Readable, and yet nothing that the Admin API would take.
    let text = r#"{"type": "chash", "hash_on": "header", "key": "$a", "nodes": {}}"#;
    for (doubts_values, paths) in [(false, vec![]), (true, vec!["/key"])] {
        let registry = Arc::new(Registry::new([alpha_def()], Map::new()).expect("valid schemas"));
        let mut builder = Builder::new(registry, BuildOptions { doubts_values, ..BuildOptions::default() });
        builder.load(1, &[entry("/upstreams/1", text)]);
        let found = builder.problems();
        assert_eq!(found.iter().map(|problem| &*problem.errors[0].path).collect::<Vec<_>>(), paths);
    }
}

#[test]
fn metadata_renews_the_plugins_it_speaks_of() {
    let mut gateway = Gateway::with(&[
        ("/routes/1", alpha("x")),
        ("/routes/2", json!({"uri": "/2", "plugins": {"beta": {"text": "b"}}})),
        ("/global_rules/1", json!({"plugins": {"alpha": {"text": "g"}}})),
    ]);
    let (linked, compiled) = (gateway.builder.routes_linked(), gateway.compiled());
    gateway.put("/plugin_metadata/alpha", &json!({"forbid": "z"}));
    assert_eq!((gateway.builder.routes_linked() - linked, gateway.compiled() - compiled), (1, 2));
    assert_eq!(trace(&gateway.route("/").chain), ["x@/routes/1!z"]);
    assert_eq!(trace(&gateway.snapshot.global), ["g@/global_rules/1!z"]);

    gateway.put("/plugin_metadata/alpha", &json!({"forbid": 1}));
    assert_eq!(gateway.problems(), ["/plugin_metadata/alpha /forbid"]);
    assert_eq!(trace(&gateway.route("/").chain), ["x@/routes/1!z"]);
    gateway.delete("/plugin_metadata/alpha");
    assert_eq!(
        (trace(&gateway.route("/").chain), gateway.problems()),
        (vec!["x@/routes/1!".to_owned()], vec![])
    );
}

#[test]
fn metadata_may_come_with_the_resources_that_need_it() {
    let mut gateway = Gateway::new();
    gateway.apply(&[put("/routes/1", &alpha("x")), put("/plugin_metadata/alpha", &json!({"forbid": "z"}))]);
    assert_eq!(trace(&gateway.route("/").chain), ["x@/routes/1!z"]);
    assert_eq!(gateway.compiled(), 1);
}

#[test]
fn definitions_renew_the_plugins_that_name_them() {
    let naming = |uri: &str, id: Value| json!({"uri": uri, "plugins": {"alpha": {"text": "x", "proto": id}}});
    let mut gateway =
        Gateway::with(&[("/routes/1", naming("/", json!(1))), ("/routes/2", naming("/2", json!("2")))]);
    assert_eq!(trace(&gateway.route("/").chain), ["x@/routes/1!"], "not there yet");
    let (linked, compiled) = (gateway.builder.routes_linked(), gateway.compiled());
    gateway.put("/protos/1", &json!({"content": "message M {}"}));
    assert_eq!((gateway.builder.routes_linked() - linked, gateway.compiled() - compiled), (1, 1));
    assert_eq!(trace(&gateway.route("/").chain), ["x@/routes/1!#M"]);

    gateway.put("/protos/1", &json!({"content": "message M {"}));
    assert_eq!(gateway.problems(), ["/protos/1 /content"]);
    assert_eq!(trace(&gateway.route("/").chain), ["x@/routes/1!#M"]);
    gateway.renew(vec![alpha_def()], Map::new());
    assert_eq!(
        (trace(&gateway.route("/").chain), gateway.problems().len()),
        (vec!["x@/routes/1!#M".to_owned()], 1)
    );
    gateway.put("/protos/1", &json!({"content": "message N {}"}));
    assert_eq!(
        (trace(&gateway.route("/").chain), gateway.problems().len()),
        (vec!["x@/routes/1!".to_owned()], 0)
    );

    gateway.apply(&[
        put("/routes/2", &naming("/2", json!("3"))),
        put("/protos/3", &json!({"content": "message M {}"})),
    ]);
    assert_eq!(trace(&gateway.route("/2").chain), ["x@/routes/2!#M"]);
    gateway.delete("/protos/3");
    assert_eq!(trace(&gateway.route("/2").chain), ["x@/routes/2!"]);
}

#[test]
fn what_was_refused_for_the_metadata_is_tried_again_with_the_next() {
    let mut gateway =
        Gateway::with(&[("/routes/1", alpha("x")), ("/plugin_metadata/alpha", json!({"forbid": "y"}))]);
    gateway.put("/routes/1", &alpha("y"));
    assert_eq!(gateway.problems(), ["/routes/1 /plugins/alpha/text"]);
    // Now the version in use is forbidden and the one that waited is not.
    gateway.put("/plugin_metadata/alpha", &json!({"forbid": "x"}));
    assert_eq!(
        (trace(&gateway.route("/").chain), gateway.problems()),
        (vec!["y@/routes/1!x".to_owned()], vec![])
    );
    // What is in use stays, even if it would not be taken in today.
    gateway.put("/plugin_metadata/alpha", &json!({"forbid": "y"}));
    assert_eq!(trace(&gateway.route("/").chain), ["y@/routes/1!x"]);
    assert_eq!(gateway.problems(), ["/routes/1 /plugins/alpha/text"]);
}

#[test]
fn loading_again_changes_what_differs_and_nothing_else() {
    let two = json!({"uri": "/2"});
    let mut gateway = Gateway::with(&[
        ("/routes/1", alpha("x")),
        ("/routes/2", two.clone()),
        ("/plugin_metadata/alpha", json!({"forbid": "z"})),
    ]);
    let linked = gateway.builder.routes_linked();
    gateway.load(&[
        ("/routes/2", two),
        ("/routes/3", json!({"uri": "/3"})),
        ("/plugin_metadata/alpha", json!({"forbid": "z"})),
    ]);
    assert_eq!(gateway.builder.routes_linked() - linked, 1);
    assert!(
        gateway.find("", "/").is_none()
            && gateway.find("", "/2").is_some()
            && gateway.find("", "/3").is_some()
    );
    gateway.load(&[]);
    assert!(gateway.snapshot.router.is_empty());
}

#[test]
fn keys_of_other_programs_mean_nothing() {
    let mut gateway = Gateway::new();
    let keys = ["", "/", "/routes", "/routes/", "routes/1", "/ssls/1", "/data_plane/server_info/x"];
    let changes: Vec<_> = keys.iter().flat_map(|key| [put(key, &json!({"uri": "/"})), delete(key)]).collect();
    gateway.apply(&changes);
    assert!(gateway.snapshot.router.is_empty() && gateway.problems().is_empty());
    assert_eq!(gateway.snapshot.revision, 1);
}

#[test]
fn metadata_and_definitions_reach_plugins_inside_others() {
    let mut gateway = Gateway::new();
    let inside = json!({"alpha": {"text": "x", "proto": "1"}});
    gateway.put("/routes/1", &json!({"uri": "/", "plugins": {"outer": inside}}));
    let traced = |gateway: &Gateway| trace(&gateway.route("/").chain);
    assert_eq!(traced(&gateway), ["x@/routes/1!"]);
    gateway.put("/plugin_metadata/alpha", &json!({"forbid": "z"}));
    assert_eq!(traced(&gateway), ["x@/routes/1!z"]);
    gateway.put("/protos/1", &json!({"content": "message M {}"}));
    assert_eq!(traced(&gateway), ["x@/routes/1!z#M"]);
    let compiled = gateway.compiled();
    gateway.put("/routes/1", &json!({"uri": "/", "name": "a", "plugins": {"outer": inside}}));
    assert_eq!(gateway.compiled(), compiled, "nothing of the plugin changed");
    gateway.put("/plugin_metadata/alpha", &json!({"forbid": "x"}));
    assert_eq!(gateway.problems(), ["/routes/1 /plugins/outer/text"]);
    assert_eq!(traced(&gateway), ["x@/routes/1!z#M"], "the earlier version stays");
    gateway.delete("/plugin_metadata/alpha");
    assert_eq!(traced(&gateway), ["x@/routes/1!#M"]);
}
