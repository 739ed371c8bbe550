//! Sessions and their end.

use super::*;

fn logged_in(chain: &Chain, op: &Op, tokens: &Value) -> Browser {
    let (mut browser, state, _) = asked(chain, "/a");
    let mut all = json!({"id_token": op.es256(&claims(json!({"sid": "s1"}))), "access_token": "at"});
    for (name, value) in tokens.as_object().into_iter().flatten() {
        all[name] = value.clone();
    }
    let answers = [all, op.jwks(), json!({"sub": "u1"})];
    assert_eq!(
        browser.get(chain, &answers, &format!("/a/.apisix/redirect?code=c&state={state}")).0.status,
        302
    );
    browser
}

#[test]
fn access_tokens_of_sessions_are_renewed() {
    let op = Op::new();
    let chain = chain(&json!({"access_token_expires_leeway": 10, "set_refresh_token_header": true}));
    let mut browser = logged_in(&chain, &op, &json!({"refresh_token": "rt", "expires_in": 5}));
    let new = json!({"access_token": "at2", "refresh_token": "rt2", "expires_in": 600});
    let (answer, calls, fields) = browser.get(&chain, &[new], "/a");
    assert_eq!(answer.status, 0);
    assert!(calls[0].body.starts_with(b"grant_type=refresh_token&refresh_token=rt&scope=openid"));
    assert!(
        fields.contains("X-Access-Token: at2\r\n") && fields.contains("X-Refresh-Token: rt2\r\n"),
        "{fields}"
    );
    assert_eq!(browser.get(&chain, &[], "/a").1.len(), 0, "kept");
    for (what, tokens, answers) in [
        ("refused", json!({"refresh_token": "rt", "expires_in": 5}), vec![json!(400)]),
        ("no refresh token", json!({"expires_in": 5}), vec![]),
        ("nothing new", json!({"refresh_token": "rt", "expires_in": 5}), vec![json!({"expires_in": 5})]),
        (
            "another user",
            json!({"refresh_token": "rt", "expires_in": 5}),
            vec![json!({"access_token": "x", "id_token": op.es256(&claims(json!({"sub": "u2"})))})],
        ),
    ] {
        let chain = self::chain(&json!({"access_token_expires_leeway": 10}));
        let mut browser = logged_in(&chain, &op, &tokens);
        assert_eq!(browser.get(&chain, &answers, "/a").0.status, 302, "{what}: to log in again");
    }
    let lasting = self::chain(&json!({"renew_access_token_on_expiry": false}));
    let mut browser = logged_in(&lasting, &op, &json!({"refresh_token": "rt", "expires_in": 0}));
    assert_eq!(browser.get(&lasting, &[], "/a").0.status, 0);
}

#[test]
fn requests_without_a_session_are_treated_as_configured() {
    for (action, status) in [("auth", 302), ("deny", 401), ("pass", 0)] {
        let chain = chain(&json!({"unauth_action": action}));
        let (answer, _, fields) = Browser::default().get(&chain, &[Op::discovery()], "/");
        assert_eq!(answer.status, status, "{action}");
        assert!(!fields.contains("forged"), "{fields}");
    }
}

#[test]
fn redirect_uris_are_made_of_what_is_trusted() {
    for (config, request, uri) in [
        (json!({}), "GET /a/\nHost: a.test:9080", "http://a.test:9080/a/.apisix/redirect"),
        (json!({"redirect_uri": "/back"}), "GET /a\nHost: a.test", "http://a.test/back"),
        (json!({"redirect_uri": "https://b.test/back"}), "GET /a", "https://b.test/back"),
        (
            json!({}),
            "GET /a\nHost: a.test\nX-Forwarded-Host: f.test, g.test\nX-Forwarded-Proto: https",
            "https://f.test/a/.apisix/redirect",
        ),
        (
            json!({}),
            "GET /a\nHost: a.test\nForwarded: for=x;host=\"h.test\";proto=https\nX-Forwarded-Host: f.test",
            "https://h.test/a/.apisix/redirect",
        ),
        (
            json!({}),
            "GET /a\nHost: a.test\nX-Forwarded-Proto: javascript",
            "http://a.test/a/.apisix/redirect",
        ),
    ] {
        let (answer, ..) = Browser::default().send(&chain(&config), &[Op::discovery()], request);
        assert_eq!(argument(&answer.location, "redirect_uri"), uri, "{request}");
    }
    let bench = Bench::new("GET /a\nHost: a.test\nX-Forwarded-Host: f.test\nForwarded: host=h.test")
        .withdrawing(true);
    bench.services.answer(200, &[], &Op::discovery().to_string());
    let reply = testkit::request(&chain(&json!({})), &mut bench.exchange()).expect("a redirection");
    let location = String::from_utf8_lossy(reply.header(b"location").unwrap_or_default()).into_owned();
    assert_eq!(argument(&location, "redirect_uri"), "http://a.test/a/.apisix/redirect");
}

