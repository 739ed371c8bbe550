//! Upstreams whose nodes a service has: DNS and Consul, changing while they are used.

use e2e::{Consul, Dns, Gateway, Message, Peer, Traffic, Upstream, eventually, free_ports};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A node that says its port.
fn node() -> Upstream {
    Upstream::serve(|mut peer, _| {
        let port = peer.stream().local_addr().unwrap().port().to_string();
        while peer.request().is_ok() {
            let length = port.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{port}");
            if peer.try_send(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

fn by(kind: &str, service: &str) -> Value {
    json!({ "type": "roundrobin", "discovery_type": kind, "service_name": service })
}

fn gateway(discovery: &Value) -> (Gateway, u16) {
    let [control] = free_ports();
    let gateway = Gateway::with(json!({
        "apisix": { "enable_control": true, "control": { "ip": "127.0.0.1", "port": control } },
        "discovery": discovery,
    }));
    (gateway, control)
}

fn with_dns(dns: &Dns) -> Gateway {
    gateway(&json!({ "dns": { "servers": [dns.address()] } })).0
}

/// Who answers, of some requests.
fn answering(gateway: &Gateway) -> BTreeSet<String> {
    let mut peer = gateway.connect();
    (0..8).map(|_| peer.get("/")).map(|answer: Message| answer.text()).collect()
}

fn until_answering(gateway: &Gateway, nodes: &[&Upstream]) {
    let expected: BTreeSet<String> = nodes.iter().map(|node| node.port.to_string()).collect();
    eventually("these nodes answer", || (answering(gateway) == expected).then_some(()));
}

#[test]
fn every_address_of_a_name_is_a_node() {
    let (dns, node) = (Dns::start(), node());
    dns.set("many.test", &["127.0.0.1", "127.0.0.2"], 60);
    let gateway = with_dns(&dns);
    let upstream = by("dns", &format!("many.test:{}", node.port));
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": upstream }));
    let mut peer = gateway.connect();
    // The first request waits for the name. Only 127.0.0.1 listens, so one of the two nodes refuses.
    let answer = peer.get("/");
    assert_eq!((answer.status(), answer.text()), (200, node.port.to_string()));
    assert!((0..4).all(|_| peer.get("/").status() == 200));
    let refused = gateway.stderr().matches("trying another node").count();
    assert!(refused >= 1, "127.0.0.2 was never asked");
}

#[test]
fn srv_records_give_ports_weights_and_priorities() {
    let (dns, first, second, reserve) = (Dns::start(), node(), node(), node());
    dns.set("a.test", &["127.0.0.1"], 60);
    let services =
        [(10, 3, first.port, "a.test"), (10, 1, second.port, "a.test"), (20, 1, reserve.port, "a.test")];
    dns.set_services("srv.test", &services, 60);
    let gateway = with_dns(&dns);
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": by("dns", "srv.test") }));
    let mut peer = gateway.connect();
    let mut counts = [0; 3];
    for _ in 0..40 {
        let port: u16 = peer.get("/").text().parse().unwrap();
        counts[[first.port, second.port, reserve.port].iter().position(|known| *known == port).unwrap()] += 1;
    }
    assert_eq!(counts, [30, 10, 0]);
}

#[test]
fn answers_that_change_every_second_fail_no_request() {
    let (dns, nodes) = (Dns::start(), [node(), node(), node()]);
    dns.set("a.test", &["127.0.0.1"], 60);
    let say = |node: &Upstream| dns.set_services("srv.test", &[(0, 1, node.port, "a.test")], 1);
    say(&nodes[0]);
    let gateway = with_dns(&dns);
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": by("dns", "srv.test") }));
    until_answering(&gateway, &[&nodes[0]]);
    let traffic = [(); 3].map(|()| Traffic::start(gateway.port, "/"));
    for node in [&nodes[1], &nodes[2], &nodes[0]] {
        say(node);
        until_answering(&gateway, &[node]);
    }
    // The service is gone, then the server: the last good answer stays.
    dns.forget("srv.test");
    let asked = dns.questions();
    eventually("it is asked for again", || (dns.questions() > asked + 2).then_some(()));
    dns.silence(true);
    until_answering(&gateway, &[&nodes[0]]);
    traffic.into_iter().for_each(Traffic::all_succeeded);
}

#[test]
fn upstreams_in_plugins_name_services_too() {
    let (dns, own, nodes) = (Dns::start(), node(), [node(), node()]);
    dns.set("a.test", &["127.0.0.1"], 60);
    let say = |node: &Upstream| dns.set_services("srv.test", &[(0, 1, node.port, "a.test")], 1);
    say(&nodes[0]);
    let gateway = with_dns(&dns);
    let split = json!({ "rules": [{ "weighted_upstreams": [{ "upstream": by("dns", "srv.test") }, {}] }] });
    let upstream = json!({ "nodes": { own.address(): 1 } });
    let route = json!({ "uri": "/*", "plugins": { "traffic-split": split }, "upstream": upstream });
    gateway.put("routes/1", &route);
    until_answering(&gateway, &[&nodes[0], &own]);
    say(&nodes[1]);
    until_answering(&gateway, &[&nodes[1], &own]);
}

#[test]
fn a_service_that_is_not_known_is_503() {
    let dns = Dns::start();
    let gateway = with_dns(&dns);
    gateway.put("routes/1", &json!({ "uri": "/dns", "upstream": by("dns", "none.test") }));
    gateway.put("routes/2", &json!({ "uri": "/nacos", "upstream": by("nacos", "none") }));
    assert_eq!(gateway.get("/dns").status(), 503);
    assert_eq!(gateway.get("/nacos").status(), 503);
    eventually("the log says why", || {
        gateway.stderr().contains("service discovery by \"nacos\" is not configured").then_some(())
    });
}

#[test]
fn requests_do_not_wait_for_a_consul_that_can_not_be_asked() {
    let [nobody] = free_ports();
    let (gateway, _) = gateway(&json!({ "consul": { "servers": [format!("http://127.0.0.1:{nobody}")] } }));
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": by("consul", "a") }));
    assert_eq!(gateway.get("/").status(), 503);
}

#[test]
fn consul_is_followed_while_requests_come() {
    let (consul, nodes) = (Consul::start(), [node(), node(), node()]);
    let ports = nodes.each_ref().map(|node| node.port);
    consul.set("service-a", &ports[..2]);
    let (gateway, control) =
        gateway(&json!({ "consul": { "servers": [consul.url()], "dump": { "path": "consul.dump" } } }));
    let mut upstream = by("consul", "service-a");
    upstream["checks"] = json!({ "active": { "type": "tcp" } });
    gateway.put("upstreams/1", &upstream);
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream_id": "1" }));
    until_answering(&gateway, &[&nodes[0], &nodes[1]]);
    let traffic = [(); 3].map(|()| Traffic::start(gateway.port, "/"));
    consul.set("service-a", &ports[1..]);
    until_answering(&gateway, &[&nodes[1], &nodes[2]]);

    let shown = |page: &str| Peer::connect(control).get_from("localhost", page).json();
    let dump = shown("/v1/discovery/consul/dump");
    assert_eq!(
        dump["services"]["service-a"][1],
        json!({ "host": "127.0.0.1", "port": ports[2], "weight": 1 })
    );
    assert_eq!(dump["services"].as_object().unwrap().len(), 1, "consul itself is left out");
    assert_eq!(shown("/v1/discovery/consul/show_dump_file")["services"], dump["services"]);
    let checked = shown("/v1/healthcheck/upstreams/1");
    let checked: BTreeSet<u64> =
        checked["nodes"].as_array().unwrap().iter().map(|node| node["port"].as_u64().unwrap()).collect();
    assert_eq!(checked, ports[1..].iter().map(|port| u64::from(*port)).collect());

    // A server that fails says nothing about its services.
    consul.break_down(true);
    eventually("the log tells", || gateway.stderr().contains("can't be asked").then_some(()));
    until_answering(&gateway, &[&nodes[1], &nodes[2]]);
    consul.break_down(false);
    consul.set("service-a", &ports[..1]);
    until_answering(&gateway, &[&nodes[0]]);
    traffic.into_iter().for_each(Traffic::all_succeeded);
    consul.set("service-a", &[]);
    eventually("it is gone", || (gateway.get("/").status() == 503).then_some(()));
}

#[test]
fn the_dump_serves_a_start_without_consul() {
    let (consul, node) = (Consul::start(), node());
    consul.set("a", &[node.port]);
    let (mut gateway, _) =
        gateway(&json!({ "consul": { "servers": [consul.url()], "dump": { "path": "consul.dump" } } }));
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": by("consul", "a") }));
    until_answering(&gateway, &[&node]);
    gateway.process().kill();
    consul.break_down(true);
    gateway.restart();
    assert_eq!(gateway.get("/").text(), node.port.to_string());
}

#[test]
fn health_and_routes_stay_as_nodes_change() {
    let (consul, nodes) = (Consul::start(), [node(), node()]);
    let [dead] = free_ports();
    consul.set("a", &[nodes[0].port, dead]);
    let (gateway, control) = gateway(&json!({ "consul": { "servers": [consul.url()] } }));
    let mut upstream = by("consul", "a");
    // One probe in an hour: what is known after the change was known before it.
    upstream["checks"] = json!({ "active": {
        "type": "tcp", "healthy": { "interval": 3600 }, "unhealthy": { "interval": 3600, "tcp_failures": 1 },
    } });
    gateway.put("upstreams/1", &upstream);
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream_id": "1" }));
    let states = || -> Vec<(u64, String)> {
        let shown = Peer::connect(control).get_from("localhost", "/v1/healthcheck/upstreams/1").json();
        let nodes = shown["nodes"].as_array().cloned().unwrap_or_default();
        let state =
            |node: &Value| (node["port"].as_u64().unwrap(), node["status"].as_str().unwrap().to_owned());
        nodes.iter().map(state).collect()
    };
    let unhealthy = (u64::from(dead), "unhealthy".to_owned());
    eventually("the dead node is known to be", || states().contains(&unhealthy).then_some(()));
    consul.set("a", &[nodes[0].port, nodes[1].port, dead]);
    eventually("the new node is there", || (states().len() == 3).then_some(()));
    assert!(states().contains(&unhealthy), "{:?}", states());
}
