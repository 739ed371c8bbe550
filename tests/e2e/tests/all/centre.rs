//! A fleet on one etcd: what each writes, all have; and what happens when etcd goes away.

use e2e::{Etcd, Gateway, Upstream, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn node(members: &[&Etcd]) -> Gateway {
    Gateway::with(Etcd::deployment(members, 5))
}

/// A route to `upstream` under its own path.
fn route(uri: &str, upstream: &Upstream) -> Value {
    json!({ "uri": uri, "upstream": { "nodes": { upstream.address(): 1 }, "type": "roundrobin" } })
}

fn until_status(gateway: &Gateway, path: &str, status: u16) {
    eventually("the node has the change", || (gateway.get(path).status() == status).then_some(()));
}

fn readiness(gateway: &Gateway) -> Value {
    e2e::Peer::connect(gateway.status_port).get_from("localhost", "/status/ready").json()
}

/// How long etcd is paused: long enough for every timeout on the way; the full half minute where it is asked for.
fn pause() -> Duration {
    let seconds = std::env::var("TIDEGATE_E2E_PAUSE_S").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(4))
}

#[test]
fn nodes_without_a_keyring_read_each_others_secrets() {
    let (etcd, upstream) = (Etcd::start(), Upstream::hello());
    for keyring in [None, Some("a-key-that-nodes-have-in-common")] {
        let mut config = Etcd::deployment(&[&etcd], 5);
        config["apisix"] =
            keyring.map_or(json!({}), |key| json!({ "data_encryption": { "keyring": [key] } }));
        let (a, b) = (Gateway::with(config.clone()), Gateway::with(config));
        a.put("consumers", &json!({ "username": "jack", "plugins": { "key-auth": { "key": "jacks-key" } } }));
        let mut guarded = route("/guarded", &upstream);
        guarded["plugins"] = json!({ "key-auth": {} });
        a.put("routes/guarded", &guarded);
        for gateway in [&a, &b] {
            eventually("the consumer is known", || {
                let mut client = gateway.connect();
                client.send("GET /guarded HTTP/1.1\r\nHost: a\r\napikey: jacks-key\r\n\r\n");
                (client.response().status() == 200).then_some(())
            });
            assert_eq!(gateway.stderr().contains("without encryption"), keyring.is_none());
        }
    }
}

#[test]
fn nodes_share_one_configuration_with_apisixs_keys() {
    let (etcd, upstream) = (Etcd::start(), Upstream::hello());
    // What APISIX leaves there at its start, a route of its writing, and something that nobody can use.
    etcd.put("/apisix/routes/", "init_dir");
    let mut lua = route("/lua", &upstream);
    // Lua writes an empty table so, whatever it was.
    lua["plugins"] = json!([]);
    etcd.put("/apisix/routes/lua", &lua.to_string());
    etcd.put("/apisix/routes/broken", "{\"uri\": 5}");
    etcd.put("/apisix/routes/cut", "{\"uri\": \"/cu");
    let (a, b) = (node(&[&etcd]), node(&[&etcd]));
    assert_eq!((a.get("/lua").status(), b.get("/lua").status()), (200, 200));
    assert!(a.metrics().contains("apisix_config_values_skipped 2"), "{}", a.metrics());
    // A node tells the others of itself once it serves.
    eventually("both nodes have it", || {
        let answer = a.admin("PUT", "routes/1?wait=all", &route("/one", &upstream));
        (answer.field("x-applied") == Some("all; nodes=2")).then_some(())
    });
    assert_eq!(b.get("/one").status(), 200, "it was waited for");
    let txn = json!({ "operations": [{ "op": "patch", "key": "/routes/1", "value": { "uri": "/two" } }] });
    let answer = a.admin("POST", "txn?wait=all&timeout=5s", &txn);
    assert_eq!(
        (answer.status(), answer.field("x-applied")),
        (200, Some("all; nodes=2")),
        "{}",
        answer.text()
    );
    assert_eq!(b.get("/two").status(), 200, "it was waited for");
    let before = answer.json()["revision"].as_u64().unwrap() - 1;
    let back = a.admin("POST", &format!("history/{before}/rollback?key=/routes/1&wait=all"), &Value::Null);
    assert_eq!((back.status(), back.field("x-applied")), (200, Some("all; nodes=2")), "{}", back.text());
    assert_eq!(b.get("/one").status(), 200, "it was waited for");

    let stored: Value = serde_json::from_str(&etcd.get("/apisix/routes/1").unwrap()).unwrap();
    assert_eq!(stored["id"], "1");
    assert!(stored["create_time"].is_u64() && stored["uri"] == "/one", "{stored}");
    assert_eq!(b.admin("DELETE", "routes/1", &Value::Null).status(), 200);
    until_status(&a, "/one", 404);
    etcd.put("/apisix/routes/broken", &route("/mended", &upstream).to_string());
    until_status(&a, "/mended", 200);

    // A lease makes it go by itself.
    a.admin("PUT", "routes/2?ttl=2", &route("/short", &upstream));
    until_status(&b, "/short", 200);
    until_status(&b, "/short", 404);
}

