//! Decrypts a JSON Web Encryption (JWE) token of the client and passes its content to the upstream in a header field.
//!
//! ## When to use
//! Use it for clients that encrypt claims with a secret that they share with the gateway.
//!
//! ## Example
//! On the route:
//! ```json
//! {
//!     "jwe-decrypt": {
//!         "header": "Authorization",
//!         "forward_header": "Authorization",
//!         "strict": true
//!     }
//! }
//! ```
//! In the consumer: `{"jwe-decrypt": {"key": "user-key", "secret": "32 characters, one for each byte"}}`. The token is in
//! compact form, `dir` and `A256GCM`; `kid` in its header is the consumer's `key`. With `strict: false` a request without a
//! token passes.
//!
//! ## Differences from APISIX
//! - The token's header has to be what was encrypted (RFC 7516 section 5.2: it is authenticated); tokens that APISIX's own
//!   tools make, which leave it out, are accepted as well.
//! - A token with another algorithm, or with more than five parts, is invalid.
//! - Content with a control character is rejected, because no header field can contain it.

use crate::headers::{is_of_connection, is_token};
use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use model::ConfigError;
use plugin::{Authenticator, CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef, Reply};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::Deserialize;
use serde_json::{Value, json};
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<JweDecrypt>("jwe-decrypt", 2509)
        .authenticates()
        .on_rewrite()
        .encrypt_fields(&["key", "secret"])
        .build()
}

/// Bytes of a secret: AES-256's key.
const SECRET_BYTES: usize = 32;

/// base64url with padding or without: both are sent.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The configuration, and the compiled form: there is nothing to compile.
#[derive(Debug, Deserialize)]
pub struct JweDecrypt {
    header: String,
    forward_header: String,
    strict: bool,
}

/// What a consumer has.
#[derive(Debug, Deserialize)]
pub struct CredentialConfig {
    key: Secret,
    secret: Secret,
    #[serde(default)]
    is_base64_encoded: bool,
}

/// A consumer's key for decrypting.
pub struct Credential(LessSafeKey);

impl Plugin for JweDecrypt {
    type Config = Self;

    fn compile(config: Self, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        for (name, path) in [(&config.header, "/header"), (&config.forward_header, "/forward_header")] {
            if !is_token(name) || is_of_connection(name) {
                return Err(vec![ConfigError::new(path, "is no name of a header field of a request")]);
            }
        }
        Ok(config)
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "header": {
                    "description": "The field with the token.",
                    "type": "string",
                    "default": "Authorization"
                },
                "forward_header": {
                    "description": "The field in which the upstream gets the token's content.",
                    "type": "string",
                    "default": "Authorization"
                },
                "strict": {
                    "description": "Whether requests without a token are refused.",
                    "type": "boolean",
                    "default": true
                }
            }
        })
    }
}

impl Authenticator for JweDecrypt {
    type CredentialConfig = CredentialConfig;
    type Credential = Credential;

    fn credential_schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "key": {"type": "string"},
                "secret": {"type": "string"},
                "is_base64_encoded": {"type": "boolean"}
            },
            "encrypt_fields": ["key", "secret"],
            "required": ["key", "secret"]
        })
    }

    /// The messages are APISIX's.
    fn credential(config: CredentialConfig) -> Result<(Vec<u8>, Credential), Vec<ConfigError>> {
        let written = config.secret.into_string().into_bytes();
        let (secret, message) = if config.is_base64_encoded {
            let decoded = BASE64URL.decode(&written).unwrap_or_default();
            (decoded, "the secret length after base64 decode should be 32 chars")
        } else {
            (written, "the secret length should be 32 chars")
        };
        let key =
            (secret.len() == SECRET_BYTES).then(|| UnboundKey::new(&AES_256_GCM, &secret).ok()).flatten();
        let key = key.ok_or_else(|| vec![ConfigError::new("/secret", message)])?;
        Ok((config.key.into_string().into_bytes(), Credential(LessSafeKey::new(key))))
    }
}

impl OnRewrite for JweDecrypt {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let refuse = |status, why| Flow::reply(Reply::message(status, why));
        let Some(sent) = exchange.request.header(self.header.as_bytes()) else {
            return if self.strict { refuse(403, "missing JWE token in request") } else { Flow::Next };
        };
        let token = ["Bearer ", "bearer "].iter().find_map(|scheme| sent.strip_prefix(scheme.as_bytes()));
        let Some(token) = Token::parse(token.unwrap_or(sent)) else {
            return refuse(400, "JWE token invalid");
        };
        let Some(kid) = token.kid() else { return refuse(400, "missing kid in JWE token") };
        let consumers = exchange.consumers;
        let Some((_, credential)) = consumers.find::<Self>(kid.as_bytes()) else {
            return refuse(400, "invalid kid in JWE token");
        };
        let content = token.decrypt(&credential.0);
        let Some(content) = content.filter(|content| !content.iter().any(u8::is_ascii_control)) else {
            return refuse(400, "failed to decrypt JWE token");
        };
        exchange.request.edit().headers.set(&self.forward_header, content);
        Flow::Next
    }
}

/// A token in compact form (RFC 7516 section 7.1), decoded.
struct Token<'t> {
    header: Value,
    /// The header as it was sent, which is authenticated.
    header_text: &'t [u8],
    nonce: [u8; NONCE_LEN],
    /// The ciphertext and its tag.
    sealed: Vec<u8>,
}

