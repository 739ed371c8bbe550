//! A provider without a network, and browsers that keep cookies.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use plugin::testkit::{self, Bench, MadeCall};
use plugin::{CallErrorKind, Chain, Registry};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use ring::{digest, hmac};
use serde_json::json;

mod bearer;
mod login;
mod sessions;

/// A provider, without a network.
struct Op {
    key: EcdsaKeyPair,
    random: SystemRandom,
}

impl Op {
    fn new() -> Self {
        let random = SystemRandom::new();
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
        Self { key: key.expect("a key"), random }
    }

    fn discovery() -> Value {
        json!({
            "issuer": "http://op.test/",
            "authorization_endpoint": "http://op.test/authorize?x=1",
            "token_endpoint": "http://op.test/token",
            "introspection_endpoint": "http://op.test/introspect",
            "userinfo_endpoint": "http://op.test/userinfo",
            "jwks_uri": "http://op.test/keys",
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    fn jwks(&self) -> Value {
        let point = self.key.public_key().as_ref().to_vec();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "k1", "use": "sig", "x": text(&point[1..33]), "y": text(&point[33..])}
        ]})
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.key.sign(&self.random, signed.as_bytes()).expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    fn es256(&self, claims: &Value) -> String {
        self.token(&json!({"alg": "ES256", "kid": "k1"}), claims)
    }
}

fn claims(more: Value) -> Value {
    let now = now_s();
    let mut claims = json!({"iss": "http://op.test/", "aud": "c", "sub": "u1", "exp": now + 600, "iat": now});
    if let Value::Object(more) = more {
        for (name, value) in more {
            claims[&name] = value;
        }
    }
    claims
}

fn now_s() -> u64 {
    let bench = Bench::new("GET /");
    let exchange = bench.exchange();
    Clock::default().unix_ms(exchange.timing.started) / 1000
}

fn chain(more: &Value) -> Chain {
    let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
    let mut config = json!({
        "client_id": "c", "client_secret": "hidden", "discovery": "http://op.test/d",
        "session": {"secret": "0123456789abcdef"}
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        config[name] = value.clone();
    }
    testkit::chain(&registry, &json!({ "openid-connect": config }))
        .unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// What a client sees of an answer: status, `Location`, and its cookies by then.
struct Answered {
    status: u16,
    location: String,
    body: String,
    challenge: String,
}

/// A client that keeps its cookies.
#[derive(Default)]
struct Browser(std::collections::BTreeMap<String, String>);

impl Browser {
    fn get(&mut self, chain: &Chain, op: &[Value], target: &str) -> (Answered, Vec<MadeCall>, String) {
        let cookies: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.send(
            chain,
            op,
            &format!("GET {target}\nHost: a.test\nX-Userinfo: forged\nCookie: {}", cookies.join("; ")),
        )
    }

    fn send(&mut self, chain: &Chain, op: &[Value], request: &str) -> (Answered, Vec<MadeCall>, String) {
        let bench = Bench::new(request);
        for answer in op {
            match answer {
                Value::Number(status) => {
                    bench.services.answer(status.as_u64().unwrap_or_default() as u16, &[], "{}");
                }
                Value::Null => bench.services.fail(CallErrorKind::Timeout),
                Value::String(text) => bench.services.answer(200, &[], text),
                answer => bench.services.answer(200, &[], &answer.to_string()),
            }
        }
        let mut exchange = bench.exchange();
        let reply = testkit::request(chain, &mut exchange);
        for line in testkit::lines(exchange.reply_headers).lines() {
            let Some(cookie) = line.strip_prefix("Set-Cookie: ") else { continue };
            let (name, value) =
                cookie.split(';').next().and_then(|pair| pair.split_once('=')).expect("a cookie");
            if cookie.contains("Max-Age=0") {
                self.0.remove(name);
            } else {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
        let field = |name: &[u8]| {
            let value = reply.as_ref().and_then(|reply| reply.header(name)).unwrap_or_default();
            String::from_utf8_lossy(value).into_owned()
        };
        let answered = Answered {
            status: reply.as_ref().map_or(0, |reply| reply.status),
            location: field(b"location"),
            challenge: field(b"www-authenticate"),
            body: String::from_utf8_lossy(reply.as_ref().and_then(|r| r.body.as_deref()).unwrap_or_default())
                .into_owned(),
        };
        (answered, bench.services.calls(), testkit::lines(&exchange.request.edit().headers))
    }
}

/// The value of an argument in a URL.
fn argument(url: &str, name: &str) -> String {
    let query = url.split_once('?').expect("a query").1;
    let pair = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
    String::from_utf8(crate::text::decode_arg(pair.unwrap_or_default().as_bytes()).into_owned())
        .expect("text")
}

/// A browser that has just been sent to the provider, its state and its nonce.
fn asked(chain: &Chain, target: &str) -> (Browser, String, String) {
    let mut browser = Browser::default();
    let (answer, ..) = browser.get(chain, &[Op::discovery()], target);
    assert_eq!(answer.status, 302);
    let (state, nonce) = (argument(&answer.location, "state"), argument(&answer.location, "nonce"));
    (browser, state, nonce)
}
