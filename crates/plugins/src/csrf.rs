//! Protects against cross-site request forgery: unsafe requests must carry a token that only pages of the same site
//! can read from a cookie.
//!
//! ## When to use
//! Use it for sites that identify users by cookies. Another site can make a browser send a request with those
//! cookies, but it cannot read them, and so cannot copy the token into a header field.
//!
//! ## Example
//! ```json
//! {
//!     "csrf": {
//!         "key": "a-long-secret",
//!         "expires": 7200
//!     }
//! }
//! ```
//! Each response sets the cookie `apisix-csrf-token`; requests other than GET, HEAD and OPTIONS send its value in a header
//! of the same name.
//!
//! ## Differences from APISIX
//! - The random number in a token is cryptographically secure. Tokens of APISIX and Tidegate are not interchangeable.

use crate::auth::same_secret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::ConfigError;
use plugin::{
    CompileContext, Exchange, Flow, OnAccess, OnResponse, Plugin, PluginDef, Reply, UpstreamResponse,
};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use stdx::{Clock, Secret};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Csrf>("csrf", 2980).on_access().on_response().encrypt_fields(&["key"]).build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    key: Secret,
    expires: i64,
    name: String,
}

/// The compiled form.
pub struct Csrf {
    key: hmac::Key,
    expires_s: i64,
    name: String,
    clock: Arc<Clock>,
    random: SystemRandom,
}

/// What a cookie holds, in JSON and base64.
#[derive(serde::Serialize, Deserialize)]
struct Token {
    random: String,
    /// When it was made, in seconds since 1970: APISIX's name for it.
    expires: i64,
    sign: String,
}

impl Plugin for Csrf {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        // A key of any length as one of the digest's.
        let key = digest::digest(&digest::SHA256, config.key.as_bytes());
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()),
            expires_s: config.expires,
            name: config.name,
            clock: cx.shared.get(),
            random: SystemRandom::new(),
        })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "key": {"description": "use to generate csrf token", "type": "string"},
                "expires": {
                    "description": "expires time(s) for csrf token",
                    "type": "integer",
                    "default": 7200
                },
                "name": {
                    "description": "the csrf token name",
                    "type": "string",
                    "default": "apisix-csrf-token"
                }
            },
            "encrypt_fields": ["key"],
            "required": ["key"]
        })
    }
}

impl OnAccess for Csrf {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        if matches!(exchange.request.method(), b"GET" | b"HEAD" | b"OPTIONS") {
            return Flow::Next;
        }
        let refuse = |why| Flow::reply(Reply::error(401, why));
        let name = self.name.as_bytes();
        let Some(header) = exchange.request.header(name).filter(|token| !token.is_empty()) else {
            return refuse("no csrf token in headers");
        };
        let Some(cookie) = exchange.request.cookie(name) else { return refuse("no csrf cookie") };
        if header != cookie {
            return refuse("csrf token mismatch");
        }
        match self.verifies(cookie, self.now_s(exchange)) {
            true => Flow::Next,
            false => refuse("Failed to verify the csrf token signature"),
        }
    }
}

impl OnResponse for Csrf {
    fn response(&self, exchange: &mut Exchange<'_>, _: &UpstreamResponse<'_>) {
        let now_s = self.now_s(exchange);
        // Without random bits there is no token, and requests that need one are refused.
        let Some(token) = self.token(now_s) else { return };
        let expires_s = u64::try_from(now_s.saturating_add(self.expires_s)).unwrap_or_default();
        let expires =
            httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(expires_s.min(u64::from(u32::MAX))));
        let cookie = format!("{}={token};path=/;SameSite=Lax;Expires={expires}", self.name);
        exchange.reply_headers.append("Set-Cookie", cookie);
    }
}

impl Csrf {
    fn now_s(&self, exchange: &Exchange<'_>) -> i64 {
        i64::try_from(self.clock.unix_ms(exchange.timing.started) / 1000).unwrap_or(i64::MAX)
    }

    fn token(&self, now_s: i64) -> Option<String> {
        let mut random = [0; 16];
        self.random.fill(&mut random).ok()?;
        let random = STANDARD.encode(random);
        let sign = self.sign(&random, now_s);
        serde_json::to_string(&Token { random, expires: now_s, sign })
            .ok()
            .map(|token| STANDARD.encode(token))
    }

    fn sign(&self, random: &str, made_s: i64) -> String {
        STANDARD.encode(hmac::sign(&self.key, format!("{made_s}:{random}").as_bytes()))
    }

    fn verifies(&self, token: &[u8], now_s: i64) -> bool {
        let decoded = STANDARD.decode(token).ok();
        let Some(token) = decoded.and_then(|json| serde_json::from_slice::<Token>(&json).ok()) else {
            return false;
        };
        let old = self.expires_s > 0 && now_s.saturating_sub(token.expires) > self.expires_s;
        !old && same_secret(self.sign(&token.random, token.expires).as_bytes(), token.sign.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn a_token_from_a_response_opens_the_door() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let chain = testkit::chain(&registry, &json!({"csrf": {"key": "k", "name": "t"}})).expect("valid");
        let other = testkit::chain(&registry, &json!({"csrf": {"key": "x", "name": "t"}})).expect("valid");
        let token = |chain| {
            let bench = Bench::new("GET /");
            let mut exchange = bench.exchange();
            testkit::response(chain, &mut exchange, 200);
            let lines = testkit::lines(exchange.reply_headers);
            let cookie = lines.strip_prefix("Set-Cookie: t=").expect("a cookie");
            cookie.split(';').next().expect("its value").to_owned()
        };
        let (good, bad) = (token(&chain), token(&other));
        for (request, status) in [
            ("GET /".to_owned(), 0),
            ("POST /".to_owned(), 401),
            (format!("POST /\nt: {good}"), 401),
            (format!("POST /\nt: {good}\nCookie: t={good}"), 0),
            (format!("POST /\nt: {good}\nCookie: t={bad}"), 401),
            (format!("POST /\nt: {bad}\nCookie: t={bad}"), 401),
            ("POST /\nt: e30=\nCookie: t=e30=".to_owned(), 401),
        ] {
            assert_eq!(testkit::access(&chain, &mut Bench::new(&request).exchange()), status, "{request}");
        }
    }
}
