#![expect(clippy::needless_pass_by_value, reason = "tables of `json!` read better by value")]

use super::*;
use proptest::prelude::*;
use serde_json::{Map, json};

/// `extra` over a route that is fine.
fn route(extra: Value) -> Value {
    over(json!({ "uri": "/index.html", "upstream": { "nodes": { "127.0.0.1:8080": 1 } } }), extra)
}

/// `extra` over an upstream that is fine.
fn upstream(extra: Value) -> Value {
    over(json!({ "nodes": { "127.0.0.1:8080": 1 }, "type": "roundrobin" }), extra)
}

fn over(mut base: Value, extra: Value) -> Value {
    base.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    base.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    base
}

fn checks(checks: Value) -> Value {
    route(json!({ "upstream": upstream(json!({ "checks": checks })) }))
}

#[track_caller]
fn refuses(kind: Kind, value: &Value, expected: &str) {
    let report = check_resource(kind, value);
    assert_eq!(report.first.as_deref(), Some(expected), "{value}");
    assert!(!report.errors.is_empty());
}

#[test]
fn refusals_of_routes_and_services_are_worded_as_apisix_words_them() {
    let invalid = |rest: &str| format!("invalid configuration: {rest}");
    for (extra, line) in [
        (
            json!({"id": "not valid"}),
            "property \"id\" validation failed: object matches none of the required",
        ),
        (json!({"id": 0}), "property \"id\" validation failed: object matches none of the required"),
        (
            json!({"uri": ""}),
            "property \"uri\" validation failed: string too short, expected at least 1, got 0",
        ),
        (json!({"uri": 1}), "property \"uri\" validation failed: wrong type: expected string, got number"),
        (
            json!({"uri": (), "uris": "/a"}),
            "property \"uris\" validation failed: wrong type: expected array, got string",
        ),
        (
            json!({"uri": (), "uris": ["/a", "/a"]}),
            "property \"uris\" validation failed: expected unique items but items 1 and 2 are equal",
        ),
        (
            json!({"uri": (), "uris": []}),
            "property \"uris\" validation failed: expect array to have at least 1 items",
        ),
        (json!({"uri": ()}), "allOf 1 failed: value should match only one schema, but matches none"),
        (
            json!({"methods": ["XX"]}),
            "property \"methods\" validation failed: failed to validate item 1: \
            matches none of the enum values",
        ),
        (
            json!({"host": "a b"}),
            "property \"host\" validation failed: failed to match pattern \
            \"^\\\\*$|^\\\\*?[0-9a-zA-Z-._\\\\[\\\\]:]+$\" with \"a b\"",
        ),
        (
            json!({"remote_addr": "127.0.0."}),
            "property \"remote_addr\" validation failed: \
            object matches none of the required",
        ),
        (
            json!({"remote_addrs": ["127.0.0.1", "1.1.1.1/33"]}),
            "property \"remote_addrs\" validation failed: \
            failed to validate item 2: object matches none of the required",
        ),
        (json!({"status": 2}), "property \"status\" validation failed: matches none of the enum values"),
        (
            json!({"service_id": "invalid_id$"}),
            "property \"service_id\" validation failed: \
            object matches none of the required",
        ),
        (
            json!({"labels": {"env": ["prod", "release"]}}),
            "property \"labels\" validation failed: \
            failed to validate env (matching \".*\"): wrong type: expected string, got table",
        ),
        (
            json!({"labels": "a"}),
            "property \"labels\" validation failed: wrong type: expected object, got string",
        ),
        (
            json!({"name": "n".repeat(257)}),
            "property \"name\" validation failed: string too long, \
            expected at most 256, got 257",
        ),
        (
            json!({"timeout": {"connect": 0, "send": 1, "read": 1}}),
            "property \"timeout\" validation failed: \
            property \"connect\" validation failed: expected 0 to be greater than 0",
        ),
        (json!({"nosuch": 1}), "additional properties forbidden, found nosuch"),
        (json!({"script": "return {} --", "plugins": {}}), "value wasn't supposed to match schema"),
    ] {
        refuses(Kind::Route, &route(extra), &invalid(line));
    }
    for extra in [json!({"host": "a", "hosts": ["b"]}), json!({"hosts": "wrong", "host": "a"})] {
        refuses(Kind::Route, &route(extra), "only one of host or hosts is allowed");
    }
    refuses(
        Kind::Route,
        &route(json!({"remote_addr": "127.0.0.1", "remote_addrs": []})),
        "only one of remote_addr or remote_addrs is allowed",
    );
    let unhandled = json!({ "uri": "/a" });
    let line = check_resource(Kind::Route, &unhandled).first.unwrap();
    assert!(line.starts_with(
        "invalid configuration: object matches none of the required: [\"plugins\",\"uri\"] or "
    ));
    refuses(
        Kind::Service,
        &json!({"upstream_id": "invalid$"}),
        &invalid("property \"upstream_id\" validation failed: object matches none of the required"),
    );
    refuses(Kind::PluginConfig, &json!({"id": "1"}), &invalid("property \"plugins\" is required"));
    refuses(
        Kind::GlobalRule,
        &json!({"id": "1", "plugins": {}, "name": "n"}),
        &invalid("additional properties forbidden, found name"),
    );
    refuses(Kind::PluginMetadata, &json!(1), &invalid("wrong type: expected object, got number"));
}

