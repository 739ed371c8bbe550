//! Kept responses in parts, and long ones: no more of them is in memory than a client takes.

use e2e::{Gateway, Message, Pattern, Peer, Upstream, eventually};
use serde_json::{Value, json};
use std::process::Command;

/// More than is read of a file at once.
const LENGTH: usize = 300_000;

/// More than buffers on the way to a client hold.
const LONG: usize = 40_000_000;

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// A gateway whose only route keeps what `upstream` answers, in a zone of this kind.
fn gateway(upstream: &Upstream, strategy: &str, plugins: &Value) -> Gateway {
    let zones = json!([
        { "name": "memory", "memory_size": "90m" },
        { "name": "disk", "memory_size": "1m", "disk_size": "90m", "disk_path": "cache", "cache_levels": "1:2" }
    ]);
    let gateway =
        Gateway::with(json!({ "apisix": { "proxy_cache": { "cache_ttl": "1m", "zones": zones } } }));
    let mut plugins = plugins.clone();
    plugins["proxy-cache"] = json!({ "cache_strategy": strategy, "cache_zone": strategy });
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": plugins }));
    gateway
}

/// An upstream that answers once, with a body of `length` bytes.
fn answering_once(length: usize) -> Upstream {
    Upstream::serve(move |mut peer, _| {
        peer.request().unwrap();
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nLast-Modified: {DATE}\r\nContent-Type: text/plain\r\n\
             Content-Length: {length}\r\n\r\n"
        ));
        peer.send(Pattern::bytes(length));
    })
}

fn ask(client: &mut Peer, method: &str, fields: &str) -> Message {
    client.send(format!("{method} / HTTP/1.1\r\nHost: e2e\r\n{fields}\r\n"));
    client.try_response(method).unwrap()
}

fn keep(gateway: &Gateway) {
    gateway.get("/");
    eventually("it is kept", || (gateway.get("/").field("apisix-cache-status") == Some("HIT")).then_some(()));
}

#[test]
fn parts_and_what_has_not_changed_come_from_the_cache() {
    let body = Pattern::bytes(LENGTH);
    let part =
        |first: usize, last: usize| (206, format!("bytes {first}-{last}/{LENGTH}"), &body[first..=last]);
    let whole = || (200, String::new(), &body[..]);
    let cases = [
        ("Range: bytes=0-9\r\n".to_owned(), part(0, 9)),
        ("Range: bytes=70000-200000\r\n".to_owned(), part(70_000, 200_000)),
        ("Range: bytes=-5\r\n".to_owned(), part(LENGTH - 5, LENGTH - 1)),
        ("Range: bytes=299999-400000\r\n".to_owned(), part(LENGTH - 1, LENGTH - 1)),
        ("Range: bytes=300000-\r\n".to_owned(), (416, format!("bytes */{LENGTH}"), &[])),
        ("Range: lines=1-2\r\n".to_owned(), whole()),
        ("Range: bytes=0-9\r\nIf-Range: \"e\"\r\n".to_owned(), part(0, 9)),
        ("Range: bytes=0-9\r\nIf-Range: \"old\"\r\n".to_owned(), whole()),
        (format!("Range: bytes=0-9\r\nIf-Range: {DATE}\r\n"), part(0, 9)),
        ("If-None-Match: \"a\", W/\"e\"\r\nRange: bytes=0-9\r\n".to_owned(), (304, String::new(), &[])),
        ("If-None-Match: \"a\"\r\n".to_owned(), whole()),
        (format!("If-Modified-Since: {DATE}\r\n"), (304, String::new(), &[])),
        ("If-Match: \"a\"\r\n".to_owned(), (412, String::new(), &[])),
    ];
    for strategy in ["memory", "disk"] {
        let upstream = answering_once(LENGTH);
        let gateway = gateway(&upstream, strategy, &json!({}));
        keep(&gateway);
        let mut client = gateway.connect();
        for (fields, (status, range, expected)) in &cases {
            let answer = ask(&mut client, "GET", fields);
            assert_eq!(
                (answer.status(), answer.field("content-range").unwrap_or_default()),
                (*status, range.as_str()),
                "{strategy} {fields}"
            );
            assert!(answer.body == *expected, "{strategy} {fields}");
            assert_eq!(answer.field("apisix-cache-status"), Some("HIT"));
            assert_eq!(answer.field("etag"), Some("\"e\""));
        }
        let several = ask(&mut client, "GET", "Range: bytes=5-6,100000-100009\r\n");
        let media_type = several.field("content-type").unwrap().to_owned();
        let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let before = |range: &str| {
            format!(
                "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes {range}/{LENGTH}\r\n\r\n"
            )
        };
        let mut expected = before("5-6").into_bytes();
        expected.extend(&body[5..7]);
        expected.extend(before("100000-100009").bytes());
        expected.extend(&body[100_000..100_010]);
        expected.extend(format!("\r\n--{boundary}--\r\n").bytes());
        assert!(several.status() == 206 && several.body == expected, "{strategy}");
        let head = ask(&mut client, "HEAD", "");
        assert_eq!(head.field("content-length"), Some("300000"));
        assert_eq!(upstream.connections(), 1);
    }
}

#[test]
fn who_has_it_already_is_told_so_while_it_is_fetched_and_kept() {
    let upstream = answering_once(LENGTH);
    let gateway = gateway(&upstream, "memory", &json!({}));
    let mut client = gateway.connect();
    let first = ask(&mut client, "GET", "If-None-Match: \"e\"\r\n");
    assert_eq!((first.status(), first.field("apisix-cache-status")), (304, Some("MISS")));
    let second = ask(&mut client, "GET", "");
    assert_eq!((second.status(), second.field("apisix-cache-status")), (200, Some("HIT")));
    Pattern::check(&second.body, LENGTH);
}

#[test]
fn clients_that_stop_reading_do_not_fill_the_memory() {
    const CLIENTS: usize = 8;
    let upstream = answering_once(LONG);
    let mut gateway = gateway(&upstream, "disk", &json!({}));
    keep(&gateway);
    let before = gateway.process().memory_kb("VmRSS");
    let mut clients: Vec<Peer> = (0..CLIENTS).map(|_| gateway.connect()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: e2e\r\n\r\n");
        assert_eq!(client.head().field("apisix-cache-status"), Some("HIT"));
    }
    let grown = gateway.process().memory_kb("VmRSS").saturating_sub(before);
    assert!(grown < LONG as u64 / 1024 / 2, "{grown} KiB for {CLIENTS} clients");
    for mut client in clients {
        Pattern::check(&client.bytes(LONG), LONG);
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn long_bodies_come_from_disk_whole_by_any_protocol_and_coding() {
    let upstream = answering_once(LONG / 10);
    let gateway = gateway(&upstream, "disk", &json!({ "gzip": { "types": ["text/plain"] } }));
    keep(&gateway);
    let out = gateway.dir().join("out");
    for protocol in ["--http1.1", "--http1.0", "--http2-prior-knowledge"] {
        for encoding in ["identity", "gzip"] {
            let output = Command::new("curl")
                .args([
                    "-s",
                    "--max-time",
                    "60",
                    "--compressed",
                    protocol,
                    "-w",
                    "%header{apisix-cache-status}",
                ])
                .args(["-H", &format!("Accept-Encoding: {encoding}"), "-H", "Host: e2e"])
                .args([&format!("http://127.0.0.1:{}/", gateway.port), "-o"])
                .arg(&out)
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "HIT", "{protocol} {encoding}");
            Pattern::check(&std::fs::read(&out).unwrap(), LONG / 10);
        }
    }
    assert_eq!(upstream.connections(), 1);
}
