//! Authenticates consumers by an HMAC signature of the request (`Authorization: Signature ...`).
//!
//! ## When to use
//! Use it for programs that must not send their secret. They send a signature instead, which is valid for this one
//! request and for a few minutes.
//!
//! ## Example
//! On the route:
//! ```json
//! {
//!     "hmac-auth": {
//!         "signed_headers": ["date", "@request-target"],
//!         "clock_skew": 300
//!     }
//! }
//! ```
//! In the consumer: `{"hmac-auth": {"key_id": "jack", "secret_key": "a-long-secret"}}`.
//!
//! ## Differences from APISIX
//! - A credential with `_meta.disable` authenticates nobody.
//! - Without `signed_headers` a client must sign `@request-target` and `date`, and with `validate_request_body` `digest`, too:
//!   a signature of the date alone is good for every path, and an unsigned digest for every body. APISIX's default is
//!   `["date"]`; a list in the configuration is taken as it is.

use crate::auth::{self, Door};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::ConfigError;
use model::schema::parts;
use plugin::{
    Authenticator, CompileContext, Exchange, Flow, Identity, OnRewrite, Plugin, PluginDef, Reply, WholeBody,
};
use ring::{digest, hmac};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use stdx::{Clock, Secret};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<HmacAuth>("hmac-auth", 2530)
        .authenticates()
        .on_rewrite()
        .encrypt_fields(&["secret_key"])
        .build()
}

/// What is said to who is not let in for any reason that the signature covers.
const INVALID: &str = "client request can't be validated";

/// The digests by APISIX's names.
const ALGORITHMS: [(&str, hmac::Algorithm); 3] = [
    ("hmac-sha1", hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
    ("hmac-sha256", hmac::HMAC_SHA256),
    ("hmac-sha512", hmac::HMAC_SHA512),
];

/// What a user writes on a route.
#[derive(Debug, Deserialize)]
pub struct Config {
    allowed_algorithms: Vec<String>,
    clock_skew: u64,
    signed_headers: Option<Vec<String>>,
    validate_request_body: bool,
    max_req_body_size: usize,
    hide_credentials: bool,
    #[serde(flatten)]
    door: Door,
}

/// The compiled form.
pub struct HmacAuth {
    config: Config,
    /// What a client's signature must cover, at least.
    signed_headers: Vec<String>,
    clock: Arc<Clock>,
}

/// What a consumer has.
#[derive(Debug, Deserialize)]
pub struct CredentialConfig {
    key_id: String,
    secret_key: Secret,
}

/// What the `Authorization` field says.
#[derive(Default)]
struct Claim<'h> {
    key_id: Option<&'h str>,
    algorithm: Option<&'h str>,
    signature: Option<&'h str>,
    headers: Vec<&'h str>,
}

impl Plugin for HmacAuth {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let body = config.validate_request_body.then_some("digest");
        let signed = || ["@request-target", "date"].into_iter().chain(body).map(str::to_owned).collect();
        let signed_headers = config.signed_headers.clone().unwrap_or_else(signed);
        Ok(Self { config, signed_headers, clock: cx.shared.get() })
    }

    fn schema() -> Value {
        let algorithms = ALGORITHMS.map(|(name, _)| name);
        json!({
            "type": "object",
            "title": "work with route or service object",
            "properties": {
                "allowed_algorithms": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "string", "enum": algorithms},
                    "default": algorithms
                },
                "clock_skew": {"type": "integer", "default": 300, "minimum": 1},
                "signed_headers": {
                    "type": "array",
                    "description": "what clients must sign; without it @request-target and date, and digest where the body is validated",
                    "items": {"type": "string", "minLength": 1, "maxLength": 50}
                },
                "validate_request_body": {
                    "type": "boolean",
                    "description": "whether the body's digest is checked",
                    "default": false
                },
                "max_req_body_size": parts::body_limit("bytes of a body that are held to check its digest"),
                "hide_credentials": {"type": "boolean", "default": false},
                "realm": auth::realm_schema("hmac"),
                "anonymous_consumer": auth::anonymous_consumer_schema()
            }
        })
    }
}

impl Authenticator for HmacAuth {
    type CredentialConfig = CredentialConfig;
    /// The secret: which digest it is used with is the request's choice.
    type Credential = Vec<u8>;

    fn credential_schema() -> Value {
        json!({
            "type": "object",
            "title": "work with consumer object",
            "properties": {
                "key_id": {"type": "string", "minLength": 1, "maxLength": 256},
                "secret_key": {"type": "string", "minLength": 1, "maxLength": 256}
            },
            "encrypt_fields": ["secret_key"],
            "required": ["key_id", "secret_key"]
        })
    }