#[test]
fn refusals_of_upstreams_are_worded_as_apisix_words_them() {
    let invalid = |rest: &str| format!("invalid configuration: {rest}");
    let short = "x".repeat(10);
    let certificate = "x".repeat(200);
    for (extra, line) in [
        (json!({"nodes": "a"}), "property \"nodes\" validation failed: object matches none of the required"),
        (
            json!({"nodes": {"127.0.0.1:80": -1}}),
            "property \"nodes\" validation failed: object matches none of the required",
        ),
        (
            json!({"nodes": [{"host": "a", "port": 0, "weight": 1}]}),
            "property \"nodes\" validation failed: object matches none of the required",
        ),
        (json!({"nodes": ()}), "value should match only one schema, but matches none"),
        (json!({"retries": -1}), "property \"retries\" validation failed: expected -1 to be at least 0"),
        (
            json!({"retry_timeout": -1}),
            "property \"retry_timeout\" validation failed: expected -1 to be at least 0",
        ),
        (
            json!({"keepalive_pool": {"size": 0}}),
            "property \"keepalive_pool\" validation failed: \
            property \"size\" validation failed: expected 0 to be at least 1",
        ),
        (
            json!({"hash_on": "aabbcc"}),
            "property \"hash_on\" validation failed: matches none of the enum values",
        ),
        (
            json!({"tls": {"client_cert": short, "client_key": "k".repeat(64)}}),
            "property \"tls\" validation failed: \
            property \"client_cert\" validation failed: string too short, expected at least 128, got 10",
        ),
        (
            json!({"tls": {"client_cert": certificate}}),
            "property \"tls\" validation failed: failed to validate \
            dependent schema for \"client_cert\": property \"client_key\" is required",
        ),
        (
            json!({"nodes": [{"host": "::1", "port": 80, "weight": 1}]}),
            "IPv6 address must be enclosed with '[' and ']'",
        ),
        (
            json!({"type": "chash", "hash_on": "header", "key": "$#^@"}),
            "failed to match pattern \"^[a-zA-Z0-9-_]+$\" with \"$#^@\"",
        ),
        (
            json!({"type": "chash", "key": "not_support"}),
            "failed to match pattern \"^((uri|server_name|server_addr|\
            request_uri|remote_port|remote_addr|query_string|host|hostname|mqtt_client_id)|arg_[0-9a-zA-z_-]+)$\" \
            with \"not_support\"",
        ),
    ] {
        refuses(Kind::Upstream, &upstream(extra), &invalid(line));
    }
    let rewrite = "`upstream_host` can't be empty when `pass_host` is `rewrite`";
    for (extra, line) in [
        (json!({"nodes": {"127.0.0.1:0": 1}}), "invalid port 0"),
        (json!({"nodes": {"a:65536": 1}}), "invalid port 65536"),
        (json!({"pass_host": "rewrite"}), rewrite),
        (json!({"type": "chash"}), "missing key"),
    ] {
        refuses(Kind::Upstream, &upstream(extra.clone()), line);
        refuses(Kind::Route, &route(json!({ "upstream": upstream(extra) })), line);
    }
}

