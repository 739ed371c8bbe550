//! Without a centre: a file that is followed, and a document put through the Admin API.

use e2e::{ADMIN_KEY, Gateway, Message, Peer, Upstream, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

fn data_plane(format: &str) -> Value {
    json!({ "deployment": { "role": "data_plane", "role_data_plane": { "config_provider": format } } })
}

/// A gateway cannot start without its file, so the file is there first: in a folder of the test's own.
fn on_file(name: &str, format: &str, text: &str) -> (tempfile::TempDir, std::path::PathBuf, Value) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    (dir, path, data_plane(format))
}

fn yaml(upstream: &Upstream, paths: &[&str]) -> String {
    let mut text = "routes:\n".to_owned();
    for path in paths {
        let address = upstream.address();
        text +=
            &format!("  - uri: {path}\n    upstream: {{type: roundrobin, nodes: {{\"{address}\": 1}}}}\n");
    }
    text + "#END\n"
}

fn until_status(gateway: &Gateway, path: &str, status: u16) {
    eventually("the change is in force", || (gateway.get(path).status() == status).then_some(()));
}

#[test]
fn a_file_is_followed_and_a_mistake_in_it_changes_nothing() {
    let upstream = Upstream::hello();
    let gateway = Gateway::with_file("apisix.yaml", &yaml(&upstream, &["/one"]), data_plane("yaml"));
    let path = gateway.dir().join("apisix.yaml");
    assert_eq!(gateway.get("/one").status(), 200);
    std::fs::write(&path, yaml(&upstream, &["/one", "/two"])).unwrap();
    until_status(&gateway, "/two", 200);

    std::fs::write(&path, "routes:\n  - uri: [\n#END\n").unwrap();
    eventually("the mistake is told", || gateway.stderr().contains("apisix.yaml:").then_some(()));
    assert!(gateway.stderr().contains("what was in force stays"), "{}", gateway.stderr());
    std::fs::write(&path, yaml(&upstream, &["/cut"]).replace("#END\n", "")).unwrap();
    eventually("half a file is told", || gateway.stderr().contains("#END").then_some(()));
    assert_eq!((gateway.get("/one").status(), gateway.get("/cut").status()), (200, 404));

    std::fs::write(&path, yaml(&upstream, &["/three"])).unwrap();
    until_status(&gateway, "/three", 200);
    assert_eq!(gateway.get("/one").status(), 404);
}

