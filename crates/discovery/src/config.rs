//! `discovery` of the configuration file, in APISIX's keys.

use crate::names::parse_server;
use model::ConfigError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::net::SocketAddr;
use std::path::PathBuf;
use stdx::Secret;

/// What of service discovery is configured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    pub(crate) dns: Option<DnsConfig>,
    pub(crate) consul: Option<ConsulConfig>,
    /// The kinds that are named and that this build doesn't have.
    pub missing: Vec<String>,
}

/// By DNS.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DnsConfig {
    pub(crate) servers: DnsServers,
    pub(crate) order: Vec<Turn>,
}

/// Who is asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DnsServers {
    Listed(Vec<SocketAddr>),
    InFile(PathBuf),
}

/// What a name is asked for, in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Turn {
    /// What there was the last time.
    #[serde(rename = "last")]
    Last,
    #[serde(rename = "SRV")]
    Srv,
    #[serde(rename = "A")]
    A,
    #[serde(rename = "AAAA")]
    Aaaa,
    /// Followed wherever one is met, so there is nothing to ask for.
    #[serde(rename = "CNAME")]
    Cname,
}

/// By Consul.
#[derive(Clone, PartialEq, Deserialize)]
pub(crate) struct ConsulConfig {
    pub(crate) servers: Vec<String>,
    #[serde(default)]
    pub(crate) token: Secret,
    #[serde(default = "three")]
    pub(crate) fetch_interval: u64,
    #[serde(default = "yes")]
    pub(crate) keepalive: bool,
    #[serde(default = "one")]
    pub(crate) weight: u32,
    /// Whether the certificates of servers at `https://` are verified.
    #[serde(default = "yes")]
    pub(crate) ssl_verify: bool,
    #[serde(default)]
    pub(crate) timeout: ConsulTimeouts,
    #[serde(default)]
    pub(crate) sort_type: SortType,
    #[serde(default)]
    pub(crate) skip_services: Vec<String>,
    pub(crate) dump: Option<Dump>,
    pub(crate) default_service: Option<DefaultService>,
    /// As written, for the control API.
    #[serde(skip)]
    pub(crate) written: Value,
}

impl std::fmt::Debug for ConsulConfig {
    /// Without what was written, which holds the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsulConfig").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// Milliseconds; `wait` is seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ConsulTimeouts {
    pub(crate) connect: u64,
    pub(crate) read: u64,
    pub(crate) wait: u64,
}

impl Default for ConsulTimeouts {
    fn default() -> Self {
        Self { connect: 2000, read: 2000, wait: 60 }
    }
}

/// How the nodes of a service are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SortType {
    #[default]
    Origin,
    HostSort,
    PortSort,
    CombineSort,
}

/// The file in which the last state is kept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Dump {
    pub(crate) path: PathBuf,
    #[serde(default = "yes")]
    pub(crate) load_on_init: bool,
    /// Seconds for which it is good; 0: for ever.
    #[serde(default)]
    pub(crate) expire: u64,
}

/// The node of services that aren't known.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct DefaultService {
    pub(crate) host: String,
    pub(crate) port: u16,
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

fn three() -> u64 {
    3
}

#[derive(Deserialize)]
struct DnsWritten {
    servers: Option<Vec<String>>,
    resolv_conf: Option<PathBuf>,
    #[serde(default = "usual_order")]
    order: Vec<Turn>,
}

fn usual_order() -> Vec<Turn> {
    vec![Turn::Last, Turn::Srv, Turn::A, Turn::Aaaa, Turn::Cname]
}

impl Config {
    /// Reads `discovery` as written.
    ///
    /// # Errors
    /// Every mistake, with its path below `discovery`.
    pub fn read(written: &Map<String, Value>) -> Result<Self, Vec<ConfigError>> {
        let (mut config, mut errors) = (Self::default(), Vec::new());
        for (kind, value) in written {
            let result = match kind.as_str() {
                "dns" => DnsConfig::read(value).map(|dns| config.dns = Some(dns)),
                "consul" => ConsulConfig::read(value).map(|consul| config.consul = Some(consul)),
                _ => {
                    config.missing.push(kind.clone());
                    Ok(())
                }
            };
            errors.extend(result.err().map(|error| error.under(&format!("/{kind}"))));
        }
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }

    /// Whether nothing has to be started.
    pub(crate) fn is_empty(&self) -> bool {
        self.dns.is_none() && self.consul.is_none()
    }
}

