//! Nodes by name: asked for as their TTL says, and used on while nobody answers.

use e2e::{Dns, Gateway, Traffic, Upstream, eventually};
use serde_json::json;

fn gateway(dns: &Dns) -> Gateway {
    Gateway::with(json!({ "apisix": { "dns_resolver": [dns.address()] } }))
}

fn route(gateway: &Gateway, id: &str, name: &str, port: u16) {
    let upstream = json!({ "type": "roundrobin", "nodes": { format!("{name}:{port}"): 1 }, "retries": 2 });
    gateway.put(&format!("routes/{id}"), &json!({ "uri": format!("/{id}"), "upstream": upstream }));
}

#[test]
fn a_name_is_asked_for_when_its_ttl_is_over_and_no_sooner() {
    let (dns, node) = (Dns::start(), Upstream::hello());
    dns.set("long.test", &["127.0.0.1"], 60);
    let gateway = gateway(&dns);
    route(&gateway, "long", "long.test", node.port);
    for _ in 0..10 {
        assert_eq!(gateway.get("/long").status(), 200);
    }
    let asked = dns.questions();
    assert!(asked <= 2, "asked {asked} times");
    dns.set("short.test", &["127.0.0.1"], 1);
    route(&gateway, "short", "short.test", node.port);
    eventually("it is asked for again", || {
        assert_eq!(gateway.get("/short").status(), 200);
        (dns.questions() >= asked + 3).then_some(())
    });
}

#[test]
fn answers_that_change_and_fail_cost_no_request() {
    let (dns, node) = (Dns::start(), Upstream::hello());
    dns.set("a.test", &["127.0.0.1"], 1);
    let gateway = gateway(&dns);
    route(&gateway, "a", "a.test", node.port);
    assert_eq!(gateway.get("/a").status(), 200);
    let traffic = [(); 3].map(|()| Traffic::start(gateway.port, "/a"));
    let next = |count: usize| {
        let asked = dns.questions();
        eventually("it is asked for", || (dns.questions() >= asked + count).then_some(()));
    };
    // Of two addresses one refuses: retries go to the other.
    dns.set("a.test", &["127.0.0.1", "127.0.0.2"], 1);
    next(2);
    dns.set("a.test", &["127.0.0.1"], 1);
    next(2);
    dns.forget("a.test");
    next(2);
    dns.silence(true);
    next(2);
    assert_eq!(gateway.get("/a").status(), 200);
    traffic.into_iter().for_each(Traffic::all_succeeded);
}

#[test]
fn a_name_that_nobody_knows_disturbs_no_other() {
    let (dns, node) = (Dns::start(), Upstream::hello());
    dns.set("good.test", &["127.0.0.1"], 1);
    let gateway = gateway(&dns);
    route(&gateway, "good", "good.test", node.port);
    route(&gateway, "bad", "bad.test", node.port);
    let traffic = Traffic::start(gateway.port, "/good");
    for _ in 0..200 {
        assert_eq!(gateway.get("/bad").status(), 503);
    }
    assert!(dns.questions() < 50, "a bad name is asked for with every request");
    traffic.all_succeeded();
}
