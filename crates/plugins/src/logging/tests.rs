//! What holds for every logger.

use crate::{file_logger, http_logger, syslog, tcp_logger};
use delivery::Delivery;
use plugin::testkit::{self, Bench};
use plugin::{Chain, ConsumerInfo, Exchange, FileAccess, Flow, Ingredients, Parent, Registry, Reply};
use serde_json::{Map, Value, json};
use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;
use stdx::Folders;

const PATIENCE: Duration = Duration::from_secs(10);

fn registry() -> Registry {
    let files = FileAccess { log_roots: Folders::everything(), ..FileAccess::default() };
    Registry::new(crate::all(), Map::new()).expect("valid schemas").with_files(files)
}

/// Runs a request with `config` of file-logger, answered with `reply`: the lines that are written.
fn logged(config: Value, metadata: Option<&Value>, bench: &Bench, reply: &Reply) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut config = config;
    config["path"] = json!(path);
    let registry = registry();
    let parent = Parent { resource_key: "/routes/1", config_version: 1 };
    let ingredients = Ingredients { metadata, definitions: None };
    let plugin = registry.compile_one(&file_logger::def().name, &config, ingredients, parent).expect("valid");
    let chain = Chain::new(vec![plugin]);
    let mut exchange = bench.exchange();
    exchange.consumer =
        Some(Box::leak(Box::new(ConsumerInfo { name: "jack".to_owned(), ..ConsumerInfo::default() })));
    assert_eq!(testkit::access(&chain, &mut exchange), 0);
    assert_eq!(testkit::reply(&chain, &mut exchange, reply), reply.body.clone().unwrap(), "passes as it is");
    log(&chain, &exchange);
    registry.shared.get::<Delivery>().finish(PATIENCE);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn log(chain: &Chain, exchange: &Exchange<'_>) {
    chain.log.iter().for_each(|step| step.hook.log(exchange));
}

fn bench() -> Bench {
    Bench::new("POST /a?b=c&b=d\nHost: a.com\nX-A: 1\nX-A: 2\nContent-Length: 5").with_body("hello")
}

fn reply() -> Reply {
    Reply::text(200, "world").with_header("X-B", "3")
}

#[test]
fn the_default_entry_has_apisix_members() {
    let mut entries = logged(json!({}), None, &bench(), &reply());
    let mut entry = entries.remove(0);
    for changing in ["start_time", "latency", "apisix_latency"] {
        assert!(entry[changing].is_number(), "{entry}");
        entry.as_object_mut().unwrap().remove(changing);
    }
    let expected = json!({
        "request": {
            "url": "http://a.com:9080/a?b=c&b=d", "uri": "/a?b=c&b=d", "method": "POST",
            "headers": {"host": "a.com", "x-a": ["1", "2"], "content-length": "5"},
            "querystring": {"b": ["c", "d"]}, "size": entry["request"]["size"]
        },
        "response": {
            "status": 200, "headers": {"x-b": "3", "content-type": "text/plain; charset=utf-8"}, "size": 0
        },
        "server": {"hostname": "gateway", "version": env!("CARGO_PKG_VERSION")},
        "service_id": "", "route_id": "1", "consumer": {"username": "jack"}, "client_ip": "127.0.0.1"
    });
    assert_eq!(entry, expected);
}

#[test]
fn bodies_are_logged_where_they_are_asked_for() {
    for (config, request, response) in [
        (json!({}), None, None),
        (json!({"include_req_body": true, "include_resp_body": true}), Some("hello"), Some("world")),
        (json!({"include_resp_body": true, "max_resp_body_bytes": 2}), None, Some("wo")),
        (json!({"include_req_body": true, "max_req_body_bytes": 4}), None, None),
        (
            json!({"include_req_body": true, "include_req_body_expr": [["arg_b", "==", "c"]]}),
            Some("hello"),
            None,
        ),
        (json!({"include_req_body": true, "include_req_body_expr": [["arg_b", "==", "x"]]}), None, None),
        (
            json!({"include_resp_body": true, "include_resp_body_expr": [["status", "==", 200]]}),
            None,
            Some("world"),
        ),
        (json!({"include_resp_body": true, "include_resp_body_expr": [["status", "==", 201]]}), None, None),
    ] {
        let entry = logged(config.clone(), None, &bench(), &reply()).remove(0);
        assert_eq!(entry["request"].get("body").and_then(Value::as_str), request, "{config}");
        assert_eq!(entry["response"].get("body").and_then(Value::as_str), response, "{config}");
    }
}

