//! What each collector is sent, by a server that stands in for it: the services themselves are elsewhere, and their
//! agents and servers are no packages.

use plugin::testkit::Bench;
use plugin::{Chain, Ingredients, Parent, Registry};
use serde_json::{Map, Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `count` requests with the plugin.
fn run(plugin: &str, config: &Value, metadata: Option<&Value>, count: usize) {
    let registry = Registry::new(crate::all(), Map::new()).expect("valid schemas");
    let parent = Parent { resource_key: "/routes/1", config_version: 1 };
    let ingredients = Ingredients { metadata, definitions: None };
    let chain = Chain::new(vec![registry.compile_one(plugin, config, ingredients, parent).expect("valid")]);
    let bench = Bench::new("GET /a?b=c\nHost: a.com\nsw8: 1-YWJj-ZGVm-5-eA-eA-eA-eA");
    for _ in 0..count {
        let exchange = bench.exchange();
        chain.log.iter().for_each(|step| step.hook.log(&exchange));
    }
    registry.shared.get::<delivery::Delivery>().finish(PATIENCE);
}

/// A request's line and fields in lower case, and its body.
fn request(stream: &mut TcpStream) -> (String, String) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                return (head, String::from_utf8_lossy(&bytes[end + 4..]).into_owned());
            }
        }
        let count = stream.read(&mut piece).unwrap();
        assert_ne!(count, 0, "the request breaks off");
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// What a plugin sends to an HTTP server, whose address stands in for `ADDRESS` in configuration and metadata.
fn posted(plugin: &str, config: &Value, metadata: Option<&Value>, count: usize) -> Vec<(String, String)> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let filled =
        |value: &Value| serde_json::from_str(&value.to_string().replace("ADDRESS", &address)).unwrap();
    let (config, metadata): (Value, Option<Value>) = (filled(config), metadata.map(filled));
    let plugin = plugin.to_owned();
    let runs = std::thread::spawn(move || run(&plugin, &config, metadata.as_ref(), count));
    listener.set_nonblocking(true).unwrap();
    let mut requests = Vec::new();
    while !runs.is_finished() || requests.is_empty() {
        let Ok((mut stream, _)) = listener.accept() else {
            assert!(!runs.is_finished(), "nothing is sent");
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        requests.push(request(&mut stream));
        let body = "{\"version\":{\"number\":\"6.8.1\"}}";
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
    }
    runs.join().unwrap();
    requests
}

fn only(mut requests: Vec<(String, String)>) -> (String, String) {
    assert_eq!(requests.len(), 1, "{requests:?}");
    requests.remove(0)
}

