use super::*;
use crate::Config;
use std::path::Path;

fn consul(written: Value) -> Consul {
    let mut all = serde_json::Map::new();
    all.insert("consul".to_owned(), written);
    let config = Config::read(&all).expect("valid").consul.expect("read");
    let heard = watch::Sender::new(vec![Heard::Nothing; config.servers.len()]);
    let dumped = config.dump.as_ref().and_then(dump::read).unwrap_or_default();
    Consul { config, heard, dumped }
}

fn catalog(services: &Value) -> Catalog {
    catalog::read(services)
}

fn ports(nodes: Option<Vec<Node>>) -> Option<Vec<u16>> {
    nodes.map(|nodes| nodes.iter().filter_map(|node| node.port).collect())
}

#[test]
fn nothing_is_said_of_a_service_until_all_have_answered_or_one_knows_it() {
    let consul = consul(json!({ "servers": ["http://a", "http://b"] }));
    assert_eq!(consul.nodes("s"), None);
    consul.learned(0, catalog(&json!({ "s": [{ "host": "h", "port": 1, "weight": 1 }] })));
    assert_eq!((ports(consul.nodes("s")), ports(consul.nodes("t"))), (Some(vec![1]), None));
    consul.learned(1, catalog(&json!({ "t": [{ "host": "h", "port": 2, "weight": 1 }] })));
    assert_eq!(ports(consul.nodes("t")), Some(vec![2]));
    assert_eq!(ports(consul.nodes("u")), Some(vec![]));
    consul.learned(0, Catalog::new());
    assert_eq!(ports(consul.nodes("s")), Some(vec![]), "it is gone");
}

#[test]
fn a_server_that_can_not_be_asked_is_waited_for_no_longer() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("consul.dump");
    let written = json!({ "servers": ["http://a", "http://b"], "dump": { "path": file, "expire": 100 } });
    let first = consul(written.clone());
    first.failed(0);
    assert_eq!(first.nodes("s"), None, "the other one may know it");
    first.failed(1);
    assert_eq!(ports(first.nodes("s")), Some(vec![]));
    first.learned(0, catalog(&json!({ "s": [{ "host": "h", "port": 1, "weight": 1 }] })));
    first.failed(0);
    assert_eq!(ports(first.nodes("s")), Some(vec![1]), "the last good answer holds");
    let second = consul(written);
    second.failed(0);
    second.failed(1);
    assert_eq!(ports(second.nodes("s")), Some(vec![1]), "and so does the dump");
}

#[test]
fn unknown_services_have_the_default_node() {
    let consul = consul(json!({
        "servers": ["http://a"], "default_service": { "host": "127.0.0.1", "port": 20999 }, "weight": 3,
    }));
    consul.learned(0, catalog(&json!({ "s": [{ "host": "h", "port": 1, "weight": 1 }] })));
    assert_eq!(ports(consul.nodes("s")), Some(vec![1]));
    let default = consul.nodes("u").expect("one");
    assert_eq!((default[0].port, default[0].weight), (Some(20999), 3));
}

#[test]
fn the_dump_serves_until_the_servers_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("consul.dump");
    let written = |file: &Path| json!({ "servers": ["http://a"], "dump": { "path": file, "expire": 100 } });
    let first = consul(written(&file));
    first.learned(0, catalog(&json!({ "s": [{ "host": "h", "port": 1, "weight": 1 }] })));
    let page = first.page("show_dump_file").expect("a page");
    let shown: Value = serde_json::from_str(&page.body).expect("JSON");
    assert_eq!(
        (page.status, &shown["services"]["s"][0]["port"], &shown["expire"]),
        (200, &json!(1), &json!(100))
    );

    let second = consul(written(&file));
    assert_eq!(ports(second.nodes("s")), Some(vec![1]));
    second.learned(0, Catalog::new());
    assert_eq!(ports(second.nodes("s")), Some(vec![]), "what the server says counts");

    let old = json!({ "services": { "s": [{ "host": "h", "port": 1, "weight": 1 }] }, "last_update": 5 });
    std::fs::write(&file, old.to_string()).expect("written");
    assert_eq!(consul(written(&file)).nodes("s"), None, "it has expired");
}

#[test]
fn pages_show_configuration_and_services_without_the_token() {
    let consul = consul(json!({ "servers": ["http://a"], "token": "secret" }));
    consul.learned(0, catalog(&json!({ "s": [{ "host": "h", "port": 1, "weight": 2 }] })));
    let page = consul.page("dump").expect("a page");
    let shown: Value = serde_json::from_str(&page.body).expect("JSON");
    assert_eq!(shown["services"], json!({ "s": [{ "host": "h", "port": 1, "weight": 2 }] }));
    assert_eq!(shown["config"]["timeout"]["wait"], 60);
    assert!(!page.body.contains("secret"));
    assert_eq!(consul.page("show_dump_file").map(|page| page.status), Some(503));
    assert_eq!(consul.page("other"), None);
}
