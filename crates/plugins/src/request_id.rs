//! Adds a unique id to each request and, optionally, to its response.
//!
//! ## When to use
//! Use it to find a request in the logs of all services that it passed. An id that the client sends is kept.
//!
//! ## Example
//! ```json
//! {
//!     "request-id": {
//!         "header_name": "X-Request-Id",
//!         "include_in_response": true
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - Invalid field names and ids of more than 4096 characters are rejected.
//! - The variable `$request_id` remains the gateway's own id.

use crate::headers::is_token;
use model::ConfigError;
use plugin::{CompileContext, Exchange, Flow, OnResponse, OnRewrite, Plugin, PluginDef, UpstreamResponse};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use stdx::Clock;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<RequestId>("request-id", 12015).on_rewrite().on_response().build()
}

/// nanoid's alphabet: 64 characters, so that 6 random bits make one without favouring any.
const NANOID: &[u8; 64] = b"-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const NANOID_LENGTH: usize = 21;

/// When the seconds of a KSUID begin: 13 May 2014, 1.4 billion seconds after those of Unix.
const KSUID_EPOCH_S: u64 = 1_400_000_000;

/// Characters of an id. Each request draws them anew, and servers take header lines of 8 KiB at most.
const LENGTH_MAX: usize = 4096;

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    header_name: String,
    include_in_response: bool,
    algorithm: Algorithm,
    range_id: RangeId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Algorithm {
    Uuid,
    Nanoid,
    #[serde(rename = "range_id")]
    RangeId,
    Ksuid,
    Uuidv7,
}

#[derive(Debug, Deserialize)]
struct RangeId {
    length: usize,
    char_set: String,
}

/// The compiled form.
pub struct RequestId {
    config: Config,
    random: SystemRandom,
    clock: Arc<Clock>,
}

impl Plugin for RequestId {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        if !is_token(&config.header_name) {
            return Err(vec![ConfigError::new("/header_name", "is no name of a header field")]);
        }
        if config.range_id.char_set.bytes().any(|byte| !matches!(byte, b' '..=b'~')) {
            let message = "must be printable ASCII: it goes into a header";
            return Err(vec![ConfigError::new("/range_id/char_set", message)]);
        }
        if config.range_id.length > LENGTH_MAX {
            let message = format!("should be at most {LENGTH_MAX}: it goes into a header");
            return Err(vec![ConfigError::new("/range_id/length", message)]);
        }
        Ok(Self { config, random: SystemRandom::new(), clock: cx.shared.get() })
    }

    fn schema() -> Value {
        let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIGKLMNOPQRSTUVWXYZ0123456789";
        json!({
            "type": "object",
            "properties": {
                "header_name": {"type": "string", "default": "X-Request-Id"},
                "include_in_response": {"type": "boolean", "default": true},
                "algorithm": {
                    "type": "string",
                    "enum": ["uuid", "nanoid", "range_id", "ksuid", "uuidv7"],
                    "default": "uuid"
                },
                "range_id": {
                    "type": "object",
                    "properties": {
                        "length": {"type": "integer", "minimum": 6, "default": 16},
                        "char_set": {"type": "string", "minLength": 6, "default": letters}
                    },
                    "default": {"length": 16, "char_set": letters}
                }
            }
        })
    }
}

impl OnRewrite for RequestId {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let name = &self.config.header_name;
        let given = exchange.request.header(name.as_bytes()).filter(|id| !id.is_empty()).map(<[u8]>::to_vec);
        let brought = given.is_some();
        let id = given.unwrap_or_else(|| self.make(exchange).into_bytes());
        if !brought {
            exchange.request.edit().headers.set(name, &id);
        }
        if self.config.include_in_response {
            exchange.extras().note(self, id);
        }
        Flow::Next
    }
}

impl OnResponse for RequestId {
    fn response(&self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) {
        let name = &self.config.header_name;
        let theirs = response.header(name.as_bytes(), exchange.reply_headers);
        if theirs.is_some_and(|id| !id.is_empty()) {
            return;
        }
        let id = exchange.extras.as_ref().and_then(|extras| extras.noted::<_, Vec<u8>>(self)).cloned();
        if let Some(id) = id {
            exchange.reply_headers.set(name, id);
        }
    }
}

impl RequestId {
    fn make(&self, exchange: &Exchange<'_>) -> String {
        match self.config.algorithm {
            Algorithm::Nanoid => self.letters(NANOID, NANOID_LENGTH),
            Algorithm::RangeId => {
                self.letters(self.config.range_id.char_set.as_bytes(), self.config.range_id.length)
            }
            Algorithm::Uuidv7 => self.uuid(Some(self.clock.unix_ms(exchange.timing.started))),
            Algorithm::Uuid => self.uuid(None),
            Algorithm::Ksuid => self.ksuid(self.clock.unix_ms(exchange.timing.started) / 1000),
        }
    }

