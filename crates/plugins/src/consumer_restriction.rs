//! Allows or denies consumers, consumer groups, routes or services, optionally by method.
//!
//! ## When to use
//! Use it together with an authentication plugin when not every authenticated consumer may do everything.
//!
//! ## Example
//! Joe may only read, Jane has no access, and everybody else may use every method:
//! ```json
//! {
//!     "consumer-restriction": {
//!         "blacklist": ["jane"],
//!         "allowed_by_methods": [{"user": "joe", "methods": ["GET", "HEAD"]}]
//!     }
//! }
//! ```
//! With a `whitelist`, only its members have access, whatever `allowed_by_methods` says, and they may use every method.
//!
//! ## Differences from APISIX
//! - `rejected_code` must be below 1000.

use crate::status::status;
use model::ConfigError;
use plugin::{CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ConsumerRestriction>("consumer-restriction", 2400).on_access().build()
}

/// The configuration, and the compiled form: lists are short.
#[derive(Debug, Deserialize)]
pub struct ConsumerRestriction {
    #[serde(rename = "type")]
    by: By,
    #[serde(default)]
    blacklist: Vec<String>,
    #[serde(default)]
    whitelist: Vec<String>,
    #[serde(default)]
    allowed_by_methods: Vec<Allowed>,
    rejected_code: u16,
    rejected_msg: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Allowed {
    #[serde(default)]
    user: String,
    #[serde(default)]
    methods: Vec<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum By {
    ConsumerName,
    ServiceId,
    RouteId,
    ConsumerGroupId,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::ConsumerName => "consumer_name",
            Self::ServiceId => "service_id",
            Self::RouteId => "route_id",
            Self::ConsumerGroupId => "consumer_group_id",
        }
    }

    /// The name that the lists speak of; `None` where the request has none.
    fn of<'x>(self, exchange: &'x Exchange<'_>) -> Option<&'x str> {
        let name = match self {
            Self::ConsumerName => &exchange.consumer?.name,
            Self::ConsumerGroupId => &exchange.consumer?.group_id,
            Self::ServiceId => &exchange.route?.service_id,
            Self::RouteId => &exchange.route?.id,
        };
        (!name.is_empty()).then_some(name)
    }
}

impl Plugin for ConsumerRestriction {
    type Config = Self;

    fn compile(config: Self, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        status(u64::from(config.rejected_code), "/rejected_code")?;
        Ok(config)
    }

    fn schema() -> Value {
        let methods =
            ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];
        json!({
            "type": "object",
            "properties": {
                "type": {
                    "type": "string",
                    "enum": ["consumer_name", "service_id", "route_id", "consumer_group_id"],
                    "default": "consumer_name"
                },
                "blacklist": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                "whitelist": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                "allowed_by_methods": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "user": {"type": "string"},
                            "methods": {
                                "type": "array",
                                "minItems": 1,
                                "items": {
                                    "description": "HTTP method",
                                    "type": "string",
                                    "enum": methods
                                }
                            }
                        }
                    }
                },
                "rejected_code": {"type": "integer", "minimum": 200, "default": 403},
                "rejected_msg": {"type": "string"}
            },
            "anyOf": [
                {"required": ["blacklist"]},
                {"required": ["whitelist"]},
                {"required": ["allowed_by_methods"]}
            ]
        })
    }
}

impl OnAccess for ConsumerRestriction {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let kind = self.by.name();
        let Some(name) = self.by.of(exchange) else {
            let message = format!("The request is rejected, please check the {kind} for this request");
            return Flow::reply(Reply::message(401, &message));
        };
        if self.admits(name, exchange.request.method()) {
            return Flow::Next;
        }
        Flow::reply(match &self.rejected_msg {
            Some(message) => Reply::message(self.rejected_code, message),
            None => Reply::message(self.rejected_code, &format!("The {kind} is forbidden.")),
        })
    }
}

impl ConsumerRestriction {
    fn admits(&self, name: &str, method: &[u8]) -> bool {
        let is = |other: &String| other == name;
        if self.blacklist.iter().any(is) {
            return false;
        }
        if self.whitelist.iter().any(is) {
            return true;
        }
        let own = self.allowed_by_methods.iter().find(|allowed| allowed.user == name);
        let by_method =
            own.is_none_or(|allowed| allowed.methods.iter().any(|other| other.as_bytes() == method));
        self.whitelist.is_empty() && by_method
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{ConsumerInfo, Registry};

    #[test]
    fn lists_and_methods_decide() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let reads = json!([{"user": "joe", "methods": ["GET"]}]);
        for (config, name, method, status) in [
            (json!({"whitelist": ["jack"]}), "jack", "GET", 0),
            (json!({"whitelist": ["jack"]}), "joe", "GET", 403),
            (json!({"blacklist": ["jack"], "rejected_code": 429}), "jack", "GET", 429),
            (json!({"blacklist": ["jack"]}), "joe", "GET", 0),
            (json!({"blacklist": ["jack"], "whitelist": ["jack"]}), "jack", "GET", 403),
            (json!({"allowed_by_methods": reads}), "joe", "GET", 0),
            (json!({"allowed_by_methods": reads}), "joe", "POST", 403),
            (json!({"allowed_by_methods": reads}), "jack", "POST", 0),
            (json!({"allowed_by_methods": reads, "whitelist": ["joe"]}), "joe", "POST", 0),
            (json!({"allowed_by_methods": reads, "whitelist": ["jack"]}), "joe", "GET", 403),
            (json!({"whitelist": ["jack"]}), "", "GET", 401),
            (json!({"whitelist": ["1"], "type": "route_id"}), "", "GET", 0),
            (json!({"whitelist": ["1"], "type": "consumer_group_id"}), "jack", "GET", 401),
        ] {
            let chain = testkit::chain(&registry, &json!({"consumer-restriction": config})).expect("valid");
            let bench = Bench::new(&format!("{method} /"));
            let consumer = ConsumerInfo { name: name.to_owned(), ..ConsumerInfo::default() };
            let mut exchange = bench.exchange();
            exchange.consumer = (!name.is_empty()).then_some(&consumer);
            assert_eq!(testkit::access(&chain, &mut exchange), status, "{config} {name} {method}");
        }
    }
}
