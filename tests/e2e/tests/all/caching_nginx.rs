//! What nginx serves, kept: how often it is asked, and what clients are told of it.

use e2e::{Gateway, Message, Nginx, Pattern, Peer, eventually};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// A gateway before `nginx`, with responses kept in memory for as long as they say.
fn gateway(nginx: &Nginx, settings: &Value) -> Gateway {
    let zone = json!({ "name": "memory", "memory_size": "10m" });
    let gateway = Gateway::with(json!({ "apisix": { "proxy_cache": { "zones": [zone] } } }));
    let mut cache = json!({ "cache_strategy": "memory", "cache_zone": "memory", "cache_control": true });
    cache.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    gateway.route_with(
        &nginx.address(),
        &json!({ "retries": 0 }),
        &json!({ "plugins": { "proxy-cache": cache } }),
    );
    gateway
}

/// What became of a request, and its body.
fn said(message: &Message) -> (String, String) {
    (message.field("apisix-cache-status").unwrap_or_default().to_owned(), message.text())
}

fn pair(status: &str, body: &str) -> (String, String) {
    (status.to_owned(), body.to_owned())
}

fn ask(client: &mut Peer, request: &str) -> Message {
    client.send(format!("{request}\r\nHost: e2e\r\n\r\n"));
    client.response()
}

/// What lives for a second is over.
fn pass() {
    std::thread::sleep(Duration::from_millis(1100));
}

#[test]
fn an_expired_file_is_confirmed_until_it_changes() {
    let nginx = Nginx::with("add_header Cache-Control max-age=1;");
    let file = nginx.root().join("page");
    fs::write(&file, "one").unwrap();
    let gateway = gateway(&nginx, &json!({}));
    assert_eq!(said(&gateway.get("/page")), pair("MISS", "one"));
    pass();
    assert_eq!(said(&gateway.get("/page")), pair("REVALIDATED", "one"));
    assert_eq!(said(&gateway.get("/page")), pair("HIT", "one"));
    fs::write(&file, "another").unwrap();
    pass();
    assert_eq!(said(&gateway.get("/page")), pair("EXPIRED", "another"));
    assert_eq!(said(&gateway.get("/page")), pair("HIT", "another"));
    assert_eq!(nginx.seen(), ["200 GET /page", "304 GET /page", "200 GET /page"]);
}

#[test]
fn what_the_settings_let_live_for_a_second_is_fetched_anew_after_it() {
    let nginx = Nginx::with("expires 1h; location = /made { return 200 made; }");
    let gateway = gateway(&nginx, &json!({ "cache_control": false, "cache_ttl": 1 }));
    assert_eq!(said(&gateway.get("/made")), pair("MISS", "made"));
    assert_eq!(said(&gateway.get("/made")), pair("HIT", "made"));
    pass();
    assert_eq!(said(&gateway.get("/made")), pair("EXPIRED", "made"));
}

#[test]
fn codings_of_a_file_are_kept_side_by_side() {
    let nginx = Nginx::with("expires 1h; gzip on; gzip_vary on; gzip_types text/plain; gzip_proxied any;");
    fs::write(nginx.root().join("page.txt"), "words ".repeat(1000)).unwrap();
    let gateway = gateway(&nginx, &json!({}));
    let mut client = gateway.connect();
    for status in ["MISS", "HIT"] {
        for coding in ["gzip", "identity"] {
            let answer = ask(&mut client, &format!("GET /page.txt HTTP/1.1\r\nAccept-Encoding: {coding}"));
            assert_eq!(answer.field("apisix-cache-status"), Some(status), "{coding}");
            assert_eq!(answer.field("content-encoding").unwrap_or("identity"), coding);
            assert!(coding == "gzip" || answer.body.len() == 6000);
        }
    }
    assert_eq!(nginx.seen().len(), 2);
    assert_eq!(ask(&mut client, "PURGE /page.txt HTTP/1.1").status(), 200);
    assert_eq!(ask(&mut client, "PURGE /page.txt HTTP/1.1").status(), 404);
    for coding in ["gzip", "identity"] {
        let answer = ask(&mut client, &format!("GET /page.txt HTTP/1.1\r\nAccept-Encoding: {coding}"));
        assert_eq!(answer.field("apisix-cache-status"), Some("MISS"), "{coding}: all variants are gone");
    }
}