    /// RFC 9562: version 4, or version 7 with a time in milliseconds.
    fn uuid(&self, time_ms: Option<u64>) -> String {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        if let Some(time_ms) = time_ms {
            bytes[..6].copy_from_slice(&time_ms.to_be_bytes()[2..]);
        }
        bytes[6] = bytes[6] & 0x0f | if time_ms.is_some() { 0x70 } else { 0x40 };
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(bytes));
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// A K-sortable unique id: 4 bytes of seconds since [`KSUID_EPOCH_S`] and 16 random ones as a number in base 62, so
    /// that later ids sort behind earlier ones.
    fn ksuid(&self, unix_s: u64) -> String {
        let mut bytes = [0; 20];
        self.fill(&mut bytes[4..]);
        // The 32 bits last until 2150.
        let seconds = u32::try_from(unix_s.saturating_sub(KSUID_EPOCH_S)).unwrap_or(u32::MAX);
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        base62(bytes)
    }

    fn letters(&self, alphabet: &[u8], length: usize) -> String {
        let mut random = vec![0; length * 2];
        self.fill(&mut random);
        // 16 bits a letter, so that none of up to 256 is favoured by more than 0.4 %.
        let letter = |pair: &[u8]| {
            let number = usize::from(pair[0]) << 8 | usize::from(pair[1]);
            char::from(alphabet[number % alphabet.len()])
        };
        random.chunks_exact(2).map(letter).collect()
    }

    fn fill(&self, bytes: &mut [u8]) {
        // Fails only where the system has no random bits at all; ids are then alike, and nothing else suffers.
        if self.random.fill(bytes).is_err() {
            tracing::error!("request-id: the system gives no random bits");
        }
    }
}

/// The number that `bytes` spell, in 27 digits of base 62.
fn base62(mut bytes: [u8; 20]) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = [b'0'; 27];
    for place in text.iter_mut().rev() {
        let mut rest = 0;
        for byte in &mut bytes {
            let number = rest << 8 | u32::from(*byte);
            *byte = u8::try_from(number / 62).unwrap_or_default();
            rest = number % 62;
        }
        *place = DIGITS[rest as usize];
    }
    text.iter().copied().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    fn run(config: &Value, request: &str) -> (Option<String>, String) {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let chain = testkit::chain(&registry, &json!({"request-id": config})).expect("valid");
        let bench = Bench::new(request);
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(&chain, &mut exchange), 0);
        testkit::response(&chain, &mut exchange, 200);
        let id = exchange.request.header(b"x-request-id").map(|id| String::from_utf8_lossy(id).into_owned());
        (id, testkit::lines(exchange.reply_headers))
    }

    #[test]
    fn ids_are_made_or_kept_and_shown() {
        for (algorithm, length) in
            [("uuid", 36), ("uuidv7", 36), ("nanoid", 21), ("range_id", 16), ("ksuid", 27)]
        {
            let (id, lines) = run(&json!({"algorithm": algorithm}), "GET /");
            let id = id.expect("an id");
            assert_eq!(id.len(), length, "{id}");
            assert_eq!(lines, format!("X-Request-Id: {id}\r\n"));
            assert_ne!(run(&json!({"algorithm": algorithm}), "GET /").0, Some(id));
        }
        let (id, lines) = run(&json!({}), "GET /\nX-Request-Id: mine");
        assert_eq!((id.as_deref(), lines.as_str()), (Some("mine"), "X-Request-Id: mine\r\n"));
        assert_eq!(run(&json!({"include_in_response": false}), "GET /").1, "");
    }

    #[test]
    fn a_ksuid_is_a_number_in_base_62() {
        let mut payload = [0; 20];
        assert_eq!(base62(payload), "0".repeat(27));
        payload[19] = 61;
        assert_eq!(base62(payload), format!("{}z", "0".repeat(26)));
        payload[18] = 1;
        assert_eq!(base62(payload), format!("{}57", "0".repeat(25)), "256 + 61 = 5 * 62 + 7");
        assert_eq!(base62([0xff; 20]), "aWgEPTl1tmebfsQzFP4bxwgy80V", "the largest that the format has");
    }

    #[test]
    fn what_fits_no_header_is_refused() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        for (config, path) in [
            (json!({"header_name": "X-Id\r\nX-Other"}), "/header_name"),
            (json!({"header_name": ""}), "/header_name"),
            (json!({"algorithm": "range_id", "range_id": {"length": 1_000_000_000}}), "/range_id/length"),
            (json!({"algorithm": "range_id", "range_id": {"char_set": "abcde\n"}}), "/range_id/char_set"),
        ] {
            let errors = testkit::chain(&registry, &json!({"request-id": config})).expect_err("refused");
            assert_eq!(errors[0].path, format!("/request-id{path}"), "{config}");
        }
    }
}
