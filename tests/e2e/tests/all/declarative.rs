//! The configuration as a whole: transactions, history, lint, and the file that it can be kept in.

use e2e::{ADMIN_KEY, Etcd, Gateway, Nginx, binary};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

const GUIDE: &str = include_str!("../../../../docs/guide/declarative.md");

fn upstream(nginx: &Nginx) -> Value {
    json!({ "type": "roundrobin", "nodes": { nginx.address(): 1 } })
}

#[test]
fn a_transaction_is_seen_whole_or_not_at_all() {
    let (nginx, gateway) = (Nginx::start(), Gateway::start());
    let put = |key: &str, value: Value| json!({ "op": "put", "key": key, "value": value });
    let route = |uri: &str| json!({ "uri": uri, "upstream_id": "u" });
    let refused = json!({ "operations": [
        put("/upstreams/u", upstream(&nginx)),
        put("/routes/1", route("/hello")),
        put("/routes/2", json!({ "uri": 5 })),
    ] });
    let answer = gateway.admin("POST", "/txn", &refused);
    assert_eq!(answer.status(), 400);
    assert_eq!(answer.json()["errors"][0]["path"], "/operations/2/value/uri");
    assert_eq!(gateway.get("/hello").status(), 404);
    let good = json!({ "operations": [
        put("/routes/1", route("/hello")),
        put("/routes/2", route("/other")),
        put("/upstreams/u", upstream(&nginx)),
    ] });
    let answer = gateway.admin("POST", "/txn", &good);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    // The answer comes when the workers have it.
    assert_eq!((gateway.get("/hello").status(), gateway.get("/other").status()), (200, 200));
    let stale = json!({ "operations": [
        { "op": "delete", "key": "/routes/2" },
        { "op": "patch", "key": "/routes/1", "value": { "uri": "/moved" }, "modifiedIndex": 0 },
    ] });
    assert_eq!(gateway.admin("POST", "/txn", &stale).status(), 409);
    assert_eq!((gateway.get("/hello").status(), gateway.get("/other").status()), (200, 200));
}

#[test]
fn a_rollback_brings_the_traffic_back() {
    let (nginx, gateway) = (Nginx::start(), Gateway::start());
    gateway.put("/routes/1", &json!({ "uri": "/hello", "upstream": upstream(&nginx) }));
    let history = gateway.admin("GET", "/history", &Value::Null).json();
    let good = history["list"][0]["revision"].as_u64().unwrap();
    gateway.put("/routes/1", &json!({ "uri": "/elsewhere", "upstream": upstream(&nginx) }));
    gateway.put("/routes/2", &json!({ "uri": "/more", "upstream": upstream(&nginx) }));
    assert_eq!(gateway.get("/hello").status(), 404);
    let path = format!("/history/{good}/rollback");
    let answer = gateway.admin("POST", &path, &json!({}));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!((gateway.get("/hello").status(), gateway.get("/more").status()), (200, 404));
}

/// A folder with the gateway's configuration where the subcommands look for it.
fn workplace(gateway: &Gateway) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("conf")).unwrap();
    std::fs::copy(gateway.dir().join("config.yaml"), dir.path().join("conf/config.yaml")).unwrap();
    dir
}

fn tidegate(dir: &Path, arguments: &str) -> (bool, String) {
    let mut command = Command::new(binary());
    let Output { status, stdout, stderr } =
        command.current_dir(dir).args(arguments.split(' ')).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    (status.success(), text)
}

