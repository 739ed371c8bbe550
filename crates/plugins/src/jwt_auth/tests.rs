use super::*;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plugin::testkit::{self, Bench};
use plugin::{Registry, Reply};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};

fn registry() -> Registry {
    Registry::new([def()], serde_json::Map::new()).expect("valid schemas")
}

/// What signs: `algorithm`, and the signature of a text.
fn token(algorithm: &str, payload: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    token_with(&json!({"typ": "JWT", "alg": algorithm}), payload, sign)
}

fn token_with(header: &Value, payload: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(header), part(payload));
    let signature = URL_SAFE_NO_PAD.encode(sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn hs256(payload: &Value) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"s");
    token("HS256", payload, |signed| hmac::sign(&key, signed).as_ref().to_vec())
}

fn run(config: &Value, credential: &Value, request: &str) -> (Option<Reply>, Option<String>, String) {
    let registry = registry();
    let chain = testkit::chain(&registry, &json!({"jwt-auth": config})).expect("valid");
    let mut bench = Bench::new(request);
    bench.consumers =
        testkit::consumers(&registry, &[("jack", json!({"jwt-auth": credential}))]).expect("valid");
    let mut exchange = bench.exchange();
    let reply = testkit::request(&chain, &mut exchange);
    let name = exchange.consumer.map(|consumer| consumer.name.clone());
    (reply, name, testkit::lines(&exchange.request.edit().headers))
}

/// A public key in PEM: the algorithm's identifier in DER, then the key.
fn pem(algorithm: &[u8], key: &[u8]) -> String {
    let bits = [&[0x03, key.len() as u8 + 1, 0][..], key].concat();
    let der = [&[0x30, (algorithm.len() + bits.len()) as u8][..], algorithm, &bits].concat();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}

#[test]
fn tokens_are_found_and_judged() {
    let credential = json!({"key": "k", "secret": "s"});
    let good = hs256(&json!({"key": "k", "exp": 99_999_999_999u64}));
    let late = hs256(&json!({"key": "k", "exp": 1}));
    let early = hs256(&json!({"key": "k", "nbf": 99_999_999_999u64}));
    let timeless = hs256(&json!({"key": "k"}));
    let stranger = hs256(&json!({"key": "x"}));
    let keyless = hs256(&json!({"user": "k"}));
    let forged = format!("{}AAAA", good.rsplit_once('.').expect("a token").0.to_owned() + ".");
    let unreadable = good.rsplit_once('.').expect("a token").0.to_owned() + ".@@@@";
    for (config, request, expected) in [
        (json!({}), format!("GET /\nAuthorization: Bearer {good}"), None),
        (json!({}), format!("GET /\nAuthorization: {good}"), None),
        (json!({}), format!("GET /?jwt={good}"), None),
        (json!({}), format!("GET /\nCookie: a=b; jwt={good}"), None),
        (json!({"key_claim_name": "user"}), format!("GET /?jwt={keyless}"), None),
        (json!({}), format!("GET /?jwt={timeless}"), None),
        (json!({"claims_to_verify": ["exp"]}), format!("GET /?jwt={timeless}"), Some("failed to verify jwt")),
        (json!({}), format!("GET /?jwt={late}"), Some("failed to verify jwt")),
        (json!({}), format!("GET /?jwt={early}"), Some("failed to verify jwt")),
        (json!({}), format!("GET /?jwt={forged}"), Some("failed to verify jwt")),
        (json!({}), format!("GET /?jwt={unreadable}"), Some("failed to verify jwt")),
        (json!({}), format!("GET /?jwt={stranger}"), Some("Invalid user key in JWT token")),
        (json!({}), format!("GET /?jwt={keyless}"), Some("missing user key in JWT token")),
        (json!({}), "GET /?jwt=a.b".to_owned(), Some("JWT token invalid")),
        (json!({}), "GET /".to_owned(), Some("Missing JWT token in request")),
    ] {
        let (reply, name, _) = run(&config, &credential, &request);
        let body = reply.and_then(|reply| reply.body);
        let expected = expected.map(|why| format!("{{\"message\":\"{why}\"}}\n").into_bytes());
        assert_eq!(body, expected, "{request}");
        assert_eq!(name.is_some(), expected.is_none(), "{request}");
    }
}

