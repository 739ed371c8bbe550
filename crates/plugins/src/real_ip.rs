//! Takes the client's address from the request, as set by a proxy in front of the gateway.
//!
//! ## When to use
//! Use it behind a load balancer, so that limits, restrictions and logs use the client's address and not the load
//! balancer's. List the load balancer in `trusted_addresses`, because other peers can forge the address.
//!
//! ## Example
//! ```json
//! {
//!     "real-ip": {
//!         "source": "http_x_forwarded_for",
//!         "trusted_addresses": ["10.0.0.0/8"],
//!         "recursive": true
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - If the source has no port, `$remote_port` remains the connection's.
//! - Members of `X-Forwarded-For` may be surrounded by spaces.

use ipnet::IpNet;
use model::ConfigError;
use model::var::{Var, VarSource};
use plugin::{CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<RealIp>("real-ip", 23_000).on_rewrite().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    trusted_addresses: Option<Vec<String>>,
    source: String,
    recursive: bool,
}

/// The compiled form.
pub struct RealIp {
    /// Who is believed; `None`: everybody.
    trusted: Option<Vec<IpNet>>,
    source: Source,
}

enum Source {
    /// The last member of the last `X-Forwarded-For`; of recursive ones the last that is not trusted.
    Forwarded {
        recursive: bool,
    },
    Var(Var),
}

impl Plugin for RealIp {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let network = |(at, text): (usize, &String)| {
            text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).map_err(|_| {
                ConfigError::new(format!("/trusted_addresses/{at}"), format!("invalid ip address: {text}"))
            })
        };
        let trusted = config.trusted_addresses.map(|all| all.iter().enumerate().map(network).collect());
        let source = match &*config.source {
            "http_x_forwarded_for" => Source::Forwarded { recursive: config.recursive },
            name => Source::Var(Var::parse(name)),
        };
        Ok(Self { trusted: trusted.transpose().map_err(|error| vec![error])?, source })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "trusted_addresses": {
                    "type": "array",
                    "items": {"anyOf": [{"title": "IPv4", "type": "string"}, {"title": "IPv6", "type": "string"}]},
                    "minItems": 1
                },
                "source": {
                    "description": "The variable that says the address: `http_x_forwarded_for`, `arg_realip`.",
                    "type": "string",
                    "minLength": 1
                },
                "recursive": {"type": "boolean", "default": false}
            },
            "required": ["source"]
        })
    }
}

impl OnRewrite for RealIp {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        if self.trusted.is_some() && !self.trusts(exchange.client.ip()) {
            return Flow::Next;
        }
        let Some(said) = self.said(exchange) else {
            tracing::debug!("real-ip: the request says no address");
            return Flow::Next;
        };
        match std::str::from_utf8(&said).ok().and_then(address) {
            Some((ip, port)) => {
                let connected = exchange.client.ip_text.clone().into_bytes();
                exchange.vars.push(("realip_remote_addr".to_owned(), connected));
                exchange.client.restate(ip, port);
            }
            None => tracing::warn!("real-ip: bad address: {}", String::from_utf8_lossy(&said)),
        }
        Flow::Next
    }
}

impl RealIp {
    fn trusts(&self, ip: IpAddr) -> bool {
        self.trusted.iter().flatten().any(|network| network.contains(&ip))
    }

    /// The address that the request says, as it says it.
    fn said<'x>(&self, exchange: &'x Exchange<'_>) -> Option<Cow<'x, [u8]>> {
        let recursive = match &self.source {
            Source::Var(var) => return exchange.var(var),
            Source::Forwarded { recursive } => *recursive && self.trusted.is_some(),
        };
        let line = exchange.request.view.headers(b"x-forwarded-for").last()?;
        let mut members = line.rsplit(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let last = members.next()?;
        if !recursive {
            return Some(Cow::Borrowed(last));
        }
        let is_trusted = |member: &[u8]| {
            let ip = std::str::from_utf8(member).ok().and_then(address);
            ip.is_some_and(|(ip, _)| self.trusts(ip))
        };
        // Where all are trusted the first one is the client.
        let first = line.split(|byte| *byte == b',').next().unwrap_or(last).trim_ascii();
        let client = std::iter::once(last).chain(members).find(|member| !is_trusted(member));
        Some(Cow::Borrowed(client.unwrap_or(first)))
    }
}

/// An address, with a port where it has one; IPv6 with a port in brackets.
fn address(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return (address.port() != 0).then(|| (address.ip(), Some(address.port())));
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().map(|ip| (ip, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn addresses_come_from_the_request() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let arg = json!({"source": "arg_realip"});
        let trusting = json!({"source": "arg_realip", "trusted_addresses": ["192.168.1.0/24", "127.0.0.1"]});
        let wary = json!({"source": "arg_realip", "trusted_addresses": ["192.168.1.0/24"]});
        let last = json!({"source": "http_x_forwarded_for"});
        let recursive = json!({"source": "http_x_forwarded_for", "recursive": true, "trusted_addresses": ["10.0.0.0/8", "127.0.0.1"]});
        for (config, request, expected) in [
            (&arg, "GET /?realip=1.2.3.4", "1.2.3.4:40000"),
            (&arg, "GET /?realip=1.2.3.4:1080", "1.2.3.4:1080"),
            (&arg, "GET /?realip=1.2.3.4:0", "127.0.0.1:40000"),
            (&arg, "GET /?realip=1.2.3.4:65536", "127.0.0.1:40000"),
            (&arg, "GET /?realip=1.2.3", "127.0.0.1:40000"),
            (&arg, "GET /?realip=::1", "[::1]:40000"),
            (&arg, "GET /?realip=[::2]", "[::2]:40000"),
            (&arg, "GET /?realip=[::2]:1080", "[::2]:1080"),
            (&arg, "GET /", "127.0.0.1:40000"),
            (&trusting, "GET /?realip=1.2.3.4", "1.2.3.4:40000"),
            (&wary, "GET /?realip=1.2.3.4", "127.0.0.1:40000"),
            (&last, "GET /\nX-Forwarded-For: 1.1.1.1, 2.2.2.2", "2.2.2.2:40000"),
            (&last, "GET /\nX-Forwarded-For: 1.1.1.1\nX-Forwarded-For: 3.3.3.3", "3.3.3.3:40000"),
            (&recursive, "GET /\nX-Forwarded-For: 1.1.1.1, 2.2.2.2 ,10.0.0.1,10.0.0.2", "2.2.2.2:40000"),
            (&recursive, "GET /\nX-Forwarded-For: 10.0.0.1, 10.0.0.2", "10.0.0.1:40000"),
            (&recursive, "GET /\nX-Forwarded-For: 10.0.0.1", "10.0.0.1:40000"),
        ] {
            let chain = testkit::chain(&registry, &json!({"real-ip": config})).expect("valid");
            let bench = Bench::new(request);
            let mut exchange = bench.exchange();
            assert_eq!(testkit::access(&chain, &mut exchange), 0);
            assert_eq!(exchange.client.addr.to_string(), expected, "{config} {request}");
            let text = exchange.var(&Var::RemoteAddr).map(|text| String::from_utf8_lossy(&text).into_owned());
            assert_eq!(text, Some(exchange.client.addr.ip().to_string()));
            let was = exchange.var(&Var::parse("realip_remote_addr"));
            assert_eq!(was.is_some(), exchange.client.is_restated(), "{request}");
        }
        for config in [json!({}), json!({"source": "arg_a", "trusted_addresses": ["1.2.3"]})] {
            assert!(testkit::chain(&registry, &json!({"real-ip": config})).is_err(), "{config}");
        }
    }
}