#[test]
fn a_sync_makes_it_so_and_a_second_one_nothing() {
    let (nginx, gateway) = (Nginx::start(), Gateway::start());
    let dir = workplace(&gateway);
    gateway.put("/routes/old", &json!({ "uri": "/old", "upstream": upstream(&nginx) }));
    let file = format!(
        "services:\n- name: web\n  upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}\n  routes:\n  - name: hello\n    \
         uris: [/hello]\nconsumers:\n- username: jack\n",
        nginx.address()
    );
    std::fs::write(dir.path().join("adc.yaml"), &file).unwrap();
    let (ok, said) = tidegate(dir.path(), "config diff adc.yaml");
    assert!(ok && said.contains("- /apisix/routes/old"), "{said}");
    assert_eq!(gateway.get("/old").text(), "/old", "nothing is done yet");
    assert_eq!(gateway.get("/hello").status(), 404);
    let (ok, said) = tidegate(dir.path(), "config sync adc.yaml");
    assert!(ok && said.contains("3 created, 0 updated, 1 deleted"), "{said}");
    assert_eq!((gateway.get("/hello").status(), gateway.get("/old").status()), (200, 404));
    let (ok, said) = tidegate(dir.path(), "config sync adc.yaml");
    assert!(ok && said.contains("0 created, 0 updated, 0 deleted"), "{said}");
    // What is dumped is what is there.
    let (ok, dump) = tidegate(dir.path(), "config dump");
    assert!(ok && dump.ends_with("#END\n"), "{dump}");
    std::fs::write(dir.path().join("dump.yaml"), &dump).unwrap();
    let (ok, said) = tidegate(dir.path(), "config sync dump.yaml");
    assert!(ok && said.contains("0 created, 0 updated, 0 deleted"), "{said}\n{dump}");
    // A mistake has its place, and changes nothing.
    std::fs::write(dir.path().join("bad.yaml"), file.replace("uris: [/hello]", "uris: 5")).unwrap();
    for command in ["config sync bad.yaml", "config validate bad.yaml"] {
        let (ok, said) = tidegate(dir.path(), command);
        assert!(!ok && said.contains("bad.yaml:6:5: "), "{said}");
    }
    assert_eq!(gateway.get("/hello").status(), 200);
}

