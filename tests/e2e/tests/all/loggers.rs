//! Plugins that tell collectors of requests, and real collectors.

use e2e::{Gateway, Upstream, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

/// Sends everything to `upstream`, with these plugins.
fn route(gateway: &Gateway, upstream: &Upstream, plugins: &Value) {
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": plugins }));
}

#[test]
fn batches_are_posted() {
    let (upstream, (collector, seen)) = (Upstream::hello(), Upstream::recording());
    let gateway = Gateway::start();
    let uri = format!("http://{}/logs?a=b", collector.address());
    let logger = json!({
        "uri": uri, "auth_header": "Bearer t", "batch_max_size": 2, "include_req_body": true, "include_resp_body": true
    });
    route(&gateway, &upstream, &json!({ "http-logger": logger }));
    let mut client = gateway.connect();
    client.send("POST /a HTTP/1.1\r\nHost: a.com\r\nContent-Length: 3\r\n\r\nask");
    assert_eq!(client.response().text(), "hello");
    assert_eq!(client.get("/b").text(), "hello");
    let batch = eventually("the collector has the batch", || seen.take().pop());
    assert_eq!(batch.start, "POST /logs?a=b HTTP/1.1");
    assert_eq!(batch.field("content-type"), Some("application/json"));
    assert_eq!(batch.field("authorization"), Some("Bearer t"));
    let batch = batch.json();
    let of = |at: usize, place: &str| batch[at].pointer(place).cloned().unwrap_or_default();
    assert_eq!(of(0, "/request/uri"), "/a");
    assert_eq!((of(0, "/request/body"), of(0, "/response/body")), (json!("ask"), json!("hello")));
    assert_eq!((of(1, "/request/uri"), of(1, "/response/status")), (json!("/b"), json!(200)));
    assert_eq!((of(1, "/upstream"), of(1, "/route_id")), (json!(upstream.address()), json!("all")));
    assert_eq!(of(1, "/response/headers/content-length"), "5");
    assert!(of(1, "/upstream_latency").as_f64() <= of(1, "/latency").as_f64());
}

#[test]
fn what_waits_is_sent_before_the_end_and_what_nobody_takes_is_told() {
    let (upstream, (collector, seen)) = (Upstream::hello(), Upstream::recording());
    let mut gateway = Gateway::start();
    let logger = json!({ "uri": format!("http://{}/", collector.address()), "inactive_timeout": 3600 });
    // A port that nobody listens on.
    let gone = Upstream::hello().port;
    let lost = json!({ "host": "127.0.0.1", "port": gone, "batch_max_size": 1, "max_retry_count": 1, "retry_delay": 0 });
    route(&gateway, &upstream, &json!({ "http-logger": logger, "tcp-logger": lost }));
    (0..3).for_each(|_| assert_eq!(gateway.get("/").status(), 200));
    eventually("the loss is told", || gateway.stderr().contains("tcp logger: ").then_some(()));
    assert!(seen.take().is_empty(), "the batch is not full");
    gateway.process().signal(Signal::QUIT);
    assert!(gateway.process().wait().success());
    let batch = eventually("the collector has the batch", || seen.take().pop());
    assert_eq!(batch.json().as_array().map(Vec::len), Some(3));
    assert!(gateway.stderr().contains("log entries dropped"), "{}", gateway.stderr());
}

#[test]
fn tcp_and_udp_servers_are_told() {
    let (upstream, gateway) = (Upstream::hello(), Gateway::start());
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let [udp, syslog] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let server = |port: u16| json!({ "host": "127.0.0.1", "port": port, "batch_max_size": 1, "log_format": { "uri": "$uri", "time": "$time_iso8601" } });
    let mut datagrams = server(syslog.local_addr().unwrap().port());
    datagrams["sock_type"] = json!("udp");
    let plugins = json!({
        "tcp-logger": server(tcp.local_addr().unwrap().port()),
        "udp-logger": server(udp.local_addr().unwrap().port()),
        "syslog": datagrams,
    });
    route(&gateway, &upstream, &plugins);
    assert_eq!(gateway.get("/a").status(), 200);
    let mut by_tcp = String::new();
    tcp.accept().unwrap().0.read_to_string(&mut by_tcp).unwrap();
    let received = |socket: &UdpSocket| {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut buffer = [0; 2048];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let by_syslog = received(&syslog);
    assert!(by_syslog.starts_with("<46>1 2") && by_syslog.ends_with('\n'), "{by_syslog}");
    let (_, message) = by_syslog.split_once(" - - ").unwrap();
    for entry in [&by_tcp, &received(&udp), message] {
        let entry: Value = serde_json::from_str(entry).unwrap();
        assert_eq!((&entry["uri"], &entry["route_id"]), (&json!("/a"), &json!("all")));
        assert!(entry["time"].as_str().is_some_and(|time| time.contains('T')), "{entry}");
    }
}

#[test]
fn files_are_written_and_opened_anew() {
    let (upstream, mut gateway) = (Upstream::hello(), Gateway::start());
    let logger = json!({ "path": "logs/mine/a.log", "log_format": { "uri": "$uri" }, "match": [[["uri", "!", "~~", "^/quiet"]]] });
    route(&gateway, &upstream, &json!({ "file-logger": logger }));
    let path = gateway.data_dir().join("logs/mine/a.log");
    let written = |expected: &str| {
        let line = format!("{{\"uri\":\"{expected}\",\"route_id\":\"all\"}}\n");
        eventually("the line is written", || {
            std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with(&line)).then_some(())
        });
    };
    assert_eq!(gateway.get("/quiet").status(), 200);
    assert_eq!(gateway.get("/1").status(), 200);
    written("/1");
    assert!(!std::fs::read_to_string(&path).unwrap().contains("quiet"));
    let moved = path.with_extension("1");
    std::fs::rename(&path, &moved).unwrap();
    gateway.process().signal(Signal::USR1);
    // Until the signal has been heard, lines go where they went.
    let mut number = 1;
    eventually("the file is there again", || {
        number += 1;
        assert_eq!(gateway.get(&format!("/{number}")).status(), 200);
        path.exists().then_some(())
    });
    written(&format!("/{number}"));
}

#[test]
fn log_files_are_below_the_folders_of_the_configuration_file() {
    let (upstream, gateway) = (Upstream::hello(), Gateway::start());
    let outside = gateway.dir().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::create_dir_all(gateway.data_dir().join("logs")).unwrap();
    std::os::unix::fs::symlink(&outside, gateway.data_dir().join("logs/link")).unwrap();
    for path in ["/etc/cron.d/a", "a.log", "logs/../a.log", "logs/link/a.log", "../outside/a.log", ""] {
        let nodes = json!({ "type": "roundrobin", "nodes": { upstream.address(): 1 } });
        let body = json!({ "uri": "/*", "upstream": nodes, "plugins": { "file-logger": { "path": path } } });
        let answer = gateway.admin("PUT", "/routes/all", &body);
        assert!(
            answer.status() == 400 && answer.text().contains("apisix.log_roots"),
            "{path}: {}",
            answer.text()
        );
    }
    // The metadata's path is checked where it is used.
    let path = outside.join("b.log");
    gateway.put("plugin_metadata/file-logger", &json!({ "path": path }));
    route(&gateway, &upstream, &json!({ "file-logger": {} }));
    assert_eq!(gateway.get("/1").status(), 200);
    assert!(gateway.stderr().contains("apisix.log_roots"), "{}", gateway.stderr());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn endpoints_of_plugins_are_opened_by_routes() {
    let attributes = json!({ "plugin_attr": { "prometheus": { "enable_export_server": false } }, "apisix": { "id": "gw-1" } });
    let gateway = Gateway::with(attributes);
    assert_eq!(gateway.get("/apisix/status").status(), 404, "no route opens it");
    let plugins = json!({ "public-api": {}, "key-auth": {} });
    gateway.put("consumers", &json!({ "username": "jack", "plugins": { "key-auth": { "key": "k" } } }));
    gateway.put("routes/1", &json!({ "uri": "/apisix/*", "plugins": plugins }));
    gateway.put(
        "routes/2",
        &json!({ "uri": "/m", "plugins": { "public-api": { "uri": "/apisix/prometheus/metrics" } } }),
    );
    assert_eq!(gateway.get("/apisix/status").status(), 401, "the route's plugins say who may ask");
    let status = gateway.get("/apisix/status?apikey=k");
    assert_eq!((status.status(), &status.json()["id"]), (200, &json!("gw-1")));
    assert!(
        status.json()["status"]["total"].as_str().is_some_and(|total| total.parse::<u32>().unwrap() >= 3)
    );
    assert_eq!(gateway.get("/apisix/none?apikey=k").status(), 404);
    let metrics = gateway.get("/m");
    assert_eq!(metrics.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(metrics.text().contains("apisix_http_requests_total"), "{}", metrics.text());
}
