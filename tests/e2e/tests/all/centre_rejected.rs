//! An etcd that was emptied, restored or filled with what can't be used: nodes go on with what they have.

use e2e::{ADMIN_KEY, Etcd, Gateway, Peer, Upstream, binary, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;

fn node(etcd: &Etcd) -> Gateway {
    Gateway::with(Etcd::deployment(&[etcd], 5))
}

/// A node with a control API, and its port.
fn node_with_control(etcd: &Etcd) -> (Gateway, u16) {
    let [control] = e2e::free_ports();
    let mut config = Etcd::deployment(&[etcd], 5);
    config["apisix"]["enable_control"] = json!(true);
    config["apisix"]["control"] = json!({ "ip": "127.0.0.1", "port": control });
    (Gateway::with(config), control)
}

fn route(uri: &str, upstream: &Upstream) -> Value {
    json!({ "uri": uri, "upstream": { "nodes": { upstream.address(): 1 }, "type": "roundrobin" } })
}

fn readiness(gateway: &Gateway) -> Value {
    let answer = Peer::connect(gateway.status_port).get_from("localhost", "/status/ready");
    assert_eq!(answer.status(), 200);
    answer.json()
}

fn until_rejected(gateway: &Gateway) {
    eventually("the source is rejected", || {
        let said = readiness(gateway);
        assert_eq!(said["status"], "ok");
        (said["config_center"]["state"] == "rejected").then_some(())
    });
}

fn until_well(gateway: &Gateway) {
    eventually("all is well", || (readiness(gateway) == json!({ "status": "ok" })).then_some(()));
}

fn until_status(gateway: &Gateway, path: &str, status: u16) {
    eventually("the change is applied", || (gateway.get(path).status() == status).then_some(()));
}

fn problems(control: u16) -> Value {
    let mut peer = Peer::connect(control);
    peer.send("GET /v1/problems HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    peer.try_response("GET").unwrap().json()
}

fn stop(gateway: &mut Gateway) {
    gateway.process().signal(Signal::TERM);
    gateway.process().wait();
}

fn accept(gateway: &Gateway) {
    let output = Command::new(binary())
        .args(["config", "accept", "--key", ADMIN_KEY, "--admin"])
        .arg(format!("http://127.0.0.1:{}", gateway.admin_port))
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// Until the last good configuration on disk has this route.
fn until_saved(gateway: &Gateway, uri: &str) {
    let path = gateway.data_dir().join("last-known-good");
    eventually("the configuration is saved", || {
        let saved = std::fs::read(&path).unwrap_or_default();
        saved.windows(uri.len()).any(|window| window == uri.as_bytes()).then_some(())
    });
}

#[test]
fn an_emptied_etcd_takes_no_route_from_anybody_until_it_is_accepted() {
    let (mut etcd, upstream) = (Etcd::start(), Upstream::hello());
    let (mut a, control) = node_with_control(&etcd);
    let b = node(&etcd);
    for n in 0..3 {
        a.put(&format!("routes/{n}?wait=all"), &route(&format!("/r{n}"), &upstream));
    }
    let traffic = e2e::Traffic::start(b.port, "/r1");
    etcd.kill();
    etcd.wipe();
    etcd.restart();
    // From the first moment on: also before the node has seen what happened.
    let refused = a.admin("PUT", "routes/9", &route("/r9", &upstream));
    assert_eq!(refused.status(), 503, "{}", refused.text());
    until_rejected(&a);
    until_rejected(&b);
    let refused = a.admin("PUT", "routes/9", &route("/r9", &upstream));
    assert_eq!(refused.status(), 503, "{}", refused.text());
    assert!(refused.text().contains("tidegate config accept"), "{}", refused.text());
    assert_eq!(etcd.count("/apisix/routes/"), 0, "nothing was written on top");
    assert!(a.stderr().contains("config source rejected"), "{}", a.stderr());
    assert!(a.metrics().contains("apisix_config_source_rejected 1"));
    assert!(a.metrics().contains("apisix_etcd_reachable 1"), "it answers");
    assert_eq!(problems(control)["list"][0]["key"], "config_source", "{}", problems(control));
    let state = a.admin("GET", "config_source", &Value::Null).json();
    assert_eq!((&state["state"], &state["serving"]["resources"]), (&json!("rejected"), &json!(3)), "{state}");

    stop(&mut a);
    a.restart();
    until_rejected(&a);
    assert_eq!(a.get("/r1").status(), 200, "after a restart too");
    stop(&mut a);
    etcd.kill();
    a.restart();
    assert_eq!(a.get("/r1").status(), 200, "and without etcd");
    etcd.restart();
    until_rejected(&a);
    traffic.all_succeeded();

    assert_eq!(a.admin_with("wrong", "POST", "config_source/accept", &Value::Null).status(), 401);
    accept(&a);
    assert_eq!(a.get("/r1").status(), 404);
    until_status(&b, "/r1", 404);
    until_well(&a);
    until_well(&b);
    assert_eq!(a.admin("POST", "config_source/accept", &Value::Null).status(), 409);
    let answer = a.admin("PUT", "routes/1?wait=all", &route("/new", &upstream));
    assert_eq!(answer.status(), 201, "{}", answer.text());
    until_status(&b, "/new", 200);
    until_saved(&a, "/new");
    stop(&mut a);
    a.restart();
    until_well(&a);
    assert_eq!(a.get("/new").status(), 200);
}

#[test]
fn a_compaction_while_an_emptied_etcd_is_rejected_changes_nothing() {
    let (mut etcd, upstream) = (Etcd::start(), Upstream::hello());
    let mut a = node(&etcd);
    let b = node(&etcd);
    for n in 0..3 {
        a.put(&format!("routes/{n}?wait=all"), &route(&format!("/r{n}"), &upstream));
    }
    let traffic = e2e::Traffic::start(b.port, "/r1");
    etcd.kill();
    etcd.wipe();
    etcd.restart();
    until_rejected(&a);
    until_rejected(&b);
    // Another program writes on top, past the revision that is served, and the history in between is forgotten: twice.
    for round in ["/first", "/second"] {
        for _ in 0..20 {
            etcd.put("/apisix/routes/other", &route(round, &upstream).to_string());
        }
        etcd.compact();
        stop(&mut a);
        a.restart();
        until_rejected(&a);
        assert_eq!((a.get("/r1").status(), a.get(round).status()), (200, 404), "{round}");
        assert_eq!(a.admin("PUT", "routes/9", &route("/r9", &upstream)).status(), 503);
    }
    until_rejected(&b);
    traffic.all_succeeded();
    accept(&a);
    for node in [&a, &b] {
        until_well(node);
        until_status(node, "/r1", 404);
        until_status(node, "/second", 200);
    }
    // Followed from beyond the compaction, on every node.
    a.put("routes/3?wait=all", &route("/three", &upstream));
    assert_eq!((a.get("/three").status(), b.get("/three").status()), (200, 200));
}

#[test]
fn an_etcd_restored_from_a_snapshot_is_followed_once_it_is_accepted() {
    let (mut etcd, upstream) = (Etcd::start(), Upstream::hello());
    let a = node(&etcd);
    a.put("routes/1", &route("/one", &upstream));
    etcd.save_snapshot();
    a.put("routes/2", &route("/two", &upstream));
    etcd.kill();
    etcd.restore_snapshot();
    etcd.restart();
    until_rejected(&a);
    assert_eq!((a.get("/one").status(), a.get("/two").status()), (200, 200));
    accept(&a);
    until_well(&a);
    assert_eq!((a.get("/one").status(), a.get("/two").status()), (200, 404));
    a.put("routes/3", &route("/three", &upstream));
    until_status(&a, "/three", 200);
}

#[test]
fn a_snapshot_with_the_same_contents_is_followed_at_once() {
    let (mut etcd, upstream) = (Etcd::start(), Upstream::hello());
    let a = node(&etcd);
    a.put("routes/1", &route("/one", &upstream));
    etcd.save_snapshot();
    etcd.kill();
    etcd.restore_snapshot();
    etcd.restart();
    eventually("a write succeeds", || {
        (a.admin("PUT", "routes/2", &route("/two", &upstream)).status() < 300).then_some(())
    });
    until_status(&a, "/two", 200);
    until_well(&a);
}

#[test]
fn a_deletion_of_everything_is_a_change() {
    let (etcd, upstream) = (Etcd::start(), Upstream::hello());
    let (a, mut b) = (node(&etcd), node(&etcd));
    for n in 0..12 {
        a.put(&format!("routes/{n}?wait=all"), &route(&format!("/r{n}"), &upstream));
    }
    until_saved(&b, "/r11");
    stop(&mut b);
    etcd.delete_all("/apisix/");
    until_status(&a, "/r1", 404);
    // The history shows it to a node that was away.
    b.restart();
    assert_eq!(b.get("/r1").status(), 404);
    until_well(&a);
    until_well(&b);
}

#[test]
fn a_bad_value_keeps_the_last_valid_version_across_restarts() {
    let (mut etcd, upstream) = (Etcd::start(), Upstream::hello());
    let (mut a, control) = node_with_control(&etcd);
    a.put("routes/1", &route("/one", &upstream));
    let stored = a.admin("GET", "routes/1", &Value::Null).json();
    etcd.put("/apisix/routes/1", "{\"uri\": 5}");
    let said =
        eventually("the value is refused", || Some(problems(control)).filter(|said| said["total"] == 1));
    let revision = &said["list"][0]["revision_in_use"];
    assert_eq!(revision, &stored["modifiedIndex"], "{said}");
    for up in [true, false] {
        if !up {
            etcd.kill();
        }
        stop(&mut a);
        a.restart();
        assert_eq!(a.get("/one").status(), 200, "with etcd: {up}");
        let said = problems(control);
        let item = &said["list"][0];
        assert_eq!(
            (&item["in_use"], &item["revision_in_use"]),
            (&json!("an earlier version"), revision),
            "{said}"
        );
    }
    etcd.restart();
    until_well(&a);
    assert_eq!(a.get("/one").status(), 200, "and when etcd is back");
    etcd.put("/apisix/routes/1", &route("/mended", &upstream).to_string());
    until_status(&a, "/mended", 200);
    assert_eq!(a.get("/one").status(), 404);
    assert_eq!(problems(control)["total"], 0);
}

#[test]
fn a_data_plane_follows_what_another_node_accepted_while_it_was_away() {
    let (mut etcd, upstream) = (Etcd::start(), Upstream::hello());
    let a = node(&etcd);
    let mut plane = Etcd::deployment(&[&etcd], 5);
    plane["deployment"]["role"] = "data_plane".into();
    plane["deployment"]["role_data_plane"] = json!({ "config_provider": "etcd" });
    let mut b = Gateway::with(plane);
    a.put("routes/1?wait=all", &route("/one", &upstream));
    until_saved(&b, "/one");
    stop(&mut b);
    etcd.kill();
    etcd.wipe();
    etcd.restart();
    until_rejected(&a);
    accept(&a);
    a.put("routes/2", &route("/two", &upstream));
    b.restart();
    until_status(&b, "/two", 200);
    assert_eq!(b.get("/one").status(), 404);
    until_well(&b);
}