#[test]
fn an_old_file_is_used_while_it_is_renewed_and_when_nginx_is_gone() {
    let mut nginx =
        Nginx::with("add_header Cache-Control \"max-age=1, stale-while-revalidate=1, stale-if-error=60\";");
    let file = nginx.root().join("page");
    fs::write(&file, "one").unwrap();
    let gateway = gateway(&nginx, &json!({}));
    assert_eq!(said(&gateway.get("/page")), pair("MISS", "one"));
    fs::write(&file, "another").unwrap();
    pass();
    assert_eq!(said(&gateway.get("/page")), pair("STALE", "one"));
    eventually("it is renewed", || (said(&gateway.get("/page")) == pair("HIT", "another")).then_some(()));
    assert_eq!(nginx.seen().len(), 2);
    nginx.process().kill();
    // Older than what may be used while another is fetched.
    pass();
    pass();
    assert_eq!(said(&gateway.get("/page")), pair("STALE", "another"));
    assert_eq!(gateway.get("/never-seen").status(), 502);
}

#[test]
fn many_who_miss_the_same_are_one_request_to_nginx() {
    const CLIENTS: usize = 30;
    const LENGTH: usize = 60_000;
    let nginx = Nginx::with("expires 1h; limit_rate 100k;");
    fs::write(nginx.root().join("page"), Pattern::bytes(LENGTH)).unwrap();
    let gateway = gateway(&nginx, &json!({}));
    let mut clients: Vec<Peer> = (0..CLIENTS).map(|_| gateway.connect()).collect();
    clients.iter_mut().for_each(|client| client.send("GET /page HTTP/1.1\r\nHost: e2e\r\n\r\n"));
    let mut statuses: Vec<String> = Vec::new();
    for client in &mut clients {
        let answer = client.response();
        Pattern::check(&answer.body, LENGTH);
        statuses.push(said(&answer).0);
    }
    statuses.sort();
    assert_eq!((statuses[0].as_str(), statuses[CLIENTS - 2].as_str()), ("HIT", "HIT"));
    assert_eq!(statuses[CLIENTS - 1], "MISS");
    assert_eq!(nginx.seen(), ["200 GET /page"]);
}

#[test]
fn what_is_not_to_be_looked_for_is_not() {
    let nginx = Nginx::with("expires 1h; location = /made { return 200 made; }");
    fs::write(nginx.root().join("page"), "one").unwrap();
    let gateway = gateway(&nginx, &json!({ "cache_bypass": ["$arg_bypass"], "cache_key": ["$uri"] }));
    let mut client = gateway.connect();
    for (request, status, code) in [
        ("GET /page HTTP/1.1", "MISS", 200),
        ("GET /page?bypass=1 HTTP/1.1", "BYPASS", 200),
        ("GET /page HTTP/1.1\r\nCache-Control: no-cache", "BYPASS", 200),
        ("GET /page HTTP/1.1\r\nCache-Control: min-fresh=7200", "REVALIDATED", 200),
        ("GET /made HTTP/1.1", "MISS", 200),
        ("GET /made HTTP/1.1\r\nCache-Control: min-fresh=7200", "STALE", 200),
        ("GET /made HTTP/1.1", "HIT", 200),
        ("GET /page HTTP/1.1", "HIT", 200),
        ("GET /other HTTP/1.1\r\nCache-Control: only-if-cached", "MISS", 504),
    ] {
        let answer = ask(&mut client, request);
        assert_eq!((answer.field("apisix-cache-status"), answer.status()), (Some(status), code), "{request}");
    }
}

#[test]
fn parts_are_those_that_nginx_would_send() {
    let nginx = Nginx::with("expires 1h;");
    fs::write(nginx.root().join("page"), Pattern::bytes(100_000)).unwrap();
    let gateway = gateway(&nginx, &json!({}));
    assert_eq!(gateway.get("/page").status(), 200);
    let (mut ours, mut theirs) = (gateway.connect(), Peer::connect(nginx.port));
    let etag = gateway.get("/page").field("etag").unwrap().to_owned();
    for fields in [
        "Range: bytes=10-19".to_owned(),
        "Range: bytes=-1".to_owned(),
        "Range: bytes=99999-".to_owned(),
        "Range: bytes=100000-".to_owned(),
        format!("Range: bytes=1-2\r\nIf-Range: {etag}"),
        "Range: bytes=1-2\r\nIf-Range: \"other\"".to_owned(),
        format!("If-None-Match: {etag}"),
        "If-Match: \"other\"".to_owned(),
    ] {
        let request = format!("GET /page HTTP/1.1\r\n{fields}");
        let (our, their) = (ask(&mut ours, &request), ask(&mut theirs, &request));
        assert_eq!(
            (our.status(), our.field("content-range")),
            (their.status(), their.field("content-range")),
            "{fields}"
        );
        // nginx sends a page with its refusals.
        let sent = |answer: &Message| (answer.field("etag").map(str::to_owned), answer.body.clone());
        assert!(sent(&our) == sent(&their) || our.status() >= 400, "{fields}");
    }
}