impl DnsConfig {
    fn read(value: &Value) -> Result<Self, ConfigError> {
        let written: DnsWritten = typed(value)?;
        let servers = match (written.servers, written.resolv_conf) {
            (Some(servers), None) if !servers.is_empty() => {
                let server = |text: &String| {
                    parse_server(text).ok_or_else(|| {
                        ConfigError::new("/servers", format!("\"{text}\" is no address, nor one with a port"))
                    })
                };
                DnsServers::Listed(servers.iter().map(server).collect::<Result<_, _>>()?)
            }
            (None, Some(file)) => DnsServers::InFile(file),
            _ => return Err(ConfigError::new("", "needs one of `servers` and `resolv_conf`")),
        };
        Ok(Self { servers, order: written.order })
    }
}

impl ConsulConfig {
    fn read(value: &Value) -> Result<Self, ConfigError> {
        let config: Self = typed(value)?;
        if config.servers.is_empty() {
            return Err(ConfigError::new("/servers", "names nobody to ask"));
        }
        for server in &config.servers {
            // As APISIX wants it: no path, no slash at the end; TLS is spoken besides.
            let authority = server.strip_prefix("http://").or_else(|| server.strip_prefix("https://"));
            if authority.is_none_or(|rest| rest.is_empty() || rest.contains('/')) {
                let message =
                    format!("\"{server}\" is not of the form http://address:port or https://address:port");
                return Err(ConfigError::new("/servers", message));
            }
        }
        let timeout = config.timeout;
        if [config.fetch_interval, timeout.connect, timeout.read, timeout.wait].contains(&0) {
            return Err(ConfigError::new("", "`fetch_interval` and `timeout` are times greater than 0"));
        }
        Ok(Self { written: value.clone(), ..config })
    }
}

fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, ConfigError> {
    serde_json::from_value(value.clone()).map_err(|error| ConfigError::new("", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(written: Value) -> Result<Config, String> {
        let Value::Object(written) = written else { panic!("an object") };
        Config::read(&written).map_err(|errors| errors[0].to_string())
    }

    #[test]
    fn what_apisix_documents_is_read() {
        let config = read(json!({
            "dns": { "servers": ["127.0.0.1:8600"], "order": ["last", "SRV", "A", "AAAA", "CNAME"] },
            "consul": { "servers": ["http://127.0.0.1:8500"], "default_service": { "host": "127.0.0.1", "port": 20999,
                "metadata": { "weight": 1 } }, "dump": { "path": "logs/consul.dump", "expire": 2592000 } },
            "nacos": { "host": ["http://127.0.0.1:8848"] },
        }))
        .expect("valid");
        assert_eq!(config.dns.expect("read").order, usual_order());
        let consul = config.consul.expect("read");
        assert_eq!((consul.weight, consul.keepalive, consul.timeout.wait), (1, true, 60));
        let token =
            read(json!({ "consul": { "servers": ["https://a"], "token": "s3cret" } })).expect("valid");
        assert!(!format!("{token:?}").contains("s3cret"), "{token:?}");
        assert!(consul.dump.is_some_and(|dump| dump.load_on_init));
        assert_eq!(config.missing, ["nacos"]);
    }

    #[test]
    fn mistakes_are_named_by_their_place() {
        for (written, place) in [
            (json!({ "dns": {} }), "/dns"),
            (json!({ "dns": { "servers": [] } }), "/dns"),
            (json!({ "dns": { "servers": ["a.example"] } }), "/dns/servers"),
            (json!({ "dns": { "servers": ["::1"], "resolv_conf": "f" } }), "/dns"),
            (json!({ "dns": { "servers": ["::1"], "order": ["MX"] } }), "/dns"),
            (json!({ "consul": {} }), "/consul"),
            (json!({ "consul": { "servers": ["ftp://127.0.0.1:8500"] } }), "/consul/servers"),
            (json!({ "consul": { "servers": ["https://127.0.0.1:8500/"] } }), "/consul/servers"),
            (json!({ "consul": { "servers": ["http://127.0.0.1:8500/"] } }), "/consul/servers"),
            (json!({ "consul": { "servers": ["http://a"], "sort_type": "x" } }), "/consul"),
            (json!({ "consul": { "servers": ["http://a"], "timeout": { "wait": 0 } } }), "/consul"),
        ] {
            let error = read(written.clone()).expect_err("a mistake");
            assert!(error.contains(place), "{written}: {error}");
        }
    }
}
