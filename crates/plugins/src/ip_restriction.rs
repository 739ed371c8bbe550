//! Allows or denies requests and stream sessions by the client's address.
//!
//! ## When to use
//! Use it to restrict access to an office network or to certain machines, or to block an abusive address. On stream
//! routes, the connection of a denied client is closed.
//!
//! ## Example
//! ```json
//! {
//!     "ip-restriction": {
//!         "whitelist": ["127.0.0.1", "10.0.0.0/8", "2001:db8::/32"]
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! None.

use ipnet::IpNet;
use model::ConfigError;
use plugin::{
    CompileContext, Exchange, Flow, OnAccess, OnPreread, Plugin, PluginDef, Reply, Session, StreamFlow,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::IpAddr;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<IpRestriction>("ip-restriction", 3000).on_access().on_preread().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    message: String,
    response_code: u16,
    whitelist: Option<Vec<String>>,
    blacklist: Option<Vec<String>>,
}

/// The compiled form.
pub struct IpRestriction {
    networks: Vec<IpNet>,
    /// Whether `networks` are those let in; else they are those kept out.
    admits: bool,
    message: String,
    response_code: u16,
}

impl Plugin for IpRestriction {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let (written, path, admits) = match (config.whitelist, config.blacklist) {
            (Some(whitelist), _) => (whitelist, "/whitelist", true),
            (None, blacklist) => (blacklist.unwrap_or_default(), "/blacklist", false),
        };
        let network = |(at, text): (usize, &String)| {
            let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            network
                .map_err(|_| ConfigError::new(format!("{path}/{at}"), format!("invalid ip address: {text}")))
        };
        let networks: Result<_, _> = written.iter().enumerate().map(network).collect();
        let networks = networks.map_err(|error| vec![error])?;
        Ok(Self { networks, admits, message: config.message, response_code: config.response_code })
    }

    fn schema() -> Value {
        let list = json!({
            "type": "array",
            "items": {"anyOf": [{"title": "IPv4", "type": "string"}, {"title": "IPv6", "type": "string"}]},
            "minItems": 1
        });
        json!({
            "type": "object",
            "properties": {
                "message": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "default": "Your IP address is not allowed"
                },
                "response_code": {"type": "integer", "minimum": 403, "maximum": 404, "default": 403},
                "whitelist": list,
                "blacklist": list
            },
            "oneOf": [{"required": ["whitelist"]}, {"required": ["blacklist"]}]
        })
    }
}

impl OnAccess for IpRestriction {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        if self.lets_in(exchange.client.ip()) {
            return Flow::Next;
        }
        Flow::reply(Reply::message(self.response_code, &self.message))
    }
}

impl OnPreread for IpRestriction {
    fn preread(&self, session: &mut Session<'_>, _: &[u8]) -> StreamFlow {
        if self.lets_in(session.client.ip()) {
            StreamFlow::Next
        } else {
            StreamFlow::Refuse(self.response_code)
        }
    }
}

impl IpRestriction {
    fn lets_in(&self, ip: IpAddr) -> bool {
        let listed = self.networks.iter().any(|network| network.contains(&ip));
        listed == self.admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn addresses_are_let_in_and_kept_out() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        for (config, ip, status) in [
            (json!({"whitelist": ["127.0.0.0/24", "113.74.26.106"]}), "127.0.0.9", 0),
            (json!({"whitelist": ["127.0.0.0/24", "113.74.26.106"]}), "113.74.26.106", 0),
            (json!({"whitelist": ["127.0.0.0/24"], "response_code": 404}), "10.0.0.1", 404),
            (json!({"blacklist": ["::1", "fe80::/32"]}), "fe80::1", 403),
            (json!({"blacklist": ["::1", "fe80::/32"]}), "::2", 0),
        ] {
            let chain = testkit::chain(&registry, &json!({"ip-restriction": config})).expect("valid");
            let bench = Bench::new("GET /").from_ip(ip);
            assert_eq!(testkit::access(&chain, &mut bench.exchange()), status, "{config} {ip}");
        }
        for config in [json!({"whitelist": ["10.255.256.0/24"]}), json!({"blacklist": ["::1/129"]})] {
            assert!(testkit::chain(&registry, &json!({"ip-restriction": config})).is_err(), "{config}");
        }
        assert!(testkit::chain(&registry, &json!({"ip-restriction": {}})).is_err());
    }
}
