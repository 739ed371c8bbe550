//! Bearer tokens, and configurations.

use super::*;

const FAR: u64 = 99_999_999_999;

fn bearer(chain: &Chain, op: &[Value], token: &str) -> (Answered, Vec<MadeCall>, String) {
    Browser::default().send(
        chain,
        op,
        &format!("GET /\nAuthorization: Bearer {token}\nX-Access-Token: forged"),
    )
}

#[test]
fn bearer_tokens_are_checked_with_the_providers_keys() {
    let (op, other) = (Op::new(), Op::new());
    let now = now_s();
    let config = json!({"bearer_only": true, "use_jwks": true, "realm": "r\"x"});
    let good = op.es256(&claims(json!({"scope": "a b"})));
    let with = chain(&config);
    let (answer, calls, fields) = bearer(&with, &[Op::discovery(), op.jwks()], &good);
    assert_eq!((answer.status, calls.len()), (0, 2));
    assert!(
        fields.contains(&format!("X-Access-Token: {good}\r\n")) && fields.contains("X-Userinfo: ey"),
        "{fields}"
    );
    let unsigned = format!(
        "{}.",
        op.token(&json!({"alg": "none"}), &claims(json!({}))).rsplit_once('.').expect("a token").0
    );
    let confused = {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({"alg": "HS256", "kid": "k1"})), part(&claims(json!({}))));
        let key = hmac::Key::new(hmac::HMAC_SHA256, op.key.public_key().as_ref());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()).as_ref()))
    };
    for (what, token) in [
        ("nonsense", "x".to_owned()),
        ("alg none", unsigned),
        ("key confusion", confused),
        ("another key", other.es256(&claims(json!({})))),
        ("another issuer", op.es256(&claims(json!({"iss": "x"})))),
        ("no issuer", op.es256(&claims(json!({"iss": null})))),
        ("expired", op.es256(&claims(json!({"exp": now})))),
        ("not yet", op.es256(&claims(json!({"nbf": now + 600})))),
        ("from the future", op.es256(&claims(json!({"iat": FAR})))),
    ] {
        let (answer, ..) = bearer(&with, &[], &token);
        assert_eq!(answer.status, 401, "{what}");
        assert!(
            answer.challenge.starts_with("Bearer realm=\"r%22x\", error=\"invalid_token\""),
            "{}",
            answer.challenge
        );
    }
    // Made-up key ids don't make the gateway ask again and again.
    let unknown = op.token(&json!({"alg": "ES256", "kid": "new"}), &claims(json!({})));
    assert_eq!(bearer(&with, &[], &unknown).1.len(), 0);
    assert_eq!(bearer(&with, &[], &good).0.status, 0);
    let none = Browser::default().send(&with, &[], "GET /").0;
    assert_eq!((none.status, none.challenge.as_str()), (401, "Bearer realm=\"r%22x\""));
    assert_eq!(Browser::default().send(&with, &[], "GET /\nAuthorization: foo").0.status, 400);
    assert_eq!(Browser::default().send(&with, &[], "GET /\nAuthorization: Basic eA==").0.status, 401);
    assert_eq!(bearer(&chain(&config), &[Value::Null], &good).0.status, 401, "nobody says who the issuer is");
}