#[test]
fn a_write_is_visible_on_the_second_node_in_a_moment() {
    let (etcd, upstream) = (Etcd::start(), Upstream::hello());
    let (a, b) = (node(&[&etcd]), node(&[&etcd]));
    let mut connection = b.connect();
    let mut delays: Vec<Duration> = (0..21)
        .map(|n| {
            let path = format!("/r{n}");
            a.put(&format!("routes/{n}"), &route(&path, &upstream));
            let begin = Instant::now();
            while connection.get(&path).status() != 200 {
                std::thread::sleep(Duration::from_millis(1));
            }
            begin.elapsed()
        })
        .collect();
    delays.sort_unstable();
    assert!(delays[10] < Duration::from_millis(50), "median {:?} of {delays:?}", delays[10]);
}

#[test]
fn etcd_killed_and_started_again_costs_no_request() {
    let (mut etcd, upstream) = (Etcd::start(), Upstream::hello());
    let (a, b) = (node(&[&etcd]), node(&[&etcd]));
    a.put("routes/1?wait=all", &route("/one", &upstream));
    let traffic = [&a, &b].map(|node| e2e::Traffic::start(node.port, "/one"));
    etcd.kill();
    let refused = a.admin("PUT", "routes/2", &route("/two", &upstream));
    assert_eq!(refused.status(), 503, "{}", refused.text());
    assert!(refused.text().contains("etcd"), "{}", refused.text());
    eventually("the node says that it lost etcd", || {
        (readiness(&a)["config_center"]["state"] == "lost").then_some(())
    });
    assert!(a.metrics().contains("apisix_etcd_reachable 0"));
    etcd.restart();
    eventually("a write succeeds", || {
        (a.admin("PUT", "routes/2", &route("/two", &upstream)).status() < 300).then_some(())
    });
    until_status(&b, "/two", 200);
    eventually("all is well again", || (readiness(&a) == json!({ "status": "ok" })).then_some(()));
    assert!(a.metrics().contains("apisix_etcd_reachable 1"));
    traffic.into_iter().for_each(e2e::Traffic::all_succeeded);
}

#[test]
fn etcd_paused_costs_no_request() {
    let (etcd, upstream) = (Etcd::start(), Upstream::hello());
    let a = Gateway::with(Etcd::deployment(&[&etcd], 1));
    let b = node(&[&etcd]);
    a.put("routes/1?wait=all", &route("/one", &upstream));
    let traffic = [&a, &b].map(|node| e2e::Traffic::start(node.port, "/one"));
    etcd.signal(Signal::STOP);
    let refused = a.admin("PUT", "routes/2", &route("/two", &upstream));
    assert_eq!(refused.status(), 503, "{}", refused.text());
    std::thread::sleep(pause());
    etcd.signal(Signal::CONT);
    eventually("a write succeeds", || {
        (a.admin("PUT", "routes/3", &route("/three", &upstream)).status() < 300).then_some(())
    });
    until_status(&b, "/three", 200);
    traffic.into_iter().for_each(e2e::Traffic::all_succeeded);
}

#[test]
fn a_node_behind_a_compaction_takes_in_what_it_missed() {
    let (mut etcd, upstream) = (Etcd::start(), Upstream::hello());
    let (a, mut b) = (node(&[&etcd]), node(&[&etcd]));
    for (id, path) in [("1", "/one"), ("2", "/two")] {
        a.put(&format!("routes/{id}?wait=all"), &route(path, &upstream));
    }
    b.process().signal(Signal::STOP);
    etcd.kill();
    etcd.restart();
    eventually("a write succeeds", || {
        (a.admin("PUT", "routes/3", &route("/three", &upstream)).status() < 300).then_some(())
    });
    a.admin("DELETE", "routes/2", &Value::Null);
    etcd.compact();
    b.process().signal(Signal::CONT);
    let traffic = e2e::Traffic::start(b.port, "/one");
    until_status(&b, "/three", 200);
    until_status(&b, "/two", 404);
    traffic.all_succeeded();
}

#[test]
fn three_members_may_lose_their_leader() {
    let (mut members, upstream) = (Etcd::cluster::<3>(), Upstream::hello());
    let (a, b) = (node(&members.each_ref()), node(&members.each_ref()));
    a.put("routes/1?wait=all", &route("/one", &upstream));
    let traffic = [&a, &b].map(|node| e2e::Traffic::start(node.port, "/one"));
    let leader = members.iter_mut().find(|member| member.leads()).unwrap();
    leader.kill();
    eventually("a write succeeds", || {
        (a.admin("PUT", "routes/2", &route("/two", &upstream)).status() < 300).then_some(())
    });
    until_status(&b, "/two", 200);
    traffic.into_iter().for_each(e2e::Traffic::all_succeeded);
}

#[test]
fn a_node_starts_without_etcd_from_what_it_had() {
    let (mut etcd, upstream) = (Etcd::start(), Upstream::hello());
    let (mut a, b) = (node(&[&etcd]), node(&[&etcd]));
    a.put("routes/1?wait=all", &route("/one", &upstream));
    a.process().signal(Signal::TERM);
    a.process().wait();
    b.put("routes/2", &route("/two", &upstream));
    etcd.kill();
    a.restart();
    let traffic = e2e::Traffic::start(a.port, "/one");
    let said = readiness(&a);
    assert_eq!((&said["status"], &said["config_center"]["state"]), (&json!("ok"), &json!("stale")), "{said}");
    assert!(a.stderr().contains("starting with the last configuration known"), "{}", a.stderr());
    assert!(a.metrics().contains("apisix_etcd_reachable 0"));
    etcd.restart();
    until_status(&a, "/two", 200);
    eventually("all is well again", || (readiness(&a) == json!({ "status": "ok" })).then_some(()));
    traffic.all_succeeded();
}
