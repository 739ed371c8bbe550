//! `batch-requests`: a batch's requests pass through the gateway as ones of its own.

use e2e::{Gateway, Message, Peer, Upstream, eventually};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Answers with what it was asked, as JSON.
fn telling() -> Upstream {
    Upstream::answering(|request: &Message| {
        let body = json!({ "start": request.start, "fields": request.fields, "body": request.text() });
        let body = if request.start.starts_with("HEAD ") { String::new() } else { body.to_string() };
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
    })
}

fn gateway(upstream: &Upstream, config: Value) -> Gateway {
    let gateway = Gateway::with(config);
    gateway.route_all(&upstream.address());
    let api = json!({ "uri": "/apisix/batch-requests", "plugins": { "public-api": {} } });
    gateway.put("routes/batch", &api);
    gateway
}

fn post(peer: &mut Peer, batch: &Value, fields: &str) -> Message {
    let body = batch.to_string();
    let length = body.len();
    peer.send(format!(
        "POST /apisix/batch-requests HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    ));
    peer.response()
}

#[test]
fn a_batch_is_answered_in_order() {
    let upstream = telling();
    let gateway = gateway(&upstream, json!({}));
    let batch = json!({
        "query": { "q": "1" },
        "headers": { "X-Common": "c" },
        "timeout": u64::MAX,
        "pipeline": [
            { "path": "/a", "headers": { "X-Own": "o", "X-Real-IP": "9.9.9.9", "X-Forwarded-For": "9.9.9.9" } },
            { "path": "/b?x=y", "method": "POST", "body": "sent" },
            { "path": "/c", "method": "HEAD" },
        ]
    });
    let mut client = gateway.connect();
    let answer = post(&mut client, &batch, "Cookie: k\r\nContent-Type: application/json\r\n");
    assert_eq!((answer.status(), answer.field("content-type")), (200, Some("application/json")));
    let all = answer.json();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 3);
    for one in all {
        assert_eq!((&one["status"], &one["reason"]), (&json!(200), &json!("OK")));
        assert_eq!(one["headers"]["X-A"], json!(["1", "2"]));
    }
    let seen = |one: &Value| -> (String, Vec<String>, String) {
        let told: Value = serde_json::from_str(one["body"].as_str().unwrap()).unwrap();
        serde_json::from_value(json!([told["start"], told["fields"], told["body"]])).unwrap()
    };
    let (start, fields, _) = seen(&all[0]);
    assert_eq!(start, "GET /a?q=1 HTTP/1.1");
    for expected in
        ["X-Own: o", "X-Common: c", "Cookie: k", "X-Real-IP: 127.0.0.1", "X-Forwarded-For: 127.0.0.1"]
    {
        assert!(fields.iter().any(|field| field == expected), "{expected}: {fields:?}");
    }
    assert!(
        !fields.iter().any(|field| field.contains("9.9.9.9") || field.starts_with("Content-Type")),
        "{fields:?}"
    );
    let (start, _, body) = seen(&all[1]);
    assert_eq!((start.as_str(), body.as_str()), ("POST /b?x=y&q=1 HTTP/1.1", "sent"));
    assert_eq!(all[2].get("body"), None, "{}", all[2]);
}

#[test]
fn requests_of_a_batch_meet_routes_authentication_and_limits() {
    let upstream = telling();
    let gateway = gateway(&upstream, json!({}));
    gateway.put(
        "consumers",
        &json!({ "username": "jack", "plugins": { "key-auth": { "key": "a-key-of-jack" } } }),
    );
    let nodes = json!({ "nodes": { upstream.address(): 1 }, "type": "roundrobin" });
    let closed = json!({ "uri": "/closed", "plugins": { "key-auth": {} }, "upstream": nodes });
    gateway.put("routes/closed", &closed);
    let limit =
        json!({ "limit-count": { "count": 1, "time_window": 60, "rejected_code": 429, "policy": "local" } });
    gateway.put("routes/limited", &json!({ "uri": "/limited", "plugins": limit, "upstream": nodes }));
    let pipeline = json!([
        { "path": "/closed" },
        { "path": "/closed", "headers": { "apikey": "a-key-of-jack" } },
        { "path": "/limited" },
        { "path": "/limited" },
    ]);
    let answer = post(&mut gateway.connect(), &json!({ "pipeline": pipeline }), "").json();
    let statuses: Vec<_> =
        answer.as_array().unwrap().iter().map(|one| one["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [401, 200, 200, 429]);
}

#[test]
fn a_client_s_address_is_passed_on_when_the_gateway_believes_itself() {
    let upstream = telling();
    let http = json!({ "real_ip_from": ["127.0.0.1"], "real_ip_header": "X-Client" });
    let gateway = gateway(&upstream, json!({ "nginx_config": { "http": http } }));
    let allowed = json!({ "ip-restriction": { "whitelist": ["8.8.8.8"] } });
    let nodes = json!({ "nodes": { upstream.address(): 1 }, "type": "roundrobin" });
    gateway.put("routes/allowed", &json!({ "uri": "/allowed", "plugins": allowed, "upstream": nodes }));
    let batch = json!({ "headers": { "X-Client": "8.8.8.8" }, "pipeline": [{ "path": "/allowed" }] });
    let status = |fields: &str| post(&mut gateway.connect(), &batch, fields).json()[0]["status"].clone();
    assert_eq!(status("X-Client: 7.7.7.7\r\n"), json!(403), "the batch can't say who the client is");
    assert_eq!(status("X-Client: 8.8.8.8\r\n"), json!(200), "a proxy before the gateway can");
}

#[test]
fn a_slow_answer_times_out_and_ends_the_batch() {
    let upstream = Upstream::serve(|mut peer, _| {
        while let Ok(request) = peer.request() {
            if request.start.starts_with("GET /slow") {
                while matches!(peer.fill(), Ok(true)) {}
                return;
            }
            let _ = peer.try_send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
    });
    let gateway = gateway(&upstream, json!({}));
    let batch =
        json!({ "timeout": 300, "pipeline": [{ "path": "/a" }, { "path": "/slow" }, { "path": "/b" }] });
    let started = Instant::now();
    let answer = post(&mut gateway.connect(), &batch, "").json();
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    let late = json!({ "status": 504, "reason": "upstream timeout" });
    assert_eq!((&answer[0]["status"], &answer[1], &answer[2]), (&json!(200), &late, &late));
}

#[test]
fn a_thousand_requests_are_answered_and_one_more_is_refused() {
    let upstream = Upstream::hello();
    let gateway = gateway(&upstream, json!({}));
    let items = |count: usize| -> Value { (0..count).map(|n| json!({ "path": format!("/{n}") })).collect() };
    let mut client = gateway.connect();
    let answer = post(&mut client, &json!({ "pipeline": items(1000) }), "").json();
    let all = answer.as_array().unwrap();
    assert!(all.len() == 1000 && all.iter().all(|one| one["status"] == 200 && one["body"] == "hello"));
    let answer = post(&mut client, &json!({ "pipeline": items(1001) }), "");
    assert_eq!(answer.status(), 400);
    let message = "too many pipeline requests, 1001 exceeds the maximum of 1000";
    assert_eq!(answer.json(), json!({ "error_msg": message }));
    // Metadata counts from the next request on.
    gateway.put("plugin_metadata/batch-requests", &json!({ "max_pipeline_items": 2, "max_body_size": 60 }));
    assert_eq!(post(&mut client, &json!({ "pipeline": items(3) }), "").status(), 400);
    assert_eq!(post(&mut client, &json!({ "pipeline": items(2) }), "").status(), 200);
    let answer = post(&mut client, &json!({ "pipeline": items(6) }), "");
    assert_eq!(answer.status(), 413, "{}", answer.text());
}

#[test]
fn a_batch_in_a_batch_is_refused_and_holds_nothing() {
    let upstream = telling();
    let gateway = gateway(&upstream, json!({}));
    let mut batch = json!({ "pipeline": [{ "path": "/inner" }] });
    for _ in 0..5 {
        let item = json!({ "path": "/apisix/batch-requests", "method": "POST", "body": batch.to_string() });
        batch = json!({ "pipeline": [item, { "path": "/outer" }] });
    }
    let answer = post(&mut gateway.connect(), &batch, "").json();
    assert_eq!((&answer[0]["status"], &answer[1]["status"]), (&json!(400), &json!(200)), "{answer}");
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_client_that_leaves_ends_its_batch() {
    let upstream = Upstream::serve(|mut peer, _| {
        let _ = peer.request();
        while matches!(peer.fill(), Ok(true)) {}
    });
    let gateway = gateway(&upstream, json!({}));
    let items: Value = (0..100).map(|n| json!({ "path": format!("/{n}") })).collect();
    let body = json!({ "pipeline": items, "timeout": 60000 }).to_string();
    let mut client = gateway.connect();
    let length = body.len();
    client.send(format!(
        "POST /apisix/batch-requests HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    eventually("the first request arrives", || (upstream.connections() == 1).then_some(()));
    drop(client);
    // The exchange of the batch and the one of its request end, the latter as its client left too.
    let lines = gateway.access_log(2);
    assert!(lines.iter().all(|line| line.contains(" 499 ")), "{lines:?}");
    assert_eq!(upstream.connections(), 1, "nothing more was sent");
}