#[test]
fn claims_of_bearer_tokens_are_as_configured() {
    let op = Op::new();
    for (more, token, status, body) in [
        (json!({"required_scopes": ["a"]}), json!({"scope": "b a"}), 0, ""),
        (
            json!({"required_scopes": ["a", "c"]}),
            json!({"scope": "b a"}),
            403,
            r#"{"error":"required scopes a, c not present"}"#,
        ),
        (
            json!({"required_scopes": ["a"]}),
            json!({"scope": "ab"}),
            403,
            r#"{"error":"required scopes a not present"}"#,
        ),
        (json!({"claim_validator": {"audience": {"required": true}}}), json!({"aud": null}), 0, ""),
        (
            json!({"claim_validator": {"audience": {"claim": "x", "required": true}}}),
            json!({}),
            403,
            r#"{"error":"required audience claim not present"}"#,
        ),
        (
            json!({"claim_validator": {"audience": {"match_with_client_id": true}}}),
            json!({"aud": ["x", "c"]}),
            0,
            "",
        ),
        (
            json!({"claim_validator": {"audience": {"match_with_client_id": true}}}),
            json!({"aud": "x"}),
            403,
            r#"{"error":"mismatched audience"}"#,
        ),
        (json!({"claim_validator": {"issuer": {"valid_issuers": ["y"]}}}), json!({"iss": "y"}), 0, ""),
        (json!({"claim_validator": {"issuer": {"valid_issuers": ["y"]}}}), json!({}), 401, ""),
        (json!({"claim_schema": {"type": "object", "required": ["mail"]}}), json!({}), 401, ""),
        (json!({"claim_schema": {"type": "object", "required": ["mail"]}}), json!({"mail": "m"}), 0, ""),
        (json!({"token_signing_alg_values_expected": "RS256"}), json!({}), 401, ""),
    ] {
        let mut config = json!({"bearer_only": true, "use_jwks": true});
        config.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        // The issuer isn't discovered where it is configured, but the keys are.
        let answers = [Op::discovery(), op.jwks()];
        let (answer, ..) = bearer(&chain(&config), &answers, &op.es256(&claims(token.clone())));
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{more} {token}");
    }
}

#[test]
fn tokens_are_looked_up_and_remembered_until_they_end() {
    let now = now_s();
    let config = json!({"bearer_only": true, "introspection_addon_headers": ["X-Tenant"]});
    let with = chain(&config);
    let active = json!({"active": true, "exp": now + 60, "sub": "u"});
    let (answer, calls, fields) = Browser::default().send(
        &with,
        &[Op::discovery(), active.clone()],
        "GET /\nX-Access-Token: t&1\nX-Tenant: x",
    );
    assert_eq!(answer.status, 0);
    assert_eq!((calls[1].target.as_str(), &*calls[1].body), ("/introspect", &b"token=t%261"[..]));
    assert!(
        calls[1].headers.contains("X-Tenant: x\r\n") && calls[1].headers.contains("Authorization: Basic ")
    );
    assert!(fields.contains("X-Access-Token: t&1\r\n"), "{fields}");
    assert_eq!(bearer(&with, &[], "t&1").1.len(), 0, "remembered");
    for (answer, status) in [
        (json!({"active": false}), 401),
        (json!({"active": "true"}), 401),
        (json!({"sub": "u"}), 401),
        (json!({"active": true, "exp": now - 1}), 401),
        (json!("x"), 401),
        (json!(500), 401),
        (Value::Null, 401),
        (json!({"active": true}), 0),
    ] {
        assert_eq!(bearer(&with, std::slice::from_ref(&answer), "other").0.status, status, "{answer}");
    }
    let posting = chain(&json!({
        "bearer_only": true, "introspection_endpoint": "http://op.test/i", "introspection_endpoint_auth_method": "client_secret_post"
    }));
    let (_, calls, _) = bearer(&posting, &[active], "t");
    assert_eq!(calls[0].body, b"token=t&client_id=c&client_secret=hidden");
}

#[test]
fn public_keys_in_pem_check_tokens_without_a_call() {
    let op = Op::new();
    // SubjectPublicKeyInfo of a key on P-256: the algorithm's identifiers, and the point.
    let head = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
        0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ];
    let der = [&head[..], op.key.public_key().as_ref()].concat();
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----", STANDARD.encode(der));
    let issuers = json!({"issuer": {"valid_issuers": ["http://op.test/"]}});
    let with = chain(&json!({"bearer_only": true, "public_key": pem, "claim_validator": issuers}));
    assert_eq!(bearer(&with, &[], &op.es256(&claims(json!({})))).0.status, 0);
    assert_eq!(bearer(&with, &[], &Op::new().es256(&claims(json!({})))).0.status, 401);
    let hopeless = chain(&json!({"bearer_only": true, "public_key": "x", "claim_validator": issuers}));
    assert_eq!(bearer(&hopeless, &[], &op.es256(&claims(json!({})))).0.status, 401);
}

