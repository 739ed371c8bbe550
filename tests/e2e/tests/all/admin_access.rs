//! Who may use the Admin API, and where it is.

use e2e::{ADMIN_KEY, Gateway, Peer, Spec, eventually, refused};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// The key of APISIX's own examples, which everybody knows.
const WELL_KNOWN_KEY: &str = "edd1c9f034335f136f87ad84b625c8f1";

fn without_keys() -> Value {
    json!({ "deployment": { "admin": { "admin_key": null } } })
}

#[test]
fn the_generated_key_is_its_owners_alone() {
    let mut gateway = Gateway::with(without_keys());
    let path = gateway.data_dir().join("admin.key");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let key = std::fs::read_to_string(&path).unwrap().trim().to_owned();
    assert_eq!(gateway.stderr().matches(&key).count(), 1, "it is shown once");
    assert_eq!(gateway.admin_with(&key, "GET", "routes", &json!(null)).status(), 200);
    for wrong in ["", WELL_KNOWN_KEY, ADMIN_KEY, &key[1..], &key.to_uppercase()] {
        let answer = gateway.admin_with(wrong, "GET", "routes", &json!(null));
        assert_eq!(answer.status(), 401, "{wrong:?}");
    }
    // The data port is for data.
    let mut client = gateway.connect();
    client.send(format!("GET /apisix/admin/routes HTTP/1.1\r\nHost: a\r\nX-API-KEY: {key}\r\n\r\n"));
    assert_eq!(client.response().text(), "{\"error_msg\":\"404 Route Not Found\"}\n");
    // The next start keeps it, and does not show it again.
    gateway.process().kill();
    gateway.restart();
    assert!(!gateway.stderr().contains(&key));
    assert_eq!(gateway.admin_with(&key, "GET", "routes", &json!(null)).status(), 200);
}

#[test]
fn the_key_that_everybody_knows_opens_no_admin_api_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let config = format!(
        "deployment:\n  admin:\n    admin_listen: {{ip: 0.0.0.0, port: 0}}\n    admin_key: [{{name: a, key: {WELL_KNOWN_KEY}, role: admin}}]\n"
    );
    std::fs::write(dir.path().join("config.yaml"), config).unwrap();
    let said = refused(dir.path(), &["start", "-c", "config.yaml"]);
    assert!(said.contains("config.yaml:4:") && said.contains("public examples"), "{said}");
}

#[test]
fn on_a_loopback_address_the_key_that_everybody_knows_is_taken_and_warned_of() {
    let keys = json!([{ "name": "a", "key": WELL_KNOWN_KEY, "role": "admin" }]);
    let gateway = Gateway::with(json!({ "deployment": { "admin": { "admin_key": keys } } }));
    assert!(gateway.stderr().contains("public examples"), "{}", gateway.stderr());
    let lint = gateway.admin_with(WELL_KNOWN_KEY, "GET", "lint", &json!(null)).json();
    assert_eq!(lint["list"][0]["rule"], "well-known-key", "{lint}");
}

#[test]
fn the_quick_start_takes_it_on_the_data_port() {
    let gateway = Gateway::launch(&Spec { command: "quickstart", config: without_keys(), ..Spec::default() });
    for port in [gateway.port, gateway.admin_port] {
        let mut client = Peer::connect(port);
        client.send(format!(
            "GET /apisix/admin/routes HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {WELL_KNOWN_KEY}\r\n\r\n"
        ));
        assert_eq!(client.response().json()["total"], 0);
        client.send("GET /apisix/admin/routes HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(client.response().status(), 401);
    }
}

#[test]
fn the_quick_start_prints_commands_with_a_key_of_its_own() {
    let mut gateway =
        Gateway::launch(&Spec { command: "quickstart", config: without_keys(), ..Spec::default() });
    let path = gateway.data_dir().join("admin.key");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let key = std::fs::read_to_string(&path).unwrap().trim().to_owned();
    assert!(key.len() == 64 && key != WELL_KNOWN_KEY);
    let printed = |gateway: &Gateway| {
        eventually("the first steps are printed", || {
            let said = gateway.stderr();
            let from = said.find("curl ")?;
            let end = said[from..].find("}'\n")?;
            Some(said[from..from + end + 3].to_owned())
        })
    };
    let command = printed(&gateway);
    assert!(command.contains(&key) && !gateway.stderr().contains(WELL_KNOWN_KEY), "{command}");
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\"key\":\"/apisix/routes/1\""), "{command}\n{text}");
    // The next start has the same key.
    gateway.process().kill();
    gateway.restart();
    assert!(printed(&gateway).contains(&key));
}

#[test]
fn the_quick_start_takes_it_from_a_file_too() {
    let keys = json!([{ "name": "a", "key": WELL_KNOWN_KEY, "role": "admin" }]);
    let config = json!({ "deployment": { "admin": { "admin_key": keys } } });
    let gateway = Gateway::launch(&Spec { command: "quickstart", config, ..Spec::default() });
    assert_eq!(gateway.admin_with(WELL_KNOWN_KEY, "GET", "routes", &json!(null)).status(), 200);
}

#[test]
fn what_is_refused_changes_nothing() {
    let gateway = Gateway::start();
    let nodes = json!({ "type": "roundrobin", "nodes": { "127.0.0.1:1": 1 } });
    gateway.put("routes/1", &json!({ "uri": "/kept", "upstream": nodes }));
    let before = gateway.admin("GET", "routes/1", &json!(null)).text();
    for bad in [
        json!({ "uri": 5, "upstream": nodes }),
        json!({ "uri": "/x", "upstream": { "type": "roundrobin", "nodes": { "127.0.0.1:99999": 1 } } }),
        json!({ "uri": "/x", "plugins": { "no-such-plugin": {} }, "upstream": nodes }),
        json!({ "uri": "/x", "plugins": { "limit-count": { "count": "many" } }, "upstream": nodes }),
        json!({ "uri": "/x", "upstream_id": "no-such-upstream" }),
        json!("not an object"),
    ] {
        let answer = gateway.admin("PUT", "routes/1", &bad);
        assert_eq!(answer.status(), 400, "{bad}: {}", answer.text());
        assert!(answer.json()["error_msg"].is_string(), "{bad}: {}", answer.text());
    }
    assert_eq!(gateway.admin("GET", "routes/1", &json!(null)).text(), before);
    assert_eq!((gateway.get("/kept").status(), gateway.get("/x").status()), (502, 404));
}