#[test]
fn users_log_out_here_and_at_the_provider() {
    let op = Op::new();
    let chain = chain(&json!({"post_logout_redirect_uri": "http://a.test/bye"}));
    let mut browser = logged_in(&chain, &op, &json!({}));
    let (answer, ..) = browser.get(&chain, &[], "/logout");
    assert_eq!((answer.status, answer.location.as_str()), (302, "http://a.test/bye"));
    assert!(!browser.0.contains_key("session"));
    let mut with_end = Op::discovery();
    with_end["end_session_endpoint"] = json!("http://op.test/end");
    with_end["revocation_endpoint"] = json!("http://op.test/revoke");
    let revoking = self::chain(
        &json!({"post_logout_redirect_uri": "http://a.test/bye", "revoke_tokens_on_logout": true}),
    );
    let (mut browser, state, _) = {
        let mut browser = Browser::default();
        let (answer, ..) = browser.get(&revoking, &[with_end], "/a");
        let state = argument(&answer.location, "state");
        (browser, state, ())
    };
    let answers = [
        json!({"id_token": op.es256(&claims(json!({}))), "access_token": "at", "refresh_token": "rt"}),
        op.jwks(),
        json!({"sub": "u1"}),
    ];
    browser.get(&revoking, &answers, &format!("/a/.apisix/redirect?code=c&state={state}"));
    let (answer, calls, _) = browser.get(&revoking, &[json!(200), json!(503)], "/logout");
    assert!(answer.location.starts_with("http://op.test/end?id_token_hint=ey"), "{}", answer.location);
    assert_eq!(argument(&answer.location, "post_logout_redirect_uri"), "http://a.test/bye");
    let sent: Vec<_> = calls.iter().map(|call| String::from_utf8_lossy(&call.body).into_owned()).collect();
    assert_eq!(sent, ["token=rt&token_type_hint=refresh_token", "token=at&token_type_hint=access_token"]);
    let plain = self::chain(&json!({}));
    assert!(Browser::default().get(&plain, &[Op::discovery()], "/logout").0.body.contains("Logged Out"));
    assert_eq!(Browser::default().get(&self::chain(&json!({})), &[Value::Null], "/logout").0.status, 503);
}

#[test]
fn the_provider_logs_users_out() {
    let (op, other) = (Op::new(), Op::new());
    let chain = chain(&json!({}));
    let mut browser = logged_in(&chain, &op, &json!({}));
    let event = json!({"http://schemas.openid.net/event/backchannel-logout": {}});
    let post = |token: &str| {
        let form = format!("logout_token={token}");
        let request = format!(
            "POST /logout\nContent-Type: application/x-www-form-urlencoded\nContent-Length: {}",
            form.len()
        );
        let bench = Bench::new(&request).with_body(&form);
        bench.services.answer(200, &[], &op.jwks().to_string());
        testkit::access(&chain, &mut bench.exchange())
    };
    let logout = |more: Value| {
        let mut claims = claims(more);
        claims.as_object_mut().expect("an object").remove("sub");
        claims
    };
    for (what, token, status) in [
        ("no token", "x".to_owned(), 400),
        ("no event", op.es256(&logout(json!({"sid": "s1"}))), 400),
        ("an ID token", op.es256(&logout(json!({"sid": "s1", "events": event, "nonce": "n"}))), 400),
        ("another key", other.es256(&logout(json!({"sid": "s1", "events": event}))), 400),
        ("another client", op.es256(&logout(json!({"sid": "s1", "events": event, "aud": "d"}))), 400),
        ("expired", op.es256(&logout(json!({"sid": "s1", "events": event, "exp": 1}))), 400),
        ("nobody", op.es256(&logout(json!({"events": event}))), 400),
        ("another session", op.es256(&logout(json!({"sid": "s2", "events": event}))), 200),
    ] {
        assert_eq!(post(&token), status, "{what}");
        assert_eq!(browser.get(&chain, &[], "/a").0.status, 0, "{what}");
    }
    assert_eq!(post(&op.es256(&logout(json!({"sid": "s1", "events": event})))), 200);
    assert_eq!(browser.get(&chain, &[], "/a").0.status, 302);
}