#[test]
fn refusals_of_health_checks_are_worded_as_apisix_words_them() {
    let healthy = |healthy: Value| json!({ "active": { "http_path": "/status", "healthy": healthy } });
    let prefix = "invalid configuration: property \"upstream\" validation failed: property \"checks\" validation failed: ";
    for (value, line) in [
        (json!({}), "object matches none of the required: [\"active\"] or [\"active\",\"passive\"]"),
        (
            json!({"active": {"type": "abc"}}),
            "property \"active\" validation failed: property \"type\" validation \
            failed: matches none of the enum values",
        ),
        (
            json!({"active": {"req_headers": ["a", 1]}}),
            "property \"active\" validation failed: property \"req_headers\" \
            validation failed: failed to validate item 2: wrong type: expected string, got number",
        ),
        (
            json!({"active": {"unhealthy": {"http_failures": 3.1}}}),
            "property \"active\" validation failed: property \
            \"unhealthy\" validation failed: property \"http_failures\" validation failed: wrong type: expected \
            integer, got number",
        ),
        (
            healthy(json!({"successes": 255})),
            "property \"active\" validation failed: property \"healthy\" validation \
            failed: property \"successes\" validation failed: expected 255 to be at most 254",
        ),
        (
            healthy(json!({"http_statuses": [200, 200]})),
            "property \"active\" validation failed: property \"healthy\" \
            validation failed: property \"http_statuses\" validation failed: expected unique items but items 1 and 2 \
            are equal",
        ),
        (
            json!({"active": {}, "passive": {"unhealthy": {"http_statuses": [500, 600]}}}),
            "property \"passive\" \
            validation failed: property \"unhealthy\" validation failed: property \"http_statuses\" validation failed: \
            failed to validate item 2: expected 600 to be at most 599",
        ),
    ] {
        refuses(Kind::Route, &checks(value), &format!("{prefix}{line}"));
    }
}

#[test]
fn all_mistakes_are_listed_with_their_paths() {
    let value = json!({
        "uri": "/a",
        "methods": ["GET", "GIT"],
        "upstream": { "type": "chash", "pass_host": "rewrite", "nodes": [{ "host": "::1" }, { "host": "a", "weight": 1.5 }] },
    });
    let report = check_resource(Kind::Route, &value);
    let errors: Vec<_> = report.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "/methods/1: matches none of the enum values",
            "/upstream/nodes/0: property \"weight\" is required",
            "/upstream/nodes/1/weight: wrong type: expected integer, got number",
            "/upstream/nodes/0/host: IPv6 address must be enclosed with '[' and ']'",
            "/upstream/upstream_host: `upstream_host` can't be empty when `pass_host` is `rewrite`",
            "/upstream/key: missing key",
        ]
    );
}

