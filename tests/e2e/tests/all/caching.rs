//! Responses kept: who asks the upstream, how often, and what everybody gets.

use e2e::{Gateway, Message, Pattern, Upstream, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// An upstream that counts its answers: each says its number.
fn counting(fields: &'static str) -> Upstream {
    let count = AtomicUsize::new(0);
    Upstream::answering(move |_| answer(fields, &(count.fetch_add(1, Ordering::AcqRel) + 1).to_string()))
}

fn answer(fields: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A gateway with a zone of either kind.
fn gateway() -> Gateway {
    let zones = json!([
        { "name": "memory", "memory_size": "1m" },
        { "name": "disk", "memory_size": "1m", "disk_size": "10m", "disk_path": "cache", "cache_levels": "1:2" }
    ]);
    Gateway::with(json!({ "apisix": { "proxy_cache": { "cache_ttl": "1m", "zones": zones } } }))
}

fn route(gateway: &Gateway, upstream: &str, settings: &Value, plugins: &Value) {
    let mut plugins = plugins.clone();
    plugins["proxy-cache"] = settings.clone();
    gateway.route_with(upstream, &json!({ "retries": 0 }), &json!({ "plugins": plugins }));
}

fn in_memory(more: &Value) -> Value {
    let mut settings = json!({ "cache_strategy": "memory", "cache_zone": "memory" });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    settings
}

/// What became of a request, and its body.
fn said(message: &Message) -> (String, String) {
    (message.field("apisix-cache-status").unwrap_or_default().to_owned(), message.text())
}

fn pair(status: &str, body: &str) -> (String, String) {
    (status.to_owned(), body.to_owned())
}

#[test]
fn one_answer_serves_many_requests() {
    let upstream = counting("ETag: \"e\"\r\nContent-Type: text/html\r\n");
    let gateway = gateway();
    for settings in [in_memory(&json!({})), json!({ "cache_zone": "disk" })] {
        route(&gateway, &upstream.address(), &settings, &json!({}));
        let mut client = gateway.connect();
        let first = client.get("/a");
        let number = first.text();
        assert_eq!(said(&first).0, "MISS", "{settings}");
        eventually("it is kept", || (said(&client.get("/a")) == pair("HIT", &number)).then_some(()));
        let hit = client.get("/a");
        assert_eq!(
            (hit.field("age"), hit.field("etag"), hit.all("date").len()),
            (Some("0"), Some("\"e\""), 1)
        );
        client.send("HEAD /a HTTP/1.1\r\nHost: e2e\r\n\r\n");
        assert_eq!(client.try_response("HEAD").unwrap().field("content-length"), Some("1"));
        client.send("GET /a HTTP/1.1\r\nHost: e2e\r\nIf-None-Match: W/\"e\"\r\n\r\n");
        assert_eq!(client.response().status(), 304);
        client.send("PURGE /a HTTP/1.1\r\nHost: e2e\r\n\r\n");
        assert_eq!(client.response().status(), 200);
        let again = client.get("/a");
        assert_eq!(said(&again).0, "MISS");
        assert_ne!(again.text(), number);
    }
}

#[test]
fn requests_for_the_same_wait_for_the_first() {
    const CLIENTS: usize = 20;
    let (go, wait) = channel::<()>();
    let (wait, asked) = (Mutex::new(wait), std::sync::Arc::new(AtomicUsize::new(0)));
    let count = std::sync::Arc::clone(&asked);
    let upstream = Upstream::answering(move |_| {
        count.fetch_add(1, Ordering::AcqRel);
        wait.lock().unwrap().recv().unwrap();
        answer("", "same")
    });
    let gateway = gateway();
    route(&gateway, &upstream.address(), &in_memory(&json!({})), &json!({}));
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| gateway.connect()).collect();
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    eventually("the upstream is asked", || (asked.load(Ordering::Acquire) > 0).then_some(()));
    // All have been read when a later one of another connection has been answered.
    gateway.admin("GET", "routes/all", &Value::Null);
    std::thread::sleep(Duration::from_millis(100));
    go.send(()).unwrap();
    let mut statuses: Vec<String> = clients.iter_mut().map(|client| said(&client.response()).0).collect();
    statuses.sort();
    assert_eq!(asked.load(Ordering::Acquire), 1);
    assert_eq!(
        (statuses.iter().filter(|said| *said == "HIT").count(), statuses[CLIENTS - 1].as_str()),
        (CLIENTS - 1, "MISS")
    );
}

#[test]
fn what_cannot_be_kept_does_not_queue() {
    let upstream = counting("Cache-Control: private\r\n");
    let gateway = gateway();
    route(&gateway, &upstream.address(), &in_memory(&json!({})), &json!({}));
    let mut clients: Vec<_> = (0..20).map(|_| gateway.connect()).collect();
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    let mut bodies: Vec<usize> =
        clients.iter_mut().map(|client| client.response().text().parse().unwrap()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_stale_answer_is_renewed_behind_the_clients_back() {
    let upstream = counting("Cache-Control: max-age=1, stale-while-revalidate=60\r\n");
    let gateway = gateway();
    route(&gateway, &upstream.address(), &in_memory(&json!({ "cache_control": true })), &json!({}));
    assert_eq!(said(&gateway.get("/")), pair("MISS", "1"));
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(said(&gateway.get("/")), pair("STALE", "1"));
    eventually("a fresh one is there", || (said(&gateway.get("/")) == pair("HIT", "2")).then_some(()));
}

#[test]
fn an_old_answer_is_confirmed_and_stands_in_for_a_failing_upstream() {
    let count = AtomicUsize::new(0);
    let upstream = Upstream::answering(move |request| match count.fetch_add(1, Ordering::AcqRel) {
        0 => answer("Cache-Control: max-age=1, stale-if-error=60\r\nETag: \"e\"\r\n", "one"),
        1 => {
            assert_eq!(request.field("if-none-match"), Some("\"e\""));
            b"HTTP/1.1 304 Not Modified\r\nX-New: yes\r\n\r\n".to_vec()
        }
        2 => b"HTTP/1.1 503 Oh\r\nContent-Length: 2\r\n\r\nno".to_vec(),
        _ => Vec::new(),
    });
    let gateway = gateway();
    route(&gateway, &upstream.address(), &in_memory(&json!({ "cache_control": true })), &json!({}));
    assert_eq!(said(&gateway.get("/")), pair("MISS", "one"));
    std::thread::sleep(Duration::from_millis(1100));
    let confirmed = gateway.get("/");
    assert_eq!((said(&confirmed), confirmed.field("x-new")), (pair("REVALIDATED", "one"), Some("yes")));
    assert_eq!(said(&gateway.get("/")), pair("HIT", "one"));
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(said(&gateway.get("/")), pair("STALE", "one"), "for 503");
    drop(upstream);
    let gone = Upstream::serve(|peer, _| drop(peer));
    route(&gateway, &gone.address(), &in_memory(&json!({ "cache_control": true })), &json!({}));
    eventually("the route has changed", || (said(&gateway.get("/")) == pair("STALE", "one")).then_some(()));
    assert_eq!(gateway.get("/other").status(), 502);
}

#[test]
fn a_zone_on_disk_outlives_the_process_and_damage_is_seen() {
    let upstream = counting("");
    let mut gateway = gateway();
    route(&gateway, &upstream.address(), &json!({ "cache_zone": "disk" }), &json!({}));
    assert_eq!(said(&gateway.get("/")), pair("MISS", "1"));
    eventually("it is on disk", || (said(&gateway.get("/")) == pair("HIT", "1")).then_some(()));
    gateway.process().signal(Signal::TERM);
    eventually("it ends", || gateway.process().ended());
    gateway.restart();
    eventually("it is found again", || (said(&gateway.get("/")) == pair("HIT", "1")).then_some(()));
    let mut folders = vec![gateway.data_dir().join("cache")];
    let mut damaged = 0;
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).unwrap().flatten() {
            if item.path().is_dir() {
                folders.push(item.path());
            } else {
                let mut bytes = std::fs::read(item.path()).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                std::fs::write(item.path(), bytes).unwrap();
                damaged += 1;
            }
        }
    }
    assert_eq!(damaged, 1);
    let number = gateway.get("/").text();
    assert_ne!(number, "1", "damaged");
}

#[test]
fn the_first_client_does_not_wait_for_the_whole() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Upstream::serve(move |mut peer, _| {
        peer.request().unwrap();
        peer.send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
        );
        wait.lock().unwrap().recv().unwrap();
        let body = Pattern::bytes(300_000);
        peer.send(format!("{:x}\r\n", body.len()));
        peer.send(body);
        peer.send("\r\n0\r\n\r\n");
    });
    let gateway = gateway();
    route(&gateway, &upstream.address(), &in_memory(&json!({})), &json!({ "gzip": {} }));
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: e2e\r\n\r\n");
    assert_eq!(client.head().field("apisix-cache-status"), Some("MISS"));
    while !client.unused().windows(5).any(|bytes| bytes == b"first") {
        assert!(client.fill().unwrap());
    }
    go.send(()).unwrap();
    while !client.unused().ends_with(b"0\r\n\r\n") {
        assert!(client.fill().unwrap());
    }
    // What was kept is the plain body: each client gets it in the coding that it takes.
    for encoding in ["identity", "gzip"] {
        let output = Command::new("curl")
            .args(["-s", "--max-time", "30", "--compressed", "-H", &format!("Accept-Encoding: {encoding}")])
            .args(["-H", "Host: e2e", &format!("http://127.0.0.1:{}/", gateway.port)])
            .output()
            .unwrap();
        assert_eq!(&output.stdout[..5], b"first");
        Pattern::check(&output.stdout[5..], 300_000);
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn what_was_answered_to_credentials_or_to_another_form_is_not_given_to_others() {
    let upstream = Upstream::answering(|request| {
        let line = request.start.split(' ').nth(1).unwrap_or_default();
        answer("", &format!("{line} {}", request.field("authorization").unwrap_or("nobody")))
    });
    let gateway = gateway();
    for settings in [in_memory(&json!({})), json!({ "cache_zone": "disk" })] {
        route(&gateway, &upstream.address(), &settings, &json!({}));
        let mut client = gateway.connect();
        client.send("GET /x/y HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer victim\r\n\r\n");
        assert_eq!(said(&client.response()), pair("MISS", "/x/y Bearer victim"));
        client.send("GET /x%2fy HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(said(&client.response()), pair("MISS", "/x%2fy nobody"), "{settings}");
        client.send("GET /x/y HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(said(&client.response()), pair("MISS", "/x/y nobody"), "{settings}");
        eventually("it is kept", || {
            client.send("GET /x/y HTTP/1.1\r\nHost: a\r\n\r\n");
            (said(&client.response()) == pair("HIT", "/x/y nobody")).then_some(())
        });
    }
}

#[test]
fn a_change_is_seen_at_once() {
    let upstream = counting("");
    let gateway = gateway();
    for settings in [in_memory(&json!({})), json!({ "cache_zone": "disk" })] {
        route(&gateway, &upstream.address(), &settings, &json!({}));
        let mut client = gateway.connect();
        let first = client.get("/changed").text();
        eventually("it is kept", || (said(&client.get("/changed")) == pair("HIT", &first)).then_some(()));
        client.send("PUT /changed HTTP/1.1\r\nHost: e2e\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(client.response().status(), 200);
        let again = client.get("/changed");
        assert_eq!(said(&again).0, "MISS", "{settings}");
        assert_ne!(again.text(), first);
    }
}