impl<'t> Token<'t> {
    fn parse(text: &'t [u8]) -> Option<Self> {
        let parts: Vec<&[u8]> = text.split(|byte| *byte == b'.').collect();
        let [header_text, _key, nonce, ciphertext, tag] = parts[..] else { return None };
        let decode = |part: &[u8]| BASE64URL.decode(part).ok();
        let header: Value = serde_json::from_slice(&decode(header_text)?).ok().filter(Value::is_object)?;
        let is = |name: &str, value: &str| header.get(name).is_none_or(|found| found == value);
        if !is("alg", "dir") || !is("enc", "A256GCM") {
            return None;
        }
        let mut sealed = decode(ciphertext)?;
        sealed.extend(decode(tag)?);
        // A nonce of another length decrypts nothing.
        let nonce = decode(nonce)?.try_into().unwrap_or_default();
        Some(Self { header, header_text, nonce, sealed })
    }

    fn kid(&self) -> Option<&str> {
        self.header.get("kid")?.as_str()
    }

    fn decrypt(&self, key: &LessSafeKey) -> Option<Vec<u8>> {
        [self.header_text, b""].into_iter().find_map(|authenticated| {
            let mut sealed = self.sealed.clone();
            let nonce = Nonce::assume_unique_for_key(self.nonce);
            let length = key.open_in_place(nonce, Aad::from(authenticated), &mut sealed).ok()?.len();
            sealed.truncate(length);
            Some(sealed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    const SECRET: &str = "12345678901234567890123456789012";

    fn registry() -> Registry {
        Registry::new([def()], serde_json::Map::new()).expect("valid schemas")
    }

    /// A token for `content`; `authenticated` is what of the header is.
    fn token(header: &Value, content: &str, secret: &str, authenticated: bool) -> String {
        let key = UnboundKey::new(&AES_256_GCM, secret.as_bytes()).expect("32 bytes");
        let header = BASE64URL.encode(header.to_string());
        let mut sealed = content.as_bytes().to_vec();
        let aad = if authenticated { header.clone() } else { String::new() };
        let nonce = Nonce::assume_unique_for_key([7; NONCE_LEN]);
        let tag = LessSafeKey::new(key).seal_in_place_separate_tag(nonce, Aad::from(aad), &mut sealed);
        let tag = BASE64URL.encode(tag.expect("sealed"));
        format!("{header}..{}.{}.{tag}", BASE64URL.encode([7; NONCE_LEN]), BASE64URL.encode(sealed))
    }

    fn run(config: &Value, fields: &str) -> (u16, Option<String>) {
        let registry = registry();
        let chain = testkit::chain(&registry, &json!({ "jwe-decrypt": config })).expect("valid");
        let mut bench = Bench::new(&format!("GET /\n{fields}"));
        let jack = ("jack", json!({"jwe-decrypt": {"key": "k", "secret": SECRET}}));
        bench.consumers = testkit::consumers(&registry, &[jack]).expect("valid");
        let mut exchange = bench.exchange();
        let status = testkit::access(&chain, &mut exchange);
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        (status, exchange.request.header(b"x-content").map(text))
    }

    #[test]
    fn the_content_of_a_token_reaches_the_upstream() {
        let config = json!({"forward_header": "X-Content"});
        let header = json!({"alg": "dir", "enc": "A256GCM", "kid": "k"});
        let good = token(&header, "hello", SECRET, true);
        let bare = good.replace('=', "");
        let plain = token(&header, "hello", SECRET, false);
        for (fields, status) in [
            (format!("Authorization: {good}"), 0),
            (format!("Authorization: Bearer {good}"), 0),
            (format!("Authorization: bearer {plain}"), 0),
            (format!("Authorization: {bare}"), 0),
            (String::new(), 403),
            ("Authorization: abc".to_owned(), 400),
            ("Authorization: Bearer a.b.c.d.e".to_owned(), 400),
            (format!("Authorization: {good}.x"), 400),
            (format!("Authorization: {}", token(&header, "a\r\nb", SECRET, true)), 400),
            (format!("Authorization: {}", token(&header, "a", &"x".repeat(32), true)), 400),
            (format!("Authorization: {}", token(&json!({"kid": "other"}), "a", SECRET, true)), 400),
            (
                format!(
                    "Authorization: {}",
                    token(&json!({"kid": "k", "alg": "RSA-OAEP"}), "a", SECRET, true)
                ),
                400,
            ),
            (format!("Authorization: {}", token(&json!({}), "a", SECRET, true)), 400),
        ] {
            let expected = (status == 0).then(|| "hello".to_owned());
            assert_eq!(run(&config, &fields), (status, expected), "{fields}");
        }
        assert_eq!(run(&json!({"strict": false}), "").0, 0);
    }

    #[test]
    fn a_secret_has_the_length_of_a_key() {
        let check = |config: Value| {
            let plugins = json!({ "jwe-decrypt": config });
            registry().check_consumer(plugins.as_object().expect("an object"))
        };
        assert_eq!(check(json!({"key": "k", "secret": SECRET})), []);
        let encoded = "fo4XKdZ1xSrIZyms4q2BwPrW5lMpls9qqy5tiAk2esc=";
        assert_eq!(check(json!({"key": "k", "secret": encoded, "is_base64_encoded": true})), []);
        for (config, message) in [
            (json!({"key": "k", "secret": "short"}), "the secret length should be 32 chars"),
            (
                json!({"key": "k", "secret": SECRET, "is_base64_encoded": true}),
                "the secret length after base64 decode should be 32 chars",
            ),
            (json!({"key": "k"}), "secret"),
        ] {
            let found = check(config);
            assert!(found.iter().any(|error| error.message.contains(message)), "{found:?}");
        }
    }
}
