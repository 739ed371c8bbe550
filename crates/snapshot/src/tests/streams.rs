//! Stream routes: which session goes where, and what they take from services.

use super::fixture::{Gateway, put};
use crate::{StreamFacts, StreamRoute};
use serde_json::{Value, json};
use std::sync::Arc;

fn find<'g>(
    gateway: &'g Gateway,
    client: &str,
    local: &str,
    name: Option<&str>,
) -> Option<&'g Arc<StreamRoute>> {
    let (client, local) = (client.parse().unwrap(), local.parse().unwrap());
    gateway.snapshot.streams.find(StreamFacts { client, local, server_name: name })
}

fn upstream(port: u16) -> Value {
    json!({"nodes": {format!("127.0.0.1:{port}"): 1}, "type": "roundrobin"})
}

#[test]
fn sessions_find_their_route() {
    let rows = [
        ("/stream_routes/1", json!({"remote_addr": "10.0.0.0/8"})),
        ("/stream_routes/2", json!({"server_port": 9101})),
        ("/stream_routes/3", json!({"server_addr": "127.0.0.2", "server_port": 9102})),
        ("/stream_routes/4", json!({"sni": "*.test.com"})),
        ("/stream_routes/5", json!({"sni": "a.test.com", "server_port": 2005})),
        ("/stream_routes/6", json!({"sni": "*.b.test.com"})),
        ("/stream_routes/7", json!({"sni": "A.TEST.COM", "server_port": 2006})),
    ];
    let gateway = Gateway::with(&rows);
    for (client, local, name, expected) in [
        ("10.1.1.1", "127.0.0.1:9100", None, Some("1")),
        ("127.0.0.1", "127.0.0.1:9100", None, None),
        ("127.0.0.1", "127.0.0.1:9101", None, Some("2")),
        ("127.0.0.1", "127.0.0.1:9102", None, None),
        ("127.0.0.1", "127.0.0.2:9102", None, Some("3")),
        ("10.1.1.1", "127.0.0.1:2005", Some("a.test.com"), Some("5")),
        ("10.1.1.1", "127.0.0.1:2006", Some("a.test.com"), Some("7")),
        ("10.1.1.1", "127.0.0.1:2007", Some("a.test.com"), Some("4")),
        ("10.1.1.1", "127.0.0.1:2005", Some("a.b.test.com"), Some("6")),
        ("10.1.1.1", "127.0.0.1:2005", Some("test.com"), Some("1")),
    ] {
        let found = find(&gateway, client, local, name).map(|route| route.info.id.as_str());
        assert_eq!(found, expected, "{client} {local} {name:?}");
    }
    assert_eq!(gateway.problems(), [""; 0]);
}

#[test]
fn routes_follow_their_services_and_upstreams() {
    let mut gateway = Gateway::with(&[("/stream_routes/1", json!({"service_id": "s"}))]);
    let route = |gateway: &Gateway| Arc::clone(find(gateway, "127.0.0.1", "127.0.0.1:9100", None).unwrap());
    assert!(route(&gateway).broken.is_some());

    let plugins = json!({"alpha": {"text": "of requests"}, "beta": {"text": "of both"}});
    gateway.put("/services/s", &json!({"plugins": plugins, "upstream_id": "u"}));
    assert!(route(&gateway).upstream.is_none());
    gateway.put("/upstreams/u", &upstream(1995));
    let found = route(&gateway);
    assert_eq!(found.upstream.as_ref().unwrap().nodes[0].port, 1995);
    let names: Vec<_> = found.chain.plugins().map(|plugin| &*plugin.def.name).collect();
    assert_eq!(names, ["beta"], "the plugins that streams have too");

    gateway.apply(&[put("/upstreams/u", &upstream(1996))]);
    assert_eq!(route(&gateway).upstream.as_ref().unwrap().nodes[0].port, 1996);
    gateway.put("/stream_routes/1", &json!({"service_id": "s", "upstream": upstream(1997)}));
    assert_eq!(route(&gateway).upstream.as_ref().unwrap().nodes[0].port, 1997);
    gateway.delete("/stream_routes/1");
    assert!(find(&gateway, "127.0.0.1", "127.0.0.1:9100", None).is_none());
}

#[test]
fn what_can_not_be_meant_is_refused() {
    let gateway = Gateway::with(&[
        ("/stream_routes/1", json!({"remote_addr": "10.0.0.0/99"})),
        ("/stream_routes/2", json!({"plugins": {"alpha": {"text": "of requests"}}})),
        ("/stream_routes/3", json!({"protocol": {"name": "redis"}})),
    ]);
    let expected = [
        "/stream_routes/1 /remote_addr",
        "/stream_routes/2 /plugins/alpha",
        "/stream_routes/3 /protocol/name",
    ];
    assert_eq!(gateway.problems(), expected);
}