    fn credential(config: CredentialConfig) -> Result<(Vec<u8>, Vec<u8>), Vec<ConfigError>> {
        Ok((config.key_id.into_bytes(), config.secret_key.into_string().into_bytes()))
    }
}

impl OnRewrite for HmacAuth {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let found = match self.identify(exchange) {
            Ok(identity) => match self.check_body(exchange) {
                Ok(()) => Ok(identity),
                Err(Some(flow)) => return flow,
                Err(None) => Err(INVALID),
            },
            Err(why) => Err(why),
        };
        let flow = self.config.door.admit(exchange, "hmac", found);
        if self.config.hide_credentials && matches!(flow, Flow::Next) {
            exchange.request.edit().headers.remove("Authorization");
        }
        flow
    }
}

impl HmacAuth {
    /// Who it is, or why nobody knows. What fails after the field could be read is not told apart.
    fn identify<'x>(&self, exchange: &Exchange<'x>) -> Result<&'x Identity, &'static str> {
        let header = exchange.request.header(b"authorization");
        let header = header.ok_or("client request can't be validated: missing Authorization header")?;
        let fields = std::str::from_utf8(header).ok().and_then(|text| text.strip_prefix("Signature"));
        let fields = fields.ok_or(
            "client request can't be validated: Authorization header does not start with 'Signature'",
        )?;
        self.validate(&Claim::parse(fields), exchange).ok_or(INVALID)
    }

    /// Whether the body is the one that the `Digest` field speaks of; what to do first, or instead, where that can't be
    /// told. Only for who has signed the request: others make nobody read their bodies.
    fn check_body(&self, exchange: &Exchange<'_>) -> Result<(), Option<Flow>> {
        if !self.config.validate_request_body {
            return Ok(());
        }
        let said = exchange.request.header(b"digest").ok_or(None)?;
        let limit_bytes = self.config.max_req_body_size;
        match exchange.request.whole_body(limit_bytes) {
            WholeBody::Unread => Err(Some(Flow::Body(limit_bytes))),
            WholeBody::TooLong => {
                let message = "the body is longer than max_req_body_size";
                Err(Some(Flow::reply(Reply::message(413, message))))
            }
            WholeBody::Whole(body) => {
                let digest = STANDARD.encode(digest::digest(&digest::SHA256, body));
                (said == format!("SHA-256={digest}").as_bytes()).then_some(()).ok_or(None)
            }
        }
    }

    fn validate<'x>(&self, claim: &Claim<'_>, exchange: &Exchange<'x>) -> Option<&'x Identity> {
        let (key_id, signature) = (claim.key_id?, STANDARD.decode(claim.signature?).ok()?);
        let algorithm =
            claim.algorithm.filter(|name| self.config.allowed_algorithms.iter().any(|a| a == name))?;
        let (_, digest) = ALGORITHMS.iter().find(|(name, _)| *name == algorithm)?;
        let (identity, secret) = exchange.consumers.find::<Self>(key_id.as_bytes())?;
        let date = std::str::from_utf8(exchange.request.header(b"date")?).ok()?;
        let date = httpdate::parse_http_date(date).ok()?;
        let now = UNIX_EPOCH + Duration::from_millis(self.clock.unix_ms(exchange.timing.started));
        let skew = now.duration_since(date).or_else(|_| date.duration_since(now)).ok()?;
        if skew.as_secs() > self.config.clock_skew {
            return None;
        }
        let signs = |header: &String| claim.headers.iter().any(|signed| signed == header);
        if !self.signed_headers.iter().all(signs) {
            return None;
        }
        let text = signed_text(key_id, &claim.headers, exchange);
        hmac::verify(&hmac::Key::new(*digest, secret), &text, &signature).is_ok().then_some(identity)
    }
}

/// What is signed: the key's id, then a line for each header that is named.
fn signed_text(key_id: &str, headers: &[&str], exchange: &Exchange<'_>) -> Vec<u8> {
    let request = &exchange.request;
    let mut text = key_id.as_bytes().to_vec();
    for name in headers {
        if let Some(value) = request.header(name.as_bytes()) {
            text.extend_from_slice(format!("\n{name}: ").as_bytes());
            text.extend_from_slice(value);
        } else if *name == "@request-target" {
            text.push(b'\n');
            text.extend_from_slice(request.method());
            text.push(b' ');
            text.extend_from_slice(&request.path);
            if !request.query().is_empty() {
                text.push(b'?');
                text.extend_from_slice(request.query());
            }
        }
    }
    text.push(b'\n');
    text
}