#[test]
fn what_is_wrong_with_one_item_is_told_with_its_place_and_counted() {
    let upstream = Upstream::hello();
    let [control] = e2e::free_ports();
    let mut config = data_plane("yaml");
    config["apisix"] = json!({ "enable_control": true, "control": { "ip": "127.0.0.1", "port": control } });
    let good = yaml(&upstream, &["/one"]);
    let bad = good.replace("#END", "  - id: bad\n    uri: [5]\n#END");
    let gateway = Gateway::with_file("apisix.yaml", &bad, config);
    assert_eq!(gateway.get("/one").status(), 200);
    assert!(gateway.stderr().contains("apisix.yaml:4:5"), "{}", gateway.stderr());
    let problems = || {
        let mut peer = Peer::connect(control);
        peer.send("GET /v1/problems HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        peer.try_response("GET").unwrap().json()
    };
    let told = problems();
    let item = &told["list"][0];
    assert_eq!(
        (&told["total"], &item["key"], &item["in_use"]),
        (&json!(1), &json!("/routes/bad"), &json!("nothing"))
    );
    assert!(item["place"].as_str().unwrap().ends_with("apisix.yaml:4:5"), "{told}");
    assert!(item["errors"][0]["path"].as_str().unwrap().starts_with("/uri"), "{told}");
    assert!(gateway.metrics().contains("apisix_config_values_skipped 1"));
    std::fs::write(gateway.dir().join("apisix.yaml"), good).unwrap();
    eventually("it is mended", || (problems()["total"] == 0).then_some(()));
    eventually("it is counted", || {
        gateway.metrics().contains("apisix_config_values_skipped 0").then_some(())
    });
}

#[test]
fn json_and_its_plugins_are_read() {
    let upstream = Upstream::hello();
    let document = |plugins: &[&str]| {
        let nodes = json!({ upstream.address(): 1 });
        let named: Vec<Value> = plugins.iter().map(|name| json!({ "name": name })).collect();
        json!({
            "routes": [{ "id": 1, "uri": "/one", "plugins": { "echo": { "body": "echoed" } },
                         "upstream": { "type": "roundrobin", "nodes": nodes } }],
            "plugins": named,
        })
        .to_string()
    };
    let gateway = Gateway::with_file("apisix.json", &document(&["echo"]), data_plane("json"));
    assert_eq!(gateway.get("/one").text(), "echoed");
    std::fs::write(gateway.dir().join("apisix.json"), document(&["prometheus"])).unwrap();
    eventually("the plugin is off", || (gateway.get("/one").text() != "echoed").then_some(()));
}

#[test]
fn a_broken_file_at_the_start_is_refused_or_what_was_before_is_used() {
    let (dir, path, config) = on_file("apisix.yaml", "yaml", "routes: [\n#END\n");
    std::fs::write(dir.path().join("config.yaml"), config.to_string()).unwrap();
    let said = e2e::refused(dir.path(), &["start", "-c", "config.yaml", "--data-dir", "data"]);
    assert!(said.contains("apisix.yaml:"), "{said}");
    std::fs::remove_file(path).unwrap();

    let upstream = Upstream::hello();
    let mut gateway = Gateway::with_file("apisix.yaml", &yaml(&upstream, &["/one"]), data_plane("yaml"));
    gateway.process().signal(Signal::TERM);
    gateway.process().wait();
    std::fs::write(gateway.dir().join("apisix.yaml"), "routes: [\n#END\n").unwrap();
    gateway.restart();
    assert_eq!(gateway.get("/one").status(), 200);
    std::fs::write(gateway.dir().join("apisix.yaml"), yaml(&upstream, &["/two"])).unwrap();
    until_status(&gateway, "/two", 200);
}

fn configs(gateway: &Gateway, method: &str, digest: Option<&str>, body: &str) -> Message {
    let digest = digest.map_or_else(String::new, |digest| format!("X-Digest: {digest}\r\n"));
    let mut peer = Peer::connect(gateway.admin_port);
    peer.send(format!(
        "{method} /apisix/admin/configs HTTP/1.1\r\nHost: admin\r\nX-API-KEY: {ADMIN_KEY}\r\n{digest}\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    ));
    peer.try_response(method).unwrap()
}

#[test]
fn a_document_is_put_through_the_admin_api() {
    let upstream = Upstream::hello();
    let config = json!({ "deployment": {
        "role": "traditional", "role_traditional": { "config_provider": "yaml" },
    } });
    let mut gateway = Gateway::with(config);
    let document = |path: &str, version: Option<u32>| {
        let nodes = json!({ upstream.address(): 1 });
        let mut document = json!({ "routes": [{
            "id": "r", "uri": path, "upstream": { "type": "roundrobin", "nodes": nodes },
        }] });
        if let Some(version) = version {
            document["routes_conf_version"] = version.into();
        }
        document.to_string()
    };
    assert_eq!(configs(&gateway, "GET", None, "").json()["routes_conf_version"], 0);
    let refused = configs(&gateway, "PUT", None, &document("/one", None));
    assert_eq!((refused.status(), refused.text().contains("missing digest header")), (400, true));
    let put = configs(&gateway, "PUT", Some("d1"), &document("/one", None));
    assert_eq!((put.status(), put.field("x-digest")), (202, Some("d1")), "{}", put.text());
    assert_eq!(gateway.get("/one").status(), 200, "in force when it was answered");
    assert_eq!(configs(&gateway, "PUT", Some("d1"), &document("/two", None)).status(), 204);
    assert_eq!(configs(&gateway, "PUT", Some("d2"), &document("/two", Some(9))).status(), 202);
    assert_eq!((gateway.get("/one").status(), gateway.get("/two").status()), (404, 200));
    let older = configs(&gateway, "PUT", Some("d3"), &document("/one", Some(8)));
    assert!(older.text().contains("must be greater than or equal to (9)"), "{}", older.text());
    let wrong = configs(&gateway, "PUT", Some("d3"), "{\"routes\": [{\"id\": \"x\", \"uri\": 5}]}");
    assert_eq!(wrong.status(), 400, "{}", wrong.text());
    assert_eq!(configs(&gateway, "HEAD", None, "").field("x-digest"), Some("d2"));
    assert_eq!(gateway.admin("GET", "routes", &Value::Null).status(), 404, "there is the document alone");

    gateway.process().kill();
    gateway.restart();
    assert_eq!(gateway.get("/two").status(), 200);
    assert_eq!(configs(&gateway, "GET", None, "").json()["X-Digest"], "d2");
}

#[test]
fn a_document_of_six_thousand_routes_is_put_with_the_revisions_of_its_items() {
    let upstream = Upstream::hello();
    let config = json!({ "deployment": {
        "role": "traditional", "role_traditional": { "config_provider": "yaml" },
    } });
    let gateway = Gateway::with(config);
    let routes: Vec<Value> = (0..6000)
        .map(|n| {
            json!({
                "id": format!("r{n}"), "uri": format!("/r{n}"), "modifiedIndex": n, "desc": "x".repeat(256),
                "upstream": { "type": "roundrobin", "nodes": { upstream.address(): 1 } },
            })
        })
        .collect();
    let document = json!({ "routes": routes, "routes_conf_version": 1 }).to_string();
    assert!(document.len() > 1_572_864, "larger than a body of the Admin API may be otherwise");
    let put = configs(&gateway, "PUT", Some("d1"), &document);
    assert_eq!(put.status(), 202, "{}", put.text());
    until_status(&gateway, "/r5999", 200);
    let wrong = json!({ "routes": [{ "id": "1", "uri": "/a", "modifiedIndex": "1" }] }).to_string();
    assert_eq!(configs(&gateway, "PUT", Some("d2"), &wrong).status(), 400, "modifiedIndex is an integer");
    // Without a key, nobody may send as much.
    let mut peer = Peer::connect(gateway.admin_port);
    peer.send(format!(
        "PUT /apisix/admin/configs HTTP/1.1\r\nHost: admin\r\nX-API-KEY: wrong\r\nX-Digest: d\r\n\
         Expect: 100-continue\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        document.len()
    ));
    assert_eq!(peer.try_response("PUT").unwrap().status(), 401);
}

/// More nodes than YAML parsers allow by default (250,000).
#[test]
fn a_file_of_twenty_thousand_routes_is_served_and_its_mistakes_have_places() {
    use std::fmt::Write as _;
    let upstream = Upstream::hello();
    let mut text = String::from("routes:\n");
    let mut json_text = String::from("{\"routes\": [\n");
    for n in 0..20_000 {
        let route = format!(
            "{{\"id\": \"r{n}\", \"uri\": \"/r{n}\", \"upstream\": {{\"type\": \"roundrobin\", \"nodes\": {{\"{}\": 1}}}}}}",
            upstream.address()
        );
        writeln!(text, "- {route}").unwrap();
        writeln!(json_text, "{}{route}", if n == 0 { "" } else { "," }).unwrap();
    }
    for (name, format, whole, broken) in [
        ("apisix.yaml", "yaml", format!("{text}#END\n"), format!("{text}- 5\n#END\n")),
        ("apisix.json", "json", format!("{json_text}]}}"), format!("{json_text},5]}}")),
    ] {
        let gateway = Gateway::with_file(name, &whole, data_plane(format));
        until_status(&gateway, "/r19999", 200);
        std::fs::write(gateway.dir().join(name), broken).unwrap();
        let place = format!("{name}:20002:");
        eventually("the mistake is logged with its place", || {
            gateway.stderr().contains(&place).then_some(())
        });
        assert_eq!(gateway.get("/r19999").status(), 200);
    }
}
