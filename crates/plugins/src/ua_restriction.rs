//! Allows or denies requests by their `User-Agent` field.
//!
//! ## When to use
//! Use it against crawlers that identify themselves, or to allow only one program. Clients can forge the field.
//!
//! ## Example
//! ```json
//! {
//!     "ua-restriction": {
//!         "bypass_missing": true,
//!         "denylist": ["my-bot1", "(Baiduspider)/(\\d+)\\.(\\d+)"]
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - A regular expression that exceeds the backtracking limit counts as a match in `denylist`, and as no match in `allowlist`.

use crate::text;
use model::ConfigError;
use pcre2::bytes::Regex;
use plugin::{CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<UaRestriction>("ua-restriction", 2999).on_access().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    bypass_missing: bool,
    allowlist: Option<Vec<String>>,
    denylist: Option<Vec<String>>,
    message: String,
}

/// The compiled form.
pub struct UaRestriction {
    bypass_missing: bool,
    rules: Vec<Regex>,
    /// Whether `rules` are those let in; else they are those kept out.
    admits: bool,
    message: String,
}

impl Plugin for UaRestriction {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let (written, path, admits) = match (config.allowlist, config.denylist) {
            (Some(allowlist), _) => (allowlist, "/allowlist", true),
            (None, denylist) => (denylist.unwrap_or_default(), "/denylist", false),
        };
        let rule = |(at, rule): (usize, &String)| text::regex(rule, false, &format!("{path}/{at}"));
        let rules = written.iter().enumerate().map(rule).collect::<Result<_, _>>().map_err(|e| vec![e])?;
        Ok(Self { bypass_missing: config.bypass_missing, rules, admits, message: config.message })
    }

    fn schema() -> Value {
        let list = json!({"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}});
        json!({
            "type": "object",
            "properties": {
                "bypass_missing": {"type": "boolean", "default": false},
                "allowlist": list,
                "denylist": list,
                "message": {"type": "string", "minLength": 1, "maxLength": 1024, "default": "Not allowed"}
            },
            "oneOf": [{"required": ["allowlist"]}, {"required": ["denylist"]}]
        })
    }
}

impl OnAccess for UaRestriction {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let view = &exchange.request.view;
        let mut agents = view.headers(b"user-agent").map(<[u8]>::trim_ascii).peekable();
        // What can't be matched in time is kept out.
        let listed =
            |agent: &[u8]| self.rules.iter().any(|rule| rule.is_match(agent).unwrap_or(!self.admits));
        let admitted = match agents.peek() {
            None => self.bypass_missing,
            Some(_) => agents.any(listed) == self.admits,
        };
        if admitted { Flow::Next } else { Flow::reply(Reply::message(403, &self.message)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn agents_are_let_in_and_kept_out() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let (allow, deny) = (json!({"allowlist": ["^a/\\d+$", "b"]}), json!({"denylist": ["bot", "^evil$"]}));
        let bypass = json!({"denylist": ["bot"], "bypass_missing": true});
        for (config, request, status) in [
            (&allow, "GET /\nUser-Agent:  a/12 ", 0),
            (&allow, "GET /\nUser-Agent: a/x", 403),
            (&allow, "GET /\nUser-Agent: x\nUser-Agent: b", 0),
            (&allow, "GET /", 403),
            (&deny, "GET /\nUser-Agent: my-bot", 403),
            (&deny, "GET /\nUser-Agent: fine\nUser-Agent: evil", 403),
            (&deny, "GET /\nUser-Agent: fine", 0),
            (&deny, "GET /", 403),
            (&bypass, "GET /", 0),
        ] {
            let chain = testkit::chain(&registry, &json!({"ua-restriction": config})).expect("valid");
            assert_eq!(
                testkit::access(&chain, &mut Bench::new(request).exchange()),
                status,
                "{config} {request}"
            );
        }
        for config in [json!({}), json!({"denylist": ["("]}), json!({"allowlist": ["a"], "denylist": ["b"]})]
        {
            assert!(testkit::chain(&registry, &json!({"ua-restriction": config})).is_err(), "{config}");
        }
    }
}
