use super::*;
use plugin::testkit::{self, Bench};
use plugin::{CallErrorKind, Registry};

const ALLOWED: &str =
    r#"{"ok":true,"data":{"userInfo":{"nickname":"\u00e9 x","username":"admin","id":100}}}"#;

fn bench(request: &str) -> (Registry, Bench) {
    let registry = Registry::new([def(), crate::public_api::def()], Map::new()).expect("valid schemas");
    let mut bench = Bench::new(request);
    let wolf = json!({"wolf-rbac": {"appid": "app", "server": "http://wolf.test:1/sub/"}});
    bench.consumers = testkit::consumers(&registry, &[("jack", wolf)]).expect("valid");
    (registry, bench)
}

#[test]
fn the_server_is_asked_about_the_request_and_tells_who_it_is() {
    for request in [
        "GET /hello%20x?rbac_token=V1%23app%23t%232",
        "GET /hello%20x\nAuthorization: V1#app#t#2",
        "GET /hello%20x\nX-Rbac-Token: V1#app#t#2",
        "GET /hello%20x\nCookie: x-rbac-token=V1#app#t#2",
    ] {
        let (registry, bench) = bench(&format!("{request}\nX-UserId: forged"));
        let chain = testkit::chain(&registry, &json!({"wolf-rbac": {}})).expect("valid");
        bench.services.answer(502, &[], "");
        bench.services.answer(200, &[], ALLOWED);
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(&chain, &mut exchange), 0, "{request}");
        assert_eq!(exchange.consumer.map(|consumer| consumer.name.as_str()), Some("jack"));
        let call = bench.services.calls().remove(1);
        assert_eq!(
            call.target,
            "/sub/wolf/rbac/access_check?appID=app&resName=%2Fhello%20x&action=GET&clientIP=127.0.0.1"
        );
        assert!(call.headers.contains("x-rbac-token: t#2\r\n"), "{}", call.headers);
        assert_eq!(exchange.request.header(b"x-userid"), Some(&b"100"[..]));
        assert_eq!(exchange.request.header(b"x-nickname"), Some(&b"%C3%A9%20x"[..]));
        assert!(testkit::lines(exchange.reply_headers).contains("X-Username: admin\r\n"));
    }
}

#[test]
fn tokens_that_are_none_are_refused_without_a_call() {
    for (token, why) in [
        ("V1#x#t", "Invalid appid in rbac token"),
        ("V1#app", "invalid rbac token: parse failed"),
        ("V2#app#t", "invalid rbac token: parse failed"),
        ("", "invalid rbac token: parse failed"),
    ] {
        let (registry, bench) = bench(&format!("GET /\nX-Rbac-Token: {token}"));
        let chain = testkit::chain(&registry, &json!({"wolf-rbac": {}})).expect("valid");
        let reply = testkit::request(&chain, &mut bench.exchange()).expect("refused");
        assert_eq!(reply.status, 401);
        assert_eq!(reply.body, Some(format!("{{\"message\":\"{why}\"}}\n").into_bytes()), "{token}");
        assert!(bench.services.calls().is_empty());
    }
}

#[test]
fn only_a_clear_yes_lets_a_request_pass() {
    for (status, body, expected) in [
        (200, ALLOWED, 0),
        (200, r#"{"ok":true}"#, 0),
        (200, r#"{"ok":false,"reason":"ERR_TOKEN_INVALID"}"#, 401),
        (200, r#"{"ok":"true"}"#, 401),
        (200, "{}", 401),
        (200, "<html>", 500),
        (200, "[]", 500),
        (401, r#"{"ok":false}"#, 401),
        (403, r#"{"ok":true}"#, 403),
        (302, r#"{"ok":true}"#, 403),
        (404, "", 404),
    ] {
        let (registry, bench) = bench("GET /\nX-Rbac-Token: V1#app#t\nX-UserId: forged");
        let chain = testkit::chain(&registry, &json!({"wolf-rbac": {}})).expect("valid");
        bench.services.answer(status, &[], body);
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(&chain, &mut exchange), expected, "{status} {body}");
        assert_ne!(exchange.request.header(b"x-userid"), Some(&b"forged"[..]));
    }
    for kind in [CallErrorKind::Timeout, CallErrorKind::Connection, CallErrorKind::Protocol] {
        let (registry, bench) = bench("GET /\nX-Rbac-Token: V1#app#t");
        let chain = testkit::chain(&registry, &json!({"wolf-rbac": {}})).expect("valid");
        bench.services.fail(kind);
        assert_eq!(testkit::access(&chain, &mut bench.exchange()), 500, "{kind:?}");
    }
}

#[test]
fn users_log_in_by_the_endpoint() {
    let form = "appid=app&username=admin&password=1%2023";
    let request = format!("POST /apisix/plugin/wolf-rbac/login\nContent-Length: {}", form.len());
    let (registry, bench) = bench(&request);
    let bench = bench.with_body(form);
    let chain = testkit::chain(&registry, &json!({"public-api": {}})).expect("valid");
    let answers = |body: &str| {
        bench.services.answer(200, &[], body);
        let reply = testkit::request(&chain, &mut bench.exchange()).expect("an answer");
        (reply.status, String::from_utf8(reply.body.expect("a body")).expect("text"))
    };
    let (status, body) = answers(r#"{"ok":true,"data":{"token":"t","userInfo":{"id":1}}}"#);
    assert_eq!((status, body.as_str()), (200, "{\"rbac_token\":\"V1#app#t\",\"user_info\":{\"id\":1}}\n"));
    let call = bench.services.calls().remove(0);
    assert_eq!((call.method.as_str(), call.target.as_str()), ("POST", "/sub/wolf/rbac/login.rest"));
    assert_eq!(call.body, br#"{"appid":"app","username":"admin","password":"1 23"}"#);
    let failed = "{\"message\":\"request to wolf-server failed!\"}\n";
    assert_eq!(answers(r#"{"ok":false,"reason":"ERR"}"#), (200, failed.to_owned()));
    assert_eq!(answers("nonsense"), (500, failed.to_owned()));
}