#[test]
fn tokens_with_extensions_are_refused() {
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"s");
    let sign = |signed: &[u8]| hmac::sign(&key, signed).as_ref().to_vec();
    let payload = json!({"key": "k"});
    for (member, admitted) in [
        (json!({}), true),
        (json!({"b64": true}), true),
        (json!({"crit": ["exp"]}), false),
        (json!({"crit": ["b64"], "b64": false}), false),
        (json!({"crit": []}), false),
        (json!({"crit": "x"}), false),
    ] {
        let mut header = json!({"typ": "JWT", "alg": "HS256"});
        header.as_object_mut().expect("an object").extend(member.as_object().cloned().unwrap_or_default());
        let token = token_with(&header, &payload, sign);
        let (reply, name, _) =
            run(&json!({}), &json!({"key": "k", "secret": "s"}), &format!("GET /?jwt={token}"));
        assert_eq!((reply.is_none(), name.is_some()), (admitted, admitted), "{header}");
    }
}

#[test]
fn a_shown_token_can_be_hidden() {
    let good = hs256(&json!({"key": "k"}));
    let request = format!("GET /\nCookie: a=b; jwt={good}; c=d");
    let (_, _, lines) =
        run(&json!({"hide_credentials": true}), &json!({"key": "k", "secret": "s"}), &request);
    assert!(lines.contains("Cookie: a=b; c=d\r\n"), "{lines}");
}

#[test]
fn key_pairs_sign_too_and_algorithms_are_not_the_tokens_choice() {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
    let pair = pair.expect("a key");
    let p256 = [
        0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
        0x3d, 0x03, 0x01, 0x07,
    ];
    let public = pem(&p256, pair.public_key().as_ref());
    let payload = json!({"key": "k"});
    let signed = token("ES256", &payload, |text| pair.sign(&random, text).expect("signed").as_ref().to_vec());
    let credential = json!({"key": "k", "algorithm": "ES256", "public_key": public});
    let (reply, name, _) = run(&json!({}), &credential, &format!("GET /?jwt={signed}"));
    assert_eq!((reply, name.as_deref()), (None, Some("jack")));
    // The public key taken for a secret.
    let key = hmac::Key::new(hmac::HMAC_SHA256, public.as_bytes());
    let forged = token("HS256", &payload, |text| hmac::sign(&key, text).as_ref().to_vec());
    assert!(run(&json!({}), &credential, &format!("GET /?jwt={forged}")).0.is_some());

    let document = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key");
    let public = pem(&[0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70], pair.public_key().as_ref());
    let signed = token("EdDSA", &payload, |text| pair.sign(text).as_ref().to_vec());
    let credential = json!({"key": "k", "algorithm": "EdDSA", "public_key": public});
    assert_eq!(run(&json!({}), &credential, &format!("GET /?jwt={signed}")).0, None);
}

#[test]
fn credentials_are_refused_with_apisix_words() {
    for (credential, message) in [
        (json!({"key": "k"}), "property \"secret\" is required when using HS based algorithms"),
        (json!({"key": "k", "algorithm": "RS256", "secret": "s"}), "matches none"),
        (
            json!({"key": "k", "secret": "-", "base64_secret": true}),
            "base64_secret required but the secret is not in base64 format",
        ),
        (json!({"key": "k", "algorithm": "ES256", "public_key": "x"}), "missing valid public key"),
    ] {
        let errors = registry().check_consumer(json!({"jwt-auth": credential}).as_object().expect("object"));
        let shown: Vec<_> = errors.iter().map(|error| &error.message).collect();
        assert!(shown.iter().any(|shown| shown.contains(message)), "{credential}: {shown:?}");
    }
}