#[test]
fn what_apisix_takes_is_taken() {
    for value in [
        json!({"uri": "/hello", "plugins": {}}),
        json!({"uri": "/hello", "plugins": [], "methods": {}, "vars": {}}),
        json!({"uris": ["/a", "/b/*"], "service_id": 1, "priority": 10.0, "hosts": ["*", "*.a.com", "[::1]"]}),
        route(json!({"remote_addrs": ["127.0.0.1", "10.0.0.0/8", "::1", "fe80::/32"], "labels": {"a": "ü"}})),
        route(json!({"upstream": {"service_name": "s", "discovery_type": "dns", "type": "ewma"}})),
        route(
            json!({"upstream": upstream(json!({"nodes": [{"host": "[::1]", "weight": 0, "priority": -1}]}))}),
        ),
        route(json!({"upstream": upstream(json!({"type": "chash", "key": "arg_device-id"}))})),
        route(json!({"upstream": upstream(json!({"type": "chash", "hash_on": "consumer"}))})),
        route(json!({"upstream": upstream(json!({"nodes": {"a:80": 1, "[::1]:80": 1, "b": 0, "::1": 1}}))})),
        checks(json!({"active": {"http_path": "/status", "host": "foo.com"}, "passive": {}})),
    ] {
        assert_eq!(check_resource(Kind::Route, &value), Report::default(), "{value}");
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    let report = check_resource(Kind::Upstream, &upstream(json!({"nodes": {"a:80": 5_000_000_000_u64}})));
    assert!(report.first.unwrap().starts_with("invalid configuration: "));
}

#[test]
fn defaults_are_apisixs() {
    let mut value = json!({"nodes": [{"host": "a", "weight": 1}], "keepalive_pool": {}, "checks": {"active": {"healthy": {}}}});
    validator(Kind::Upstream).apply_defaults(&mut value);
    let expected = json!({
        "nodes": [{"host": "a", "weight": 1, "priority": 0}],
        "keepalive_pool": {"size": 320, "idle_timeout": 60, "requests": 1000},
        "checks": {"active": {
            "healthy": {"interval": 1, "http_statuses": [200, 302], "successes": 2},
            "type": "http", "timeout": 1, "concurrency": 10, "http_method": "GET", "http_path": "/",
            "http_req_body": "", "https_verify_certificate": true,
        }},
        "type": "roundrobin", "hash_on": "vars", "scheme": "http", "pass_host": "pass",
    });
    assert_eq!(value, expected);
}

#[test]
fn unknown_fields_of_open_objects_are_told() {
    let value = route(
        json!({"upstream": upstream(json!({"checks": {"active": {"colour": 1}}, "keepalive_pool": {"x": 1}})),
        "plugins": {"any": {"thing": 1}}, "labels": {"a": "b"}}),
    );
    assert_eq!(
        validator(Kind::Route).unknown_fields(&value),
        ["/upstream/checks/active/colour", "/upstream/keepalive_pool/x"]
    );
}

/// JSON whose fields are often those that schemas name.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9:.$/\\[\\]*-]{0,12}".prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        Just(json!("chash")),
        Just(json!("rewrite")),
    ];
    let name = prop_oneof![
        4 => prop::sample::select(vec![
            "id", "uri", "uris", "host", "hosts", "remote_addr", "methods", "upstream", "nodes", "weight", "port",
            "type", "key", "hash_on", "pass_host", "plugins", "labels", "timeout", "connect", "checks", "active",
            "passive", "healthy", "unhealthy", "http_statuses", "keepalive_pool", "tls", "client_cert", "vars",
        ])
        .prop_map(str::to_owned),
        1 => ".{0,6}",
    ];
    leaf.prop_recursive(6, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_panics_and_what_passes_can_be_used(value in any_json()) {
        for kind in Kind::ALL {
            let report = check_resource(kind, &value);
            prop_assert_eq!(report.is_ok(), report.errors.is_empty());
            let _ = validator(kind).unknown_fields(&value);
            let mut filled = value.clone();
            validator(kind).apply_defaults(&mut filled);
            if report.is_ok() {
                // Filling in twice changes nothing more, and what is filled in is acceptable.
                prop_assert!(check_resource(kind, &filled).is_ok());
                let mut again = filled.clone();
                validator(kind).apply_defaults(&mut again);
                prop_assert_eq!(again, filled);
            }
        }
    }
}