fn parsed(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

fn format() -> Value {
    json!({"u": "$uri"})
}

#[test]
fn loki_has_streams_by_labels() {
    let config = json!({
        "endpoint_addrs": ["http://ADDRESS"], "tenant_id": "t", "headers": {"X-A": "b"},
        "log_labels": {"job": "gw", "host": "$host", "none": "$arg_none"}, "log_format": format(),
    });
    let (head, body) = only(posted("loki-logger", &config, None, 2));
    assert!(head.starts_with("post /loki/api/v1/push "), "{head}");
    assert!(head.contains("x-scope-orgid: t\r\n") && head.contains("x-a: b"), "{head}");
    let body = parsed(&body);
    let stream = &body["streams"][0];
    assert_eq!(stream["stream"], json!({"job": "gw", "host": "a.com", "none": "$arg_none"}));
    assert_eq!(stream["values"].as_array().unwrap().len(), 2);
    let [time, line] = [0, 1].map(|at| stream["values"][0][at].as_str().unwrap());
    assert!(time.len() >= 13 && time.ends_with("000000"), "{time}");
    assert_eq!(parsed(line), json!({"u": "/a", "route_id": "1"}));
}

#[test]
fn clickhouse_has_rows() {
    let config = json!({
        "endpoint_addrs": ["http://ADDRESS"], "user": "u", "password": "p", "database": "d", "logtable": "t",
        "log_format": format(),
    });
    let (head, body) = only(posted("clickhouse-logger", &config, None, 2));
    for field in ["x-clickhouse-user: u", "x-clickhouse-key: p", "x-clickhouse-database: d"] {
        assert!(head.contains(field), "{head}");
    }
    let row = "{\"u\":\"/a\",\"route_id\":\"1\"}";
    assert_eq!(body, format!("INSERT INTO t FORMAT JSONEachRow {row} {row}"));
}

#[test]
fn elasticsearch_has_documents_of_its_version() {
    let config = json!({
        "endpoint_addr": "http://ADDRESS", "field": {"index": "i-$host"},
        "auth": {"username": "u", "password": "p"}, "log_format": format(),
    });
    let requests = posted("elasticsearch-logger", &config, None, 1);
    let [(version, _), (head, body)] = &requests[..] else { panic!("{requests:?}") };
    assert!(version.starts_with("get / ") && version.contains("authorization: basic dtpw"), "{version}");
    assert!(head.starts_with("post /_bulk ") && head.contains("authorization: basic dtpw"), "{head}");
    let action = "{\"index\":{\"_index\":\"i-a.com\",\"_type\":\"_doc\"}}";
    assert_eq!(*body, format!("{action}\n{{\"u\":\"/a\",\"route_id\":\"1\"}}\n"));
}

#[test]
fn splunk_has_events() {
    let config = json!({"endpoint": {"uri": "http://ADDRESS/x", "token": "t", "channel": "c"}});
    let (head, body) = only(posted("splunk-hec-logging", &config, None, 1));
    assert!(head.contains("authorization: splunk t\r\n"), "{head}");
    assert!(head.contains("x-splunk-request-channel: c"), "{head}");
    let event = parsed(&body);
    assert_eq!((&event["host"], &event["sourcetype"]), (&json!("gateway"), &json!("_json")));
    assert_eq!(event["event"]["request_query"], json!({"b": "c"}));
    assert!(event["event"].get("client_ip").is_none() && event["time"].is_number(), "{event}");
}

#[test]
fn skywalking_has_logs_of_a_trace() {
    let config = json!({"endpoint_addr": "http://ADDRESS/any", "service_instance_name": "$hostname", "log_format": format()});
    let (head, body) = only(posted("skywalking-logger", &config, None, 1));
    assert!(head.starts_with("post /v3/logs "), "{head}");
    let expected = json!([{
        "body": {"json": {"json": "{\"u\":\"/a\",\"route_id\":\"1\"}"}},
        "service": "APISIX", "serviceInstance": "gateway", "endpoint": "/a",
        "traceContext": {"traceId": "abc", "traceSegmentId": "def", "spanId": 5},
    }]);
    assert_eq!(parsed(&body), expected);
}

#[test]
fn lago_has_events() {
    let config = json!({
        "endpoint_addrs": ["http://ADDRESS"], "token": "t", "event_transaction_id": "r_${arg_b}",
        "event_subscription_id": "s", "event_code": "c", "event_properties": {"host": "$host", "none": "$arg_none"},
    });
    let (head, body) = only(posted("lago", &config, None, 2));
    assert!(
        head.starts_with("post /api/v1/events/batch ") && head.contains("authorization: bearer t"),
        "{head}"
    );
    let mut events = parsed(&body);
    assert!(events["events"][1]["timestamp"].take().is_number(), "{events}");
    let event = json!({
        "transaction_id": "r_c", "external_subscription_id": "s", "code": "c", "timestamp": null,
        "properties": {"host": "a.com", "none": "$arg_none"},
    });
    assert_eq!(events["events"][1], event);
}

#[test]
fn loggly_has_messages_or_lines() {
    let config = json!({"customer_token": "t", "tags": ["x", "y"], "severity_map": {"000": "err"}, "log_format": format()});
    assert!(
        Registry::new(crate::all(), Map::new())
            .unwrap()
            .check(json!({"loggly": config}).as_object().unwrap())
            .len()
            == 1
    );
    let config =
        json!({"customer_token": "t", "tags": ["x", "y"], "severity": "warning", "log_format": format()});
    let metadata = json!({"host": "ADDRESS", "protocol": "http"});
    let (head, body) = only(posted("loggly", &config, Some(&metadata), 2));
    assert!(head.starts_with("post /bulk/t/tag/bulk ") && head.contains("x-loggly-tag: x,y"), "{head}");
    let line = "{\"u\":\"/a\",\"route_id\":\"1\"}";
    assert_eq!(body, format!("{line}\n{line}"));
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let metadata = json!({"host": "127.0.0.1", "port": server.local_addr().unwrap().port()});
    run("loggly", &config, Some(&metadata), 1);
    let message = datagram(&server);
    assert!(
        message.starts_with("<12>1 ")
            && message.contains("Z a.com apisix 1 - [t@41058 tag=\"x\" tag=\"y\"] {"),
        "{message}"
    );
}

fn datagram(server: &UdpSocket) -> String {
    let mut bytes = [0; 65536];
    let count = server.recv(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn datadog_has_metrics() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = server.local_addr().unwrap().port();
    let metadata = json!({"host": "127.0.0.1", "port": port, "namespace": "n", "constant_tags": ["a:b"]});
    let config = json!({"include_method": true, "constant_tags": ["c:d"]});
    run("datadog", &config, Some(&metadata), 1);
    let metrics = datagram(&server);
    let lines: Vec<&str> = metrics.lines().collect();
    assert!(lines[0].starts_with("n.request.counter:1|c|#a:b,c:d,route_name:"), "{metrics}");
    assert!(lines[0].contains(",method:GET"), "{metrics}");
    for (line, name) in lines.iter().zip([
        "request.counter",
        "request.latency",
        "apisix.latency",
        "ingress.size",
        "egress.size",
    ]) {
        assert!(line.starts_with(&format!("n.{name}:")), "{metrics}");
    }
    let tags = vec![format!("x:{}", "y".repeat(190)); 50];
    let metadata = json!({"host": "127.0.0.1", "port": port, "constant_tags": tags});
    run("datadog", &json!({}), Some(&metadata), 1);
    for name in ["request.counter", "request.latency"] {
        let metric = datagram(&server);
        assert!(metric.starts_with(&format!("apisix.{name}:")) && !metric.contains('\n'), "{metric}");
    }
}

#[test]
fn wrong_headers_are_refused() {
    let registry = Registry::new(crate::all(), Map::new()).unwrap();
    for (headers, good) in
        [(json!({"X-A": "b"}), true), (json!({"X A": "b"}), false), (json!({"X-A": "b\nc"}), false)]
    {
        let plugins = json!({"loki-logger": {"endpoint_addrs": ["http://a.com"], "headers": headers}});
        assert_eq!(registry.check(plugins.as_object().unwrap()).is_empty(), good, "{headers}");
    }
}

#[test]
fn google_has_entries_under_a_token() {
    let key = include_str!("../../../secrets/src/source/gcp_test_key.pem");
    let config = json!({
        "auth_config": {
            "client_email": "a@b", "private_key": key, "project_id": "p",
            "token_uri": "http://ADDRESS/token", "entries_uri": "http://ADDRESS/entries",
        },
        "log_format_extra": {"more": "$uri"},
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let config: Value = serde_json::from_str(&config.to_string().replace("ADDRESS", &address)).unwrap();
    let runs = std::thread::spawn(move || run("google-cloud-logging", &config, None, 1));
    let answered = |body: &str| {
        let (mut stream, _) = listener.accept().unwrap();
        let request = request(&mut stream);
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        request
    };
    let (head, body) = answered("{\"access_token\":\"t\",\"expires_in\":3600}");
    assert!(head.starts_with("post /token ") && body.contains("assertion="), "{head} {body}");
    let (head, body) = answered("{}");
    assert!(head.starts_with("post /entries ") && head.contains("authorization: bearer t"), "{head}");
    let entry = &parsed(&body)["entries"][0];
    assert_eq!(
        (&entry["logName"], &entry["resource"]),
        (&json!("projects/p/logs/apisix.apache.org%2Flogs"), &json!({"type": "global"}))
    );
    assert_eq!(
        (&entry["httpRequest"]["requestMethod"], &entry["jsonPayload"]["more"]),
        (&json!("GET"), &json!("/a"))
    );
    assert!(entry["jsonPayload"].get("request").is_none(), "{entry}");
    runs.join().unwrap();
}

#[test]
fn tencent_has_logs_with_tags() {
    let config = json!({
        "cls_host": "ADDRESS", "cls_topic": "t", "scheme": "http", "secret_id": "i", "secret_key": "k",
        "global_tag": {"tag": "x"}, "log_format": format(),
    });
    let (head, body) = only(posted("tencent-cloud-cls", &config, None, 1));
    assert!(head.starts_with("post /structuredlog?topic_id=t "), "{head}");
    assert!(head.contains("authorization: q-sign-algorithm=sha1&q-ak=i&"), "{head}");
    for content in ["\u{1}u\u{12}\u{2}/a", "\u{3}tag\u{12}\u{1}x"] {
        assert!(body.contains(content), "{body:?}");
    }
}

#[test]
fn zipkin_has_spans_in_the_order_of_their_ends() {
    for (version, expected) in [
        (2, &["apisix.request"][..]),
        (1, &["apisix.rewrite", "apisix.access", "apisix.proxy", "apisix.request"]),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/api/v2/spans", listener.local_addr().unwrap());
        let config = json!({"zipkin": {"endpoint": endpoint, "sample_ratio": 1, "span_version": version}});
        let runs = std::thread::spawn(move || {
            let registry = Registry::new(crate::all(), Map::new()).expect("valid schemas");
            let chain = plugin::testkit::chain(&registry, &config).expect("valid");
            let bench = Bench::new("GET /a\nHost: a.com");
            let mut exchange = bench.exchange();
            chain.rewrite.iter().for_each(|step| drop(step.hook.rewrite(&mut exchange)));
            chain.access.iter().for_each(|step| drop(step.hook.access(&mut exchange)));
            chain.log.iter().for_each(|step| step.hook.log(&exchange));
            registry.shared.get::<delivery::Delivery>().finish(PATIENCE);
        });
        let (mut stream, _) = listener.accept().unwrap();
        let (head, body) = request(&mut stream);
        stream.write_all(b"HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap();
        runs.join().unwrap();
        assert!(head.starts_with("post /api/v2/spans "), "{head}");
        let spans = parsed(&body);
        let names: Vec<&str> =
            spans.as_array().unwrap().iter().map(|span| span["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected);
        let root = spans.as_array().unwrap().last().unwrap();
        assert_eq!((&root["kind"], &root["tags"]["http.url"]), (&json!("SERVER"), &json!("/a")));
        assert!(spans.as_array().unwrap().iter().all(|span| span["traceId"] == root["traceId"]));
    }
}