/// Consumers, each with its number, a key and a description.
fn consumers(list: impl Iterator<Item = (usize, String, &'static str)>) -> String {
    let item = |(n, key, desc): (usize, String, &str)| {
        format!("- username: c{n}\n  desc: {desc}\n  plugins: {{key-auth: {{key: {key}}}}}\n")
    };
    format!("consumers:\n{}#END\n", list.map(item).collect::<String>())
}

#[test]
fn a_sync_of_several_batches_applies_nothing_or_lists_what_is_active() {
    let etcd = Etcd::start();
    let gateway = Gateway::with(Etcd::deployment(&[&etcd], 5));
    let dir = workplace(&gateway);
    let write = |text: &str| std::fs::write(dir.path().join("apisix.yaml"), text).unwrap();
    let shown = |n: usize| {
        let answer = gateway.admin("GET", &format!("/consumers/c{n}"), &Value::Null).json();
        (answer["value"]["desc"].clone(), answer["value"]["plugins"]["key-auth"]["key"].clone())
    };
    write(&consumers((100..400).map(|n| (n, format!("k{n}"), "old"))));
    let (ok, said) = tidegate(dir.path(), "config sync apisix.yaml");
    assert!(ok && said.contains("applying 3 atomic batches") && said.contains("300 created"), "{said}");

    // A mistake in the last batch is found before the first one is written.
    let wrong = consumers((100..400).map(|n| (n, format!("k{n}"), "new")));
    write(&wrong.replace("username: c399\n", "username: c399\n  group_id: nobody\n"));
    let (ok, said) = tidegate(dir.path(), "config sync apisix.yaml");
    assert!(!ok && said.contains("apisix.yaml:") && said.contains("nothing was changed"), "{said}");
    assert_eq!(shown(100).0, "old");

    // The whole is right, but its second batch is not without the third: c250 takes the key that c390 gives up there.
    let key = |n: usize| match n {
        250 => "k390".to_owned(),
        390 => "other".to_owned(),
        n => format!("k{n}"),
    };
    write(&consumers((100..400).map(|n| (n, key(n), "new"))));
    let (ok, said) = tidegate(dir.path(), "config sync apisix.yaml");
    assert!(
        !ok && said.contains("batch 2 was refused") && said.contains("128 of 300 changes are active"),
        "{said}"
    );
    assert!(!said.contains("nothing was changed"), "{said}");
    assert!(said.contains("~ /apisix/consumers/c100\n"), "{said}");
    assert!(said.contains("not applied: ~ /apisix/consumers/c250\n"), "{said}");
    assert!(!said.contains("not applied: ~ /apisix/consumers/c100\n"), "{said}");
    assert_eq!((shown(100).0, shown(228)), (json!("new"), (json!("old"), json!("k228"))));
}

#[test]
fn explain_tells_where_settings_come_from() {
    let [control] = e2e::free_ports();
    let config =
        json!({ "apisix": { "enable_control": true, "control": { "ip": "127.0.0.1", "port": control } } });
    let (nginx, gateway) = (Nginx::start(), Gateway::with(config));
    let dir = workplace(&gateway);
    let limit = |count: u32| json!({ "count": count, "time_window": 60 });
    let plugins = json!({ "key-auth": { "key": "jacks" }, "limit-count": limit(5) });
    gateway.put("/consumers", &json!({ "username": "jack", "plugins": plugins }));
    let plugins = json!({ "key-auth": {}, "limit-count": limit(1) });
    gateway.put("/routes/1", &json!({ "uri": "/hello", "plugins": plugins, "upstream": upstream(&nginx) }));
    for (consumer, of_limit) in [("", "route"), (" --consumer jack", "consumer")] {
        let (ok, said) = tidegate(dir.path(), &format!("explain --json GET /hello{consumer}"));
        assert!(ok, "{said}");
        let told: Value = serde_json::from_str(&said).unwrap();
        let plugins: Vec<_> = told["plugins"].as_array().unwrap().iter().collect();
        let from = |name: &str| {
            let plugin = plugins.iter().find(|plugin| plugin["name"] == name).unwrap();
            plugin["from"]["layer"].as_str().unwrap().to_owned()
        };
        // The consumer's key is no setting of the plugin that asks for it.
        assert_eq!((from("key-auth").as_str(), from("limit-count").as_str()), ("route", of_limit));
        assert!(!said.contains("jacks"), "{said}");
    }
}

#[test]
fn lint_finds_a_shadowed_route() {
    let (nginx, gateway) = (Nginx::start(), Gateway::start());
    let dir = workplace(&gateway);
    let (ok, said) = tidegate(dir.path(), "lint --strict");
    assert!(ok, "{said}");
    for (id, priority) in [("1", 0), ("2", 1)] {
        let route = json!({ "uri": "/hello", "priority": priority, "upstream": upstream(&nginx) });
        gateway.put(&format!("/routes/{id}"), &route);
    }
    let found = gateway.admin("GET", "/lint", &Value::Null).json();
    assert_eq!(found["list"][0]["rule"], "unreachable-route");
    assert_eq!(found["list"][0]["key"], "/apisix/routes/1");
    assert!(tidegate(dir.path(), "lint").0, "warnings alone are no failure");
    let url =
        format!("lint --strict --json --admin http://127.0.0.1:{} --key {ADMIN_KEY}", gateway.admin_port);
    let (ok, said) = tidegate(dir.path(), &url);
    assert!(!ok && said.contains("unreachable-route"), "{said}");
}

#[test]
fn the_commands_of_the_guide_work() {
    let (nginx, gateway) = (Nginx::start(), Gateway::start());
    let dir = workplace(&gateway);
    let blocks = GUIDE.split("```shell\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut script = format!("set -e\ntidegate() {{ {:?} \"$@\"; }}\n", binary());
    blocks.for_each(|block| script += block);
    let script = script.replace("127.0.0.1:1980", &nginx.address());
    let Output { status, stdout, stderr } =
        Command::new("sh").current_dir(dir.path()).args(["-c", &script]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{stdout}{stderr}");
    for said in ["gateway.yaml is valid: 2 resources", "2 would be created", "2 created", "0 created", "#END"]
    {
        assert!(stdout.contains(said), "{said} in {stdout}");
    }
    assert_eq!(gateway.get("/hello").status(), 200);
}
