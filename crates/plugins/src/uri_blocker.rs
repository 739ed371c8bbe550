//! Rejects requests whose path and query match a regular expression.
//!
//! ## When to use
//! Use it against scanners and known attacks, such as requests for `/wp-admin` or `root.exe`.
//!
//! ## Example
//! ```json
//! {
//!     "uri-blocker": {
//!         "block_rules": ["root.exe", "\\.php$"],
//!         "rejected_code": 404
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - `rejected_code` must be below 1000.

use crate::status::status;
use crate::text;
use model::ConfigError;
use pcre2::bytes::Regex;
use plugin::{CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<UriBlocker>("uri-blocker", 2900).on_rewrite().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    block_rules: Vec<String>,
    rejected_code: u64,
    rejected_msg: Option<String>,
    case_insensitive: bool,
}

/// The compiled form.
pub struct UriBlocker {
    rules: Vec<Regex>,
    rejected_code: u16,
    rejected_msg: Option<String>,
}

impl Plugin for UriBlocker {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let rule = |(at, rule): (usize, &String)| {
            text::regex(rule, config.case_insensitive, &format!("/block_rules/{at}"))
        };
        let rules: Result<_, _> = config.block_rules.iter().enumerate().map(rule).collect();
        Ok(Self {
            rules: rules.map_err(|error| vec![error])?,
            rejected_code: status(config.rejected_code, "/rejected_code")?,
            rejected_msg: config.rejected_msg,
        })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "block_rules": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": 4096},
                    "uniqueItems": true
                },
                "rejected_code": {"type": "integer", "minimum": 200, "default": 403},
                "rejected_msg": {"type": "string", "minLength": 1},
                "case_insensitive": {"type": "boolean", "default": false}
            },
            "required": ["block_rules"]
        })
    }
}

impl OnRewrite for UriBlocker {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let request = &exchange.request;
        let mut uri = request.path.to_vec();
        if !request.query().is_empty() {
            uri.push(b'?');
            uri.extend_from_slice(request.query());
        }
        // What takes too long to match is blocked: it was made to.
        if !self.rules.iter().any(|rule| rule.is_match(&uri).unwrap_or(true)) {
            return Flow::Next;
        }
        Flow::reply(match &self.rejected_msg {
            Some(message) => Reply::error(self.rejected_code, message),
            None => Reply::status(self.rejected_code),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn matching_requests_are_blocked() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        for (config, request, status) in [
            (json!({"block_rules": ["aa"]}), "GET /x?name=aa", 403),
            (json!({"block_rules": ["^aa"]}), "GET /aa", 0),
            (json!({"block_rules": ["b", "aa"], "rejected_code": 404}), "GET /aa", 404),
            (json!({"block_rules": ["AA"]}), "GET /aa", 0),
            (json!({"block_rules": ["AA"], "case_insensitive": true}), "GET /aa", 403),
            (json!({"block_rules": []}), "GET /aa", 0),
        ] {
            let chain = testkit::chain(&registry, &json!({"uri-blocker": config})).expect("valid");
            assert_eq!(testkit::access(&chain, &mut Bench::new(request).exchange()), status, "{config}");
        }
        for (config, path) in [
            (json!({"block_rules": ["("]}), "/uri-blocker/block_rules/0"),
            (json!({"block_rules": ["a"], "rejected_code": 1000}), "/uri-blocker/rejected_code"),
            (json!({"block_rules": ["a"], "rejected_code": 70_000}), "/uri-blocker/rejected_code"),
        ] {
            let errors = testkit::chain(&registry, &json!({"uri-blocker": config})).expect_err("refused");
            assert_eq!(errors[0].path, path);
        }
    }
}