#[test]
fn authorization_requests_are_pushed_where_asked() {
    let with = chain(&json!({"par": {"enabled": true, "endpoint": "http://op.test/par"}}));
    let pushed = json!({"request_uri": "urn:x", "expires_in": 60});
    let (answer, calls, _) = Browser::default().get(&with, &[Op::discovery(), pushed], "/");
    assert_eq!(answer.location, "http://op.test/authorize?x=1&client_id=c&request_uri=urn%3Ax");
    assert!(calls[1].body.starts_with(b"response_type=code&client_id=c&state="));
    for lie in [json!({}), json!("x"), json!(400), Value::Null] {
        let with = chain(&json!({"par": {"enabled": true, "endpoint": "http://op.test/par"}}));
        assert_eq!(Browser::default().get(&with, &[Op::discovery(), lie], "/").0.status, 500);
    }
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
    let session = json!({"secret": "0123456789abcdef"});
    for (config, message) in [
        (json!({"discovery": "http://a/"}), "client_id"),
        (
            json!({"client_id": "c", "discovery": "http://a/"}),
            "property \"session.secret\" is required when \"bearer_only\" is false",
        ),
        (
            json!({"client_id": "c", "discovery": "http://a/", "session": session}),
            "property \"client_secret\" is required",
        ),
        (
            json!({"client_id": "c", "discovery": "http://a/", "bearer_only": true}),
            "property \"client_secret\" is required",
        ),
        (json!({"client_id": "c", "discovery": "a", "bearer_only": true, "use_jwks": true}), "URL"),
        (
            json!({"client_id": "c", "discovery": "http://a/", "use_pkce": true, "session": {"secret": "short"}}),
            "secret",
        ),
        (
            json!({"client_id": "c", "discovery": "http://a/", "use_pkce": true, "session": {"secret": "0123456789abcdef", "x": 1}}),
            "x",
        ),
        (
            json!({"client_id": "c", "discovery": "http://a/", "use_pkce": true, "session": {"secret": "0123456789abcdef", "storage": "redis"}}),
            "redis",
        ),
        (
            json!({"client_id": "c", "discovery": "http://a/", "use_pkce": true, "session": session, "use_par": true}),
            "property \"use_par\" is not allowed, use \"par.enabled\" instead",
        ),
        (
            json!({"client_id": "c", "discovery": "http://a/", "use_pkce": true, "session": session, "proxy_opts": {"http_proxy": "http://p"}}),
            "not supported",
        ),
        (
            json!({"client_id": "c", "discovery": "http://a/", "use_pkce": true, "session": session, "dpop": {"enabled": true}}),
            "DPoP is not supported",
        ),
        (
            json!({"client_id": "c", "discovery": "http://a/", "token_endpoint_auth_method": "private_key_jwt", "client_rsa_private_key": "x", "session": session}),
            "private key",
        ),
        (
            json!({"client_id": "c", "discovery": "http://a/", "use_pkce": true, "session": session, "claim_schema": {"type": "nonsense"}}),
            "check claim_schema failed",
        ),
    ] {
        let found = testkit::chain(&registry, &json!({ "openid-connect": config })).expect_err(message);
        assert!(
            found.iter().any(|error| error.message.contains(message) || error.path.contains(message)),
            "{message}: {found:?}"
        );
    }
    for config in [
        json!({"client_id": "c", "discovery": "http://a/", "use_pkce": true, "session": session}),
        json!({"client_id": "c", "discovery": "http://a/", "bearer_only": true, "use_jwks": true, "dpop": {"signing_alg": "RS256"}}),
    ] {
        assert!(testkit::chain(&registry, &json!({ "openid-connect": config })).is_ok(), "{config}");
    }
}
