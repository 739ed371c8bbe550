//! Batches through the endpoint, with answers from a list.

use super::*;
use plugin::testkit::{self, Bench};
use plugin::{Chain, Ingredients, Parent, Registry};

fn registry(attributes: &Value) -> Registry {
    let attributes = json!({ "batch-requests": attributes });
    let attributes = attributes.as_object().cloned().expect("an object");
    Registry::new([def(), crate::public_api::def()], attributes).expect("valid schemas")
}

/// A route with `public-api`, under the plugin's metadata.
fn chain(metadata: Option<&Value>) -> Chain {
    let ingredients = Ingredients { metadata, definitions: None };
    let parent = Parent { resource_key: "/routes/1", config_version: 1 };
    let compiled = registry(&json!({})).compile_one("public-api", &json!({}), ingredients, parent);
    Chain::new(vec![compiled.expect("a valid configuration")])
}

fn post(body: &str, fields: &str) -> Bench {
    let length = body.len();
    Bench::new(&format!("POST {URI}\nHost: a.com:9080\nContent-Length: {length}{fields}")).with_body(body)
}

fn ask(chain: &Chain, bench: &Bench) -> (u16, Value) {
    let reply = testkit::request(chain, &mut bench.exchange()).expect("an answer");
    let body = reply.body.unwrap_or_default();
    let text = String::from_utf8(body).expect("text");
    (reply.status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")))
}

#[test]
fn requests_take_query_and_fields_from_the_batch_and_the_client() {
    let batch = json!({
        "query": {"base": "b c", "conflict": "query"},
        "headers": {"Base-Header": "base", "Conflict": "header", "OuterConflict": "common", "X-Forwarded-Proto": "https"},
        "pipeline": [
            {"path": "/b", "headers": {"conflict": "own", "N": 1, "L": ["1", "2"], "X-Real-IP": "9.9.9.9"}},
            {"path": "/c?x=1", "method": "PUT", "body": "sent", "query": {"conflict": ["o", "p"], "flag": true, "none": null}},
            {"path": "/d", "method": "HEAD", "headers": {"Host": "d.com", "Transfer-Encoding": "chunked"}}
        ]
    });
    let fields = "\nCookie: c\nOuterConflict: outer\nContent-Type: application/json\nAccept-Encoding: gzip\n\
                  X_Forwarded_For: 9.9.9.9\nConnection: close\nExpect: 100-continue";
    let bench = post(&batch.to_string(), fields);
    bench.services.answer(200, &[("X-A", "1"), ("X-A", "2"), ("X-B", "b")], "B");
    bench.services.answer(201, &[], "");
    bench.services.answer(202, &[], "");
    let expected = json!([
        {"status": 200, "reason": "OK", "headers": {"X-A": ["1", "2"], "X-B": "b"}, "body": "B"},
        {"status": 201, "reason": "Created", "headers": {}, "body": ""},
        {"status": 202, "reason": "Accepted", "headers": {}}
    ]);
    assert_eq!(ask(&chain(None), &bench), (200, expected));
    let calls = bench.services.calls();
    let heads: Vec<_> =
        calls.iter().map(|call| format!("{} {} {}", call.method, call.authority, call.target)).collect();
    assert_eq!(
        heads,
        [
            "GET a.com:9080 /b?base=b%20c&conflict=query",
            "PUT a.com:9080 /c?x=1&conflict=o&conflict=p&flag&base=b%20c",
            "HEAD d.com /d?base=b%20c&conflict=query",
        ]
    );
    assert_eq!(
        calls[0].headers,
        "Cookie: c\r\nconflict: own\r\nN: 1\r\nL: 1\r\nL: 2\r\nBase-Header: base\r\nOuterConflict: common\r\n\
         X-Real-IP: 127.0.0.1\r\nX-Tidegate-Batch: 1\r\n"
    );
    assert_eq!(calls[1].body, b"sent");
}

#[test]
fn what_is_no_batch_is_refused_in_apisix_words() {
    let bad = |why: &str| format!("bad request body: {why}");
    let item = "property \"pipeline\" validation failed: failed to validate item 1: ";
    for (body, message) in [
        ("", "no request body, you should give at least one pipeline setting".to_owned()),
        (
            "invalid",
            "invalid request body: invalid, err: Expected value but found invalid token at character 1"
                .to_owned(),
        ),
        ("{", "invalid request body: {, err: EOF while parsing an object at line 1 column 1".to_owned()),
        ("{}", bad("object matches none of the required: [\"pipeline\"]")),
        (
            r#"{"pipeline": []}"#,
            bad("property \"pipeline\" validation failed: expect array to have at least 1 items"),
        ),
        (
            r#"{"pipeline": [{"path": ""}]}"#,
            bad(&format!(
                "{item}property \"path\" validation failed: string too short, expected at least 1, got 0"
            )),
        ),
        (
            r#"{"pipeline": [{"path": "/", "method": "put"}]}"#,
            bad(&format!("{item}property \"method\" validation failed: matches none of the enum values")),
        ),
        (
            r#"{"pipeline": [{"path": "/", "version": 1.2}]}"#,
            bad(&format!("{item}property \"version\" validation failed: matches none of the enum values")),
        ),
        (
            r#"{"pipeline": [{"path": "/ HTTP/1.1\r\nX: y"}]}"#,
            bad("item 1: the request target holds a space or a control character"),
        ),
        (
            r#"{"pipeline": [{"path": "/"}, {"path": "/", "headers": {"host": "a b"}}]}"#,
            bad("item 2: the host holds a character that no host may have"),
        ),
    ] {
        let bench = post(body, "");
        let (status, answer) = ask(&chain(None), &bench);
        assert_eq!((status, answer["error_msg"].as_str()), (400, Some(&*message)), "{body}");
        assert_eq!(bench.services.calls(), [], "nothing of a batch with a mistake is sent: {body}");
    }
}

#[test]
fn a_batch_in_a_batch_is_refused() {
    let (status, _) = ask(&chain(None), &post(r#"{"pipeline": [{"path": "/"}]}"#, "\nX-Tidegate-Batch: 1"));
    assert_eq!(status, 400);
}

#[test]
fn metadata_bounds_body_and_number() {
    let metadata = json!({"max_body_size": 60, "max_pipeline_items": 2});
    let three = r#"{"pipeline": [{"path": "/"}, {"path": "/"}, {"path": "/"}]}"#;
    let (status, answer) = ask(&chain(Some(&metadata)), &post(three, ""));
    assert_eq!(status, 400);
    assert_eq!(answer["error_msg"], "too many pipeline requests, 3 exceeds the maximum of 2");
    let (status, answer) = ask(&chain(Some(&metadata)), &post(&format!("{three}  "), ""));
    assert_eq!(status, 413);
    assert_eq!(answer["error_msg"], "request size 61 is greater than the maximum size 60 allowed");
}

#[test]
fn nothing_is_sent_after_a_timeout() {
    let batch = r#"{"pipeline": [{"path": "/1"}, {"path": "/2"}, {"path": "/3"}, {"path": "/4"}]}"#;
    let bench = post(batch, "");
    bench.services.answer(200, &[], "1");
    bench.services.fail(CallErrorKind::Protocol);
    bench.services.fail(CallErrorKind::Timeout);
    let late = json!({"status": 504, "reason": "upstream timeout"});
    let (status, answers) = ask(&chain(None), &bench);
    assert_eq!((status, &answers[0]["status"]), (200, &json!(200)));
    assert_eq!((&answers[1], &answers[2], &answers[3]), (&late, &late, &late));
    assert_eq!(bench.services.calls().len(), 3);
    let bench = post(batch, "");
    bench.services.fail(CallErrorKind::Connection);
    assert_eq!(ask(&chain(None), &bench).0, 500);
}

#[test]
fn answers_are_bounded_in_all() {
    let bench = post(r#"{"pipeline": [{"path": "/1"}, {"path": "/2"}, {"path": "/3"}]}"#, "");
    let large = "x".repeat(10 << 20);
    (0..2).for_each(|_| bench.services.answer(200, &[], &large));
    bench.services.answer(200, &[], "small");
    let (status, answers) = ask(&chain(None), &bench);
    assert_eq!((status, answers[0]["body"].as_str().map(str::len)), (200, Some(10 << 20)));
    assert!(
        answers[1]["read_body_err"].as_str().is_some_and(|why| why.contains("16777216")),
        "{}",
        answers[1]
    );
    assert_eq!(answers[2]["body"], "small");
}

#[test]
fn the_endpoint_is_where_the_file_says() {
    let registry = registry(&json!({"uri": "/all"}));
    let chain = testkit::chain(&registry, &json!({"public-api": {}})).expect("valid");
    assert_eq!(testkit::access(&chain, &mut Bench::new("POST /all").exchange()), 400);
    assert_eq!(testkit::access(&chain, &mut Bench::new(&format!("POST {URI}")).exchange()), 404);
    assert_eq!(testkit::access(&chain, &mut Bench::new("GET /all").exchange()), 404);
}
