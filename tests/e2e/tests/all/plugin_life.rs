//! What plugins have running beside requests, seen through `example-plugin`, which logs it.

use e2e::{Gateway, Upstream, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Counts the lines of the error log that end in `text`.
fn count(gateway: &Gateway, text: &str) -> usize {
    gateway.stderr().lines().filter(|line| line.ends_with(text)).count()
}

/// Waits until the error log has `wanted` lines that end in `text`.
fn said(gateway: &Gateway, text: &str, wanted: usize) {
    eventually(text, || (count(gateway, text) >= wanted).then_some(()));
    assert_eq!(count(gateway, text), wanted, "{text}");
}

fn route(upstream: &Upstream, i: u64) -> Value {
    let nodes = json!({ "nodes": { upstream.address(): 1 }, "type": "roundrobin" });
    json!({ "uri": "/*", "upstream": nodes, "plugins": { "example-plugin": { "i": i } } })
}

#[test]
fn plugins_live_as_long_as_what_they_belong_to() {
    let upstream = Upstream::hello();
    let mut gateway = Gateway::with(json!({
        "nginx_config": { "worker_processes": 2, "error_log_level": "info" },
        "plugin_attr": { "example-plugin": { "val": 1 } },
    }));
    let attribute = "example-plugin get plugin attr val: 1";
    let stopped = "example-plugin stopped in the process";
    said(&gateway, attribute, 1);
    for worker in 0..2 {
        said(&gateway, &format!("example-plugin started on worker {worker}"), 1);
    }
    let used = |i: u64| format!("configuration in use, conf: {{\"i\":{i}.0}}");
    let unused = |i: u64| format!("configuration no longer in use, conf: {{\"i\":{i}.0}}");
    gateway.put("routes/1", &route(&upstream, 1));
    said(&gateway, &used(1), 1);
    assert_eq!(gateway.get("/").status(), 200);
    // Another route, and a reload that is about something else, change nothing.
    let nodes = json!({ "nodes": { upstream.address(): 1 }, "type": "roundrobin" });
    gateway.put("routes/2", &json!({ "uri": "/b", "upstream": nodes }));
    gateway.reload(&json!({ "nginx_config": { "http": { "client_max_body_size": 10 } } }));
    gateway.put("routes/1", &route(&upstream, 2));
    said(&gateway, &used(2), 1);
    said(&gateway, &unused(1), 1);
    assert_eq!(count(&gateway, &used(1)), 1);
    gateway.admin("DELETE", "routes/1", &Value::Null);
    said(&gateway, &unused(2), 1);
    gateway.put("routes/1", &route(&upstream, 3));
    said(&gateway, &used(3), 1);
    // Without the plugin its configurations go, then its workers' part, then the process's.
    gateway.reload(&json!({ "plugins": ["prometheus"] }));
    said(&gateway, &unused(3), 1);
    for worker in 0..2 {
        said(&gateway, &format!("example-plugin stopped on worker {worker}"), 1);
    }
    said(&gateway, stopped, 1);
    assert_eq!(gateway.get("/").status(), 200, "the route stays");
    gateway.reload(&json!({}));
    said(&gateway, attribute, 2);
    said(&gateway, &used(3), 2);
    gateway.process().signal(Signal::TERM);
    eventually("it has ended", || gateway.process().ended());
    said(&gateway, &unused(3), 2);
    said(&gateway, stopped, 2);
    let log = gateway.stderr();
    let last = |text: &str| log.rfind(text).expect("it was said");
    assert!(
        last(&unused(3)) < last("stopped on worker") && last("stopped on worker") < last(stopped),
        "{log}"
    );
}