impl<'h> Claim<'h> {
    /// Reads `keyId="...",algorithm="...",headers="...",signature="..."`; what is not of this form is skipped.
    fn parse(fields: &'h str) -> Self {
        let mut claim = Self::default();
        for field in fields.split(',') {
            let Some((name, value)) = field.split_once("=\"") else { continue };
            let value = value.split('"').next();
            match name.trim() {
                "keyId" => claim.key_id = value,
                "algorithm" => claim.algorithm = value,
                "signature" => claim.signature = value,
                "headers" => claim.headers = value.unwrap_or_default().split(' ').collect(),
                _ => {}
            }
        }
        claim
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    fn status(config: &Value, algorithm: &str, headers: &str, text: &str, date: &str) -> u16 {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
        let chain = testkit::chain(&registry, &json!({"hmac-auth": config})).expect("valid");
        let (_, digest) = ALGORITHMS.iter().find(|(name, _)| *name == algorithm).expect("known");
        let signature = STANDARD.encode(hmac::sign(&hmac::Key::new(*digest, b"s"), text.as_bytes()));
        let mut bench = Bench::new(&format!(
            "GET /a?b=c\nDate: {date}\nAuthorization: Signature keyId=\"k\",algorithm=\"{algorithm}\",\
             headers=\"{headers}\",signature=\"{signature}\""
        ));
        let jack = ("jack", json!({"hmac-auth": {"key_id": "k", "secret_key": "s"}}));
        bench.consumers = testkit::consumers(&registry, &[jack]).expect("valid");
        testkit::access(&chain, &mut bench.exchange())
    }

    #[test]
    fn the_body_is_the_one_that_was_digested() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
        let config = json!({"hmac-auth": {"validate_request_body": true, "max_req_body_size": 5}});
        let chain = testkit::chain(&registry, &config).expect("valid");
        let date = httpdate::fmt_http_date(std::time::SystemTime::now());
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"s");
        let digest = "SHA-256=LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=";
        let lines = format!("k\nPOST /\ndate: {date}\n");
        let with_digest = format!("{lines}digest: {digest}\n");
        let digest = &format!("Digest: {digest}");
        for (headers, text, field, body, expected) in [
            ("@request-target date digest", &with_digest, digest.as_str(), "hello", 0),
            ("@request-target date digest", &with_digest, digest, "jello", 401),
            ("@request-target date digest", &lines, "X: y", "hello", 401),
            ("@request-target date digest", &with_digest, digest, "hello!", 413),
            // Whoever changes the body changes an unsigned digest with it.
            ("@request-target date", &lines, digest, "hello", 401),
        ] {
            let signature = STANDARD.encode(hmac::sign(&key, text.as_bytes()));
            let mut bench = Bench::new(&format!(
                "POST /\nContent-Length: {}\nDate: {date}\n{field}\nAuthorization: Signature keyId=\"k\",\
                 algorithm=\"hmac-sha256\",headers=\"{headers}\",signature=\"{signature}\"",
                body.len()
            ))
            .with_body(body);
            let jack = ("jack", json!({"hmac-auth": {"key_id": "k", "secret_key": "s"}}));
            bench.consumers = testkit::consumers(&registry, &[jack]).expect("valid");
            assert_eq!(testkit::access(&chain, &mut bench.exchange()), expected, "{headers} {field} {body}");
        }
    }

    #[test]
    fn signatures_of_what_is_asked_for_are_let_in() {
        let date = httpdate::fmt_http_date(std::time::SystemTime::now());
        let text = format!("k\ndate: {date}\nGET /a?b=c\n");
        let dated = format!("k\ndate: {date}\n");
        for (config, algorithm, headers, text, date, expected) in [
            (json!({}), "hmac-sha256", "date @request-target", &text, &date, 0),
            (json!({}), "hmac-sha1", "date @request-target", &text, &date, 0),
            (json!({}), "hmac-sha512", "date @request-target", &text, &date, 0),
            (
                json!({"allowed_algorithms": ["hmac-sha512"]}),
                "hmac-sha256",
                "date @request-target",
                &text,
                &date,
                401,
            ),
            (json!({"signed_headers": ["x"]}), "hmac-sha256", "date @request-target", &text, &date, 401),
            // A signature of the date alone is good for every path.
            (json!({}), "hmac-sha256", "date", &dated, &date, 401),
            (json!({"signed_headers": ["date"]}), "hmac-sha256", "date", &dated, &date, 0),
            (json!({}), "hmac-sha256", "@request-target", &"k\nGET /a?b=c\n".to_owned(), &date, 401),
            (json!({}), "hmac-sha256", "date", &text, &date, 401),
            (
                json!({}),
                "hmac-sha256",
                "date",
                &"k\ndate: Thu, 01 Jan 1970 00:00:00 GMT\n".to_owned(),
                &"Thu, 01 Jan 1970 00:00:00 GMT".to_owned(),
                401,
            ),
        ] {
            assert_eq!(status(&config, algorithm, headers, text, date), expected, "{config} {headers}");
        }
    }
}
