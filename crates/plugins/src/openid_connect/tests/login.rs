//! Logins.

use super::*;

#[test]
fn a_user_logs_in_with_pkce_and_nonce_and_stays_logged_in() {
    let op = Op::new();
    let chain = chain(&json!({
        "use_pkce": true, "use_nonce": true, "set_refresh_token_header": true, "set_raw_id_token_header": true,
        "authorization_params": {"prompt": "login", "state": "mine"}
    }));
    let mut browser = Browser::default();
    let (answer, ..) = browser.get(&chain, &[Op::discovery()], "/page?a=b");
    assert!(
        answer.location.starts_with("http://op.test/authorize?x=1&response_type=code&"),
        "{}",
        answer.location
    );
    assert_eq!(argument(&answer.location, "redirect_uri"), "http://a.test/page/.apisix/redirect");
    assert_eq!(
        (argument(&answer.location, "scope"), argument(&answer.location, "prompt")),
        ("openid".to_owned(), "login".to_owned())
    );
    let (state, nonce) = (argument(&answer.location, "state"), argument(&answer.location, "nonce"));
    assert_eq!((state.len(), nonce.len(), answer.location.matches("state=").count()), (43, 43, 1));
    let id_token = op.es256(&claims(json!({"nonce": nonce})));
    let tokens =
        json!({"id_token": id_token, "access_token": "at", "refresh_token": "rt", "expires_in": 300});
    let back = format!("/page/.apisix/redirect?state={state}&code=the%26code");
    let (returned, calls, _) =
        browser.get(&chain, &[tokens, op.jwks(), json!({"sub": "u1", "name": "U"})], &back);
    assert_eq!((returned.status, returned.location.as_str()), (302, "/page?a=b"));
    let form = String::from_utf8(calls[0].body.clone()).expect("text");
    assert!(
        form.starts_with(
            "grant_type=authorization_code&code=the%26code&redirect_uri=http%3A%2F%2Fa.test%2Fpage"
        ),
        "{form}"
    );
    let verifier = form.rsplit_once("code_verifier=").expect("a verifier").1;
    let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
    assert_eq!(argument(&answer.location, "code_challenge"), challenge);
    assert!(calls[0].headers.contains("Authorization: Basic YzpoaWRkZW4=\r\n"), "{}", calls[0].headers);
    assert!(calls[2].headers.contains("Authorization: Bearer at\r\n"));
    let (inside, calls, fields) = browser.get(&chain, &[], "/page");
    assert_eq!((inside.status, calls.len()), (0, 0));
    assert!(
        fields.contains("X-Access-Token: at\r\n") && fields.contains("X-Refresh-Token: rt\r\n"),
        "{fields}"
    );
    assert!(
        fields.contains(&format!("X-Raw-ID-Token: {id_token}\r\n")) && fields.contains("X-ID-Token: ey"),
        "{fields}"
    );
    assert!(
        fields.contains(&format!("X-Userinfo: {}\r\n", STANDARD.encode(r#"{"sub":"u1","name":"U"}"#))),
        "{fields}"
    );
    // Its cookies are nothing to another configuration, nor to one with another secret.
    let other = self::chain(&json!({"session": {"secret": "0123456789abcdeX"}}));
    assert_eq!(browser.get(&other, &[Op::discovery()], "/page").0.status, 302);
}

#[test]
fn a_state_is_good_once_and_only_its_own() {
    let op = Op::new();
    let chain = chain(&json!({}));
    let tokens = || json!({"id_token": op.es256(&claims(json!({}))), "access_token": "at"});
    let user = json!({"sub": "u1"});
    let (mut browser, state, _) = asked(&chain, "/a");
    let stolen = browser.0.clone();
    let back = format!("/a/.apisix/redirect?code=c&state={state}");
    let answers = [tokens(), op.jwks(), user.clone()];
    assert_eq!(browser.get(&chain, &answers, &back).0.status, 302);
    assert_eq!(browser.get(&chain, &[], "/a").0.status, 0);
    // The same request again, with the cookies of before: sent back to begin anew, and no code is exchanged.
    let mut thief = Browser(stolen);
    let (again, calls, _) = thief.get(&chain, &[tokens(), op.jwks(), user], &back);
    assert_eq!((again.status, again.location.as_str(), calls.len()), (302, "/a", 0));
    assert_eq!(thief.get(&chain, &[], "/a").0.status, 302, "still a stranger");
    // Somebody else's state, none, and none at all.
    let (mut browser, ..) = asked(&chain, "/b");
    let post = |browser: &Browser| {
        let cookies: Vec<_> = browser.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("POST /b/.apisix/redirect?code=c&state=x\nCookie: {}", cookies.join("; "))
    };
    assert_eq!(Browser::default().send(&chain, &[], &post(&browser)).0.status, 500);
    for _ in 0..3 {
        let (answer, calls, _) =
            browser.get(&chain, &[], &format!("/b/.apisix/redirect?code=c&state={state}"));
        assert_eq!((answer.status, answer.location.as_str(), calls.len()), (302, "/b", 0));
    }
    assert_eq!(browser.get(&chain, &[], "/b/.apisix/redirect?code=c&state=x").0.status, 500, "not for ever");
    assert_eq!(Browser::default().get(&chain, &[], &back).0.status, 500);
    assert_eq!(browser.get(&chain, &[], "/b/.apisix/redirect?code=c").0.status, 500);
}

#[test]
fn what_the_provider_says_of_a_failed_login_is_heard() {
    let chain = chain(&json!({}));
    let (mut browser, state, _) = asked(&chain, "/a");
    for (arguments, status) in [
        (format!("error=access_denied&state={state}"), 500),
        ("error=temporarily_unavailable&state=x".to_owned(), 500),
        (format!("error=temporarily_unavailable&state={state}"), 302),
    ] {
        let (answer, calls, _) = browser.get(&chain, &[], &format!("/a/.apisix/redirect?{arguments}"));
        assert_eq!((answer.status, calls.len()), (status, 0), "{arguments}");
    }
    // Several tabs log in beside each other.
    let (first, ..) = browser.get(&chain, &[], "/one");
    let (_second, ..) = browser.get(&chain, &[], "/two");
    let op = Op::new();
    let answers = [
        json!({"id_token": op.es256(&claims(json!({}))), "access_token": "at"}),
        op.jwks(),
        json!({"sub": "u1"}),
    ];
    let back = format!("/one/.apisix/redirect?code=c&state={}", argument(&first.location, "state"));
    assert_eq!(browser.get(&chain, &answers, &back).0.location, "/one");
}

#[test]
fn id_tokens_that_are_not_exactly_right_begin_no_session() {
    let (op, other) = (Op::new(), Op::new());
    let now = now_s();
    let es256 = |claims: &Value| op.es256(claims);
    let hs256 = |key: &[u8]| {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({"alg": "HS256"})), part(&claims(json!({"nonce": "N"}))));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
    };
    let unsigned = {
        let token = op.token(&json!({"alg": "none"}), &claims(json!({"nonce": "N"})));
        format!("{}.", token.rsplit_once('.').expect("a token").0)
    };
    let public = op.key.public_key().as_ref().to_vec();
    let cases: Vec<(&str, String, bool)> = vec![
        ("good", es256(&claims(json!({"nonce": "N"}))), true),
        ("several audiences", es256(&claims(json!({"nonce": "N", "aud": ["x", "c"], "azp": "c"}))), true),
        ("no token", "abc".to_owned(), false),
        ("alg none", unsigned.clone(), false),
        ("the public key as a secret", hs256(&public), false),
        ("an algorithm that is not announced", hs256(b"hidden"), false),
        ("another key", other.es256(&claims(json!({"nonce": "N"}))), false),
        (
            "an unknown kid",
            op.token(&json!({"alg": "ES256", "kid": "k2"}), &claims(json!({"nonce": "N"}))),
            false,
        ),
        (
            "an extension",
            op.token(&json!({"alg": "ES256", "crit": ["x"]}), &claims(json!({"nonce": "N"}))),
            false,
        ),
        ("another issuer", es256(&claims(json!({"nonce": "N", "iss": "http://op.test"}))), false),
        ("another client", es256(&claims(json!({"nonce": "N", "aud": "d"}))), false),
        ("given to another", es256(&claims(json!({"nonce": "N", "azp": "d"}))), false),
        ("expired", es256(&claims(json!({"nonce": "N", "exp": now - 1}))), false),
        ("no end", es256(&claims(json!({"nonce": "N", "exp": null}))), false),
        ("from the future", es256(&claims(json!({"nonce": "N", "iat": now + 600}))), false),
        ("not yet", es256(&claims(json!({"nonce": "N", "nbf": now + 600}))), false),
        ("a time that is text", es256(&claims(json!({"nonce": "N", "exp": "99999999999"}))), false),
        ("another nonce", es256(&claims(json!({"nonce": "M"}))), false),
        ("no nonce", es256(&claims(json!({}))), false),
        ("nobody", es256(&claims(json!({"nonce": "N", "sub": ""}))), false),
    ];
    let trusting = chain(&json!({"use_nonce": true, "accept_none_alg": true}));
    for (what, token, good) in cases {
        let chain = chain(&json!({"use_nonce": true}));
        let (mut browser, state, nonce) = asked(&chain, "/a");
        // The nonce is known only now: what stands for it is put in, and the token signed again.
        let token = renonced(&op, &other, &token, &nonce, what);
        let answers = [json!({"id_token": token, "access_token": "at"}), op.jwks(), json!({"sub": "u1"})];
        let back = format!("/a/.apisix/redirect?code=c&state={state}");
        let (answer, ..) = browser.get(&chain, &answers, &back);
        let expected = if good { 302 } else { 500 };
        assert_eq!(answer.status, expected, "{what}");
        assert_eq!(browser.0.contains_key("session"), good, "{what}");
    }
    let (mut browser, state, nonce) = asked(&trusting, "/a");
    let unsigned = renonced(&op, &other, &unsigned, &nonce, "alg none");
    let answers = [json!({"id_token": unsigned, "access_token": "at"}), json!({"sub": "u1"})];
    let back = format!("/a/.apisix/redirect?code=c&state={state}");
    assert_eq!(browser.get(&trusting, &answers, &back).0.status, 302, "where the operator wants it");
}

/// The same token with `nonce` for `N`.
fn renonced(op: &Op, other: &Op, token: &str, nonce: &str, what: &str) -> String {
    let mut parts = token.split('.');
    let mut part = || {
        let bytes = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
        serde_json::from_slice::<Value>(&bytes).ok()
    };
    let (Some(header), Some(mut claims)) = (part(), part()) else { return token.to_owned() };
    if claims["nonce"] == "N" {
        claims["nonce"] = nonce.into();
    }
    match header["alg"].as_str() {
        Some("ES256") if what == "another key" => other.token(&header, &claims),
        Some("ES256") => op.token(&header, &claims),
        Some("none") => format!("{}.", op.token(&header, &claims).rsplit_once('.').expect("a token").0),
        _ => token.to_owned(),
    }
}

#[test]
fn answers_that_are_none_begin_no_session() {
    let op = Op::new();
    let good = op.es256(&claims(json!({})));
    for (what, answers) in [
        ("a token endpoint that is silent", vec![Value::Null]),
        ("one that refuses", vec![json!(400)]),
        ("no JSON", vec![json!("<html>")]),
        ("no id_token", vec![json!({"access_token": "at"})]),
        ("no keys", vec![json!({"id_token": good}), json!("nonsense")]),
        (
            "another user",
            vec![json!({"id_token": good, "access_token": "at"}), op.jwks(), json!({"sub": "u2"})],
        ),
    ] {
        let chain = chain(&json!({}));
        let (mut browser, state, _) = asked(&chain, "/a");
        let (answer, ..) =
            browser.get(&chain, &answers, &format!("/a/.apisix/redirect?code=c&state={state}"));
        assert_eq!((answer.status, browser.0.contains_key("session")), (500, false), "{what}");
    }
    for document in [json!("x"), json!([]), json!({}), Value::Null, json!(500)] {
        let (answer, ..) = Browser::default().get(&chain(&json!({})), std::slice::from_ref(&document), "/");
        assert_eq!(answer.status, 500, "{document}");
    }
}

#[test]
fn long_uris_push_older_logins_out() {
    let chain = chain(&json!({}));
    let mut browser = Browser::default();
    let long = |letter: &str| {
        let text: String = (0..2200u64)
            .map(|at| char::from(b'a' + (stdx::hash::hash(7, &at.to_le_bytes()) % 26) as u8))
            .collect();
        format!("/{letter}/{text}")
    };
    let (_first, ..) = browser.get(&chain, &[Op::discovery()], &long("one"));
    for letter in ["two", "three", "four"] {
        let (answer, ..) = browser.get(&chain, &[], &long(letter));
        assert_eq!(answer.status, 302, "{letter}");
    }
    let cookies: usize = browser.0.iter().map(|(name, value)| name.len() + value.len() + 3).sum();
    assert!(cookies < 7200, "{cookies}");
}
