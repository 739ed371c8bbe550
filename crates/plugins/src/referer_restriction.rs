//! Allows or denies requests by the host of their `Referer` field.
//!
//! ## When to use
//! Use it to keep other sites from embedding your content. Clients can omit or forge the field.
//!
//! ## Example
//! ```json
//! {
//!     "referer-restriction": {
//!         "bypass_missing": true,
//!         "whitelist": ["example.com", "*.example.com"]
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - An IPv6 address in brackets is a valid host.

use model::ConfigError;
use plugin::{CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<RefererRestriction>("referer-restriction", 2990).on_access().build()
}

/// The configuration, and the compiled form: lists are short.
#[derive(Debug, Deserialize)]
pub struct RefererRestriction {
    bypass_missing: bool,
    whitelist: Option<Vec<String>>,
    blacklist: Option<Vec<String>>,
    message: String,
}

impl Plugin for RefererRestriction {
    type Config = Self;

    fn compile(config: Self, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(config)
    }

    fn schema() -> Value {
        let list = json!({"type": "array", "items": model::schema::parts::host(), "minItems": 1});
        json!({
            "type": "object",
            "properties": {
                "bypass_missing": {"type": "boolean", "default": false},
                "whitelist": list,
                "blacklist": list,
                "message": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "default": "Your referer host is not allowed"
                }
            },
            "oneOf": [{"required": ["whitelist"]}, {"required": ["blacklist"]}]
        })
    }
}

impl OnAccess for RefererRestriction {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let admitted = match (exchange.request.header(b"referer").and_then(host), &self.whitelist) {
            (None, _) => self.bypass_missing,
            (Some(host), Some(whitelist)) => is_listed(host, whitelist),
            (Some(host), None) => !is_listed(host, self.blacklist.as_deref().unwrap_or_default()),
        };
        if admitted { Flow::Next } else { Flow::reply(Reply::message(403, &self.message)) }
    }
}

/// The host of an absolute reference, or of one that leaves out the scheme alone.
fn host(referer: &[u8]) -> Option<&[u8]> {
    let schemes: [&[u8]; 3] = [b"http://", b"https://", b"//"];
    let rest = schemes.into_iter().find_map(|scheme| referer.strip_prefix(scheme))?;
    let end = match rest.first() {
        Some(b'[') => rest.iter().position(|byte| *byte == b']')? + 1,
        _ => rest.iter().position(|byte| b":/?".contains(byte)).unwrap_or(rest.len()),
    };
    Some(&rest[..end]).filter(|host| !host.is_empty())
}

/// Whether `host` is in the list, or ends like one of its names that begin with an asterisk.
fn is_listed(host: &[u8], list: &[String]) -> bool {
    list.iter().any(|listed| match listed.strip_prefix('*') {
        Some(end) => host.ends_with(end.as_bytes()),
        None => host == listed.as_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn hosts_are_let_in_and_kept_out() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let white = json!({"whitelist": ["a.com", "*.b.com", "[::1]"]});
        let black = json!({"blacklist": ["a.com"], "bypass_missing": true});
        for (config, referer, status) in [
            (&white, "http://a.com", 0),
            (&white, "https://a.com:80/x?y", 0),
            (&white, "//x.b.com/", 0),
            (&white, "http://[::1]:8080/", 0),
            (&white, "http://b.com", 403),
            (&white, "http://x.a.com", 403),
            (&white, "a.com", 403),
            (&white, "http://[", 403),
            (&white, "http://", 403),
            (&black, "http://a.com/", 403),
            (&black, "http://b.com/", 0),
            (&black, "malformed", 0),
        ] {
            let chain = testkit::chain(&registry, &json!({"referer-restriction": config})).expect("valid");
            let bench = Bench::new(&format!("GET /\nReferer: {referer}"));
            assert_eq!(testkit::access(&chain, &mut bench.exchange()), status, "{config} {referer}");
        }
        for config in [json!({}), json!({"whitelist": []}), json!({"blacklist": ["a b"]})] {
            assert!(testkit::chain(&registry, &json!({"referer-restriction": config})).is_err(), "{config}");
        }
    }
}