#[test]
fn entries_may_be_laid_out() {
    let metadata = json!({"log_format": {"m": "$host"}, "log_format_extra": {"x": "$uri"}});
    for (config, metadata, expected) in [
        (
            json!({"log_format": {"u": "$uri", "b": "$request_body", "s": "$sent_http_x_b", "n": "$none"}}),
            Some(&metadata),
            json!({"u": "/a", "b": "hello", "s": "3", "route_id": "1"}),
        ),
        (json!({}), Some(&metadata), json!({"m": "a.com", "route_id": "1"})),
    ] {
        assert_eq!(logged(config, metadata, &bench(), &reply()), [expected]);
    }
    let config = json!({"log_format_extra": {"x": "$uri", "upstream": "own", "route_id": "other"}});
    let entry = logged(config, None, &bench(), &reply()).remove(0);
    assert_eq!(
        (&entry["x"], &entry["upstream"], &entry["route_id"]),
        (&json!("/a"), &json!("own"), &json!("1"))
    );
}

#[test]
fn conditions_choose_what_is_logged() {
    for (conditions, count) in
        [(json!([[["status", "==", 404]]]), 0), (json!([[["status", "==", 404]], [["arg_b", "==", "c"]]]), 1)]
    {
        assert_eq!(
            logged(json!({"match": conditions}), None, &bench(), &reply()).len(),
            count,
            "{conditions}"
        );
    }
}

#[test]
fn a_body_is_asked_for_once() {
    let registry = registry();
    let config = json!({"file-logger": {"path": "/tmp/x", "include_req_body": true}});
    let chain = testkit::chain(&registry, &config).expect("valid");
    let unread = Bench::new("POST /\nContent-Length: 5");
    let flow = chain.access[0].hook.access(&mut unread.exchange());
    assert!(matches!(flow, Flow::Body(524_288)), "{flow:?}");
    let flow = chain.access[0].hook.access(&mut bench().exchange());
    assert!(matches!(flow, Flow::Next), "{flow:?}");
}

#[test]
fn batches_reach_a_tcp_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let format = json!({"uri": "$uri"});
    for (plugin, batch, expected) in [
        (&tcp_logger::def().name, 2, r#"[{"uri":"/a","route_id":"1"},{"uri":"/a","route_id":"1"}]"#),
        (&tcp_logger::def().name, 1, r#"{"uri":"/a","route_id":"1"}"#),
        (&syslog::def().name, 1, "+00:00 a.com apisix 1 - - {\"uri\":\"/a\",\"route_id\":\"1\"}\n"),
    ] {
        let registry = registry();
        let config =
            json!({"host": "127.0.0.1", "port": port, "batch_max_size": batch, "log_format": format});
        let chain = testkit::chain(&registry, &json!({ &**plugin: config })).expect("valid");
        let bench = bench();
        (0..batch).for_each(|_| log(&chain, &bench.exchange()));
        let mut got = String::new();
        listener.accept().unwrap().0.read_to_string(&mut got).unwrap();
        match &**plugin {
            "syslog" => {
                let (head, rest) = got.split_at(6);
                assert_eq!(head, "<46>1 ");
                let (_, after) = rest.split_once(' ').unwrap();
                assert!(expected.ends_with(after), "{got}");
            }
            _ => assert_eq!(got, expected),
        }
    }
}

#[test]
fn configurations_are_checked() {
    let registry = registry();
    let refused = |plugin: &str, config: Value| {
        let plugins = json!({ plugin: config });
        registry.check(plugins.as_object().unwrap()).first().map(|error| error.path.clone())
    };
    for (config, path) in [
        (json!({"uri": "http://a.com/x"}), None),
        (json!({"uri": "http://[::1]:80", "batch_max_size": 1, "name": "n"}), None),
        (json!({}), Some("/http-logger")),
        (json!({"uri": "a.com"}), Some("/http-logger/uri")),
        (json!({"uri": "http://a.com", "batch_max_size": 0}), Some("/http-logger/batch_max_size")),
        (json!({"uri": "http://a.com", "concat_method": "x"}), Some("/http-logger/concat_method")),
        (
            json!({"uri": "http://a.com", "include_resp_body_expr": [["a"]]}),
            Some("/http-logger/include_resp_body_expr"),
        ),
    ] {
        let found = refused(&http_logger::def().name, config.clone());
        assert_eq!(found.is_some(), path.is_some(), "{config}: {found:?}");
        assert!(found.is_none_or(|found| found.starts_with(path.unwrap_or_default())), "{config}");
    }
    for (name, expr) in [("include_req_body_expr", json!([[]])), ("match", json!([[[]]]))] {
        let config = json!({"file-logger": {"path": "logs/a", name: expr}});
        let message = format!("failed to validate the '{name}' expression: rule too short");
        let errors = registry.check(config.as_object().unwrap());
        assert!(errors.iter().any(|error| error.message.contains(&message)), "{config}: {errors:?}");
    }
    let port = json!({"host": "a.com", "port": 65_536});
    assert_eq!(refused(&tcp_logger::def().name, port).as_deref(), Some("/tcp-logger/port"));
    assert_eq!(refused(&file_logger::def().name, json!({})), None, "its metadata may have a path");
    for (metadata, valid) in
        [(json!({"max_pending_entries": 1}), true), (json!({"max_pending_entries": 0}), false)]
    {
        let report = registry.check_metadata(&http_logger::def().name, &metadata).unwrap();
        assert_eq!(report.is_ok(), valid);
    }
}
