use super::*;
use plugin::testkit::{self, Bench};
use plugin::{CallErrorKind, Chain, Registry};

fn chain(more: &Value) -> Chain {
    let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
    let mut config = json!({"client_id": "c", "client_secret": "hidden"});
    config.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    testkit::chain(&registry, &json!({ "authz-keycloak": config })).expect("valid")
}

fn with_token(more: &Value) -> Chain {
    let mut config = json!({"token_endpoint": "http://kc.test/token", "permissions": ["res#view", "other"]});
    config.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    chain(&config)
}

fn forms(bench: &Bench) -> Vec<String> {
    let calls = bench.services.calls().into_iter();
    calls.map(|call| format!("{} {}", call.target, String::from_utf8_lossy(&call.body))).collect()
}

#[test]
fn the_token_and_the_permissions_are_asked_about() {
    let chain = with_token(&json!({"http_method_as_scope": true}));
    let bench = Bench::new("GET /a\nAuthorization: t");
    bench.services.answer(200, &[], r#"{"result": true}"#);
    assert_eq!(testkit::access(&chain, &mut bench.exchange()), 0);
    let call = bench.services.calls().remove(0);
    assert!(call.headers.contains("Authorization: Bearer t\r\n"), "{}", call.headers);
    assert_eq!(
        String::from_utf8(call.body).expect("text"),
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Auma-ticket&audience=c&response_mode=decision\
         &permission=res%23view%2C%20GET&permission=other%23GET"
    );
    bench.services.answer(200, &[], r#"{"result": true}"#);
    assert_eq!(testkit::access(&chain, &mut bench.exchange()), 0);
    assert!(bench.services.calls()[0].body.ends_with(b"other%23GET"), "not added twice");
}

#[test]
fn only_a_clear_yes_lets_a_request_pass() {
    for (status, body, expected) in [
        (200, r#"{"result": true}"#, 0),
        (200, r#"{"result": "true"}"#, 503),
        (200, r#"{"result": false}"#, 503),
        (200, "", 503),
        (204, "", 503),
        (302, r#"{"result": true}"#, 503),
        (401, r#"{"error": "invalid_grant"}"#, 401),
        (403, r#"{"error": "access_denied"}"#, 403),
        (400, "{}", 400),
        (500, r#"{"result": true}"#, 503),
    ] {
        let bench = Bench::new("GET /a\nAuthorization: Bearer t");
        bench.services.answer(status, &[], body);
        let reply = testkit::request(&with_token(&json!({})), &mut bench.exchange());
        assert_eq!(reply.as_ref().map_or(0, |reply| reply.status), expected, "{status} {body}");
        if (400..500).contains(&expected) {
            assert_eq!(reply.and_then(|reply| reply.body).as_deref(), Some(body.as_bytes()));
        }
    }
    for kind in [CallErrorKind::Timeout, CallErrorKind::Connection, CallErrorKind::Protocol] {
        let bench = Bench::new("GET /a\nAuthorization: Bearer t");
        bench.services.fail(kind);
        assert_eq!(testkit::access(&with_token(&json!({})), &mut bench.exchange()), 503, "{kind:?}");
    }
    let reply = testkit::request(&with_token(&json!({})), &mut Bench::new("GET /a").exchange());
    assert_eq!(reply.map(|reply| reply.status), Some(401));
}

#[test]
fn without_permissions_the_mode_decides() {
    let url = json!({"token_endpoint": "http://kc.test/token"});
    let bench = Bench::new("GET /a\nAuthorization: t");
    assert_eq!(testkit::access(&chain(&url), &mut bench.exchange()), 403);
    let redirecting =
        chain(&json!({"token_endpoint": "http://kc.test/", "access_denied_redirect_uri": "/no"}));
    let reply = testkit::request(&redirecting, &mut bench.exchange()).expect("refused");
    assert_eq!((reply.status, reply.header(b"location")), (307, Some(&b"/no"[..])));
    assert!(bench.services.calls().is_empty());
    let permissive =
        chain(&json!({"token_endpoint": "http://kc.test/", "policy_enforcement_mode": "PERMISSIVE"}));
    bench.services.answer(200, &[], r#"{"result": true}"#);
    assert_eq!(testkit::access(&permissive, &mut bench.exchange()), 0);
}

#[test]
fn resources_of_a_path_are_looked_up_with_a_token_that_is_kept() {
    let chain = chain(&json!({"discovery": "http://kc.test/.well-known/uma2", "lazy_load_paths": true}));
    let bench = Bench::new("GET /a%20b\nAuthorization: t");
    let discovery = r#"{"token_endpoint": "http://kc.test/token",
        "resource_registration_endpoint": "http://kc.test/resources?realm=r"}"#;
    for body in [
        discovery,
        r#"{"access_token": "own", "expires_in": 60}"#,
        r#"["id1", "id2"]"#,
        r#"{"result": true}"#,
    ] {
        bench.services.answer(200, &[], body);
    }
    assert_eq!(testkit::access(&chain, &mut bench.exchange()), 0);
    let sent = forms(&bench);
    assert_eq!(sent[1], "/token grant_type=client_credentials&client_id=c&client_secret=hidden");
    assert_eq!(sent[2], "/resources?realm=r&uri=%2Fa%20b&matchingUri=true ");
    assert!(sent[3].ends_with("&permission=id1&permission=id2"), "{}", sent[3]);
    for (body, status) in [("[]", 403), ("{}", 503), ("[1]", 503), ("nonsense", 503)] {
        bench.services.answer(200, &[], body);
        assert_eq!(testkit::access(&chain, &mut bench.exchange()), status, "{body}");
        assert_eq!(forms(&bench).len(), 1, "discovery data and token are kept");
    }
}

#[test]
fn a_discovery_document_that_lies_refuses() {
    for document in ["", "[]", "{}", r#"{"token_endpoint": 1}"#, r#"{"token_endpoint": "ftp://x"}"#] {
        let chain = chain(&json!({"discovery": "http://kc.test/d", "permissions": ["a"]}));
        let bench = Bench::new("GET /\nAuthorization: t");
        bench.services.answer(200, &[], document);
        bench.services.answer(200, &[], r#"{"result": true}"#);
        assert_eq!(testkit::access(&chain, &mut bench.exchange()), 503, "{document}");
    }
}

#[test]
fn clients_get_tokens_for_a_name_and_a_password() {
    let chain = with_token(&json!({"password_grant_token_generation_incoming_uri": "/login"}));
    let post = |form: &str| {
        let request = format!(
            "POST /login\nContent-Type: application/x-www-form-urlencoded\nContent-Length: {}",
            form.len()
        );
        Bench::new(&request).with_body(form)
    };
    for (form, status) in [("username=a", 422), ("password=b", 422), ("", 422)] {
        assert_eq!(testkit::access(&chain, &mut post(form).exchange()), status, "{form}");
    }
    for (status, body, expected) in
        [(200, r#"{"access_token": "t"}"#, 200), (401, "{}", 401), (200, "nonsense", 401)]
    {
        let bench = post("username=a%26b&password=p");
        bench.services.answer(status, &[], body);
        let reply = testkit::request(&chain, &mut bench.exchange()).expect("an answer");
        assert_eq!(reply.status, expected);
        let form = "/token grant_type=password&username=a%26b&password=p&client_id=c&client_secret=hidden";
        assert_eq!(forms(&bench), [form]);
    }
}

#[test]
fn a_server_has_to_be_named() {
    let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
    for config in [
        json!({"client_id": "c"}),
        json!({"token_endpoint": "http://kc.test/"}),
        json!({"client_id": "c", "token_endpoint": "http://kc.test/", "lazy_load_paths": true}),
        json!({"client_id": "c", "token_endpoint": "kc.test"}),
        json!({"client_id": "c", "discovery": "http://kc.test/", "timeout": 999}),
    ] {
        assert!(testkit::chain(&registry, &json!({ "authz-keycloak": config })).is_err(), "{config}");
    }
}
