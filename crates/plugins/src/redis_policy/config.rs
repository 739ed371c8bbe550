//! The policy that a configuration asks for, as a user writes it.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stdx::Secret;

/// Where counters are kept: `policy`, and the fields that belong to it. Fields of other policies are not looked at.
///
/// Flattened into the configurations that have it. `Local` where there is no `policy`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum PolicyConfig {
    #[default]
    Local,
    Redis(RedisConfig),
    RedisCluster(RedisClusterConfig),
    RedisSentinel(RedisSentinelConfig),
}

/// The names of the policies.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    #[default]
    Local,
    Redis,
    RedisCluster,
    RedisSentinel,
}

impl<'de> Deserialize<'de> for PolicyConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::<String, Value>::deserialize(deserializer)?;
        let policy = fields.get("policy").map(Policy::deserialize).transpose().map_err(D::Error::custom)?;
        let fields = Value::Object(fields);
        let read = match policy.unwrap_or_default() {
            Policy::Local => Ok(Self::Local),
            Policy::Redis => serde_json::from_value(fields).map(Self::Redis),
            Policy::RedisCluster => serde_json::from_value(fields).map(Self::RedisCluster),
            Policy::RedisSentinel => serde_json::from_value(fields).map(Self::RedisSentinel),
        };
        read.map_err(D::Error::custom)
    }
}

/// One server. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct RedisConfig {
    pub(super) redis_host: String,
    #[serde(default = "redis_port")]
    pub(super) redis_port: u64,
    pub(super) redis_username: Option<String>,
    #[serde(default)]
    pub(super) redis_password: Secret,
    #[serde(default)]
    pub(super) redis_database: u64,
    #[serde(default = "timeout_ms")]
    pub(super) redis_timeout: u64,
    #[serde(default)]
    pub(super) redis_ssl: bool,
    #[serde(default)]
    pub(super) redis_ssl_verify: bool,
    #[serde(default = "keepalive_timeout_ms")]
    pub(super) redis_keepalive_timeout: u64,
    #[serde(default = "key_ttl_s")]
    pub(super) key_ttl: i64,
}

/// A cluster. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub(crate) struct RedisClusterConfig {
    pub(super) redis_cluster_nodes: Vec<String>,
    pub(super) redis_cluster_name: String,
    #[serde(default)]
    pub(super) redis_password: Secret,
    #[serde(default = "timeout_ms")]
    pub(super) redis_timeout: u64,
    #[serde(default)]
    pub(super) redis_cluster_ssl: bool,
    #[serde(default)]
    pub(super) redis_cluster_ssl_verify: bool,
    #[serde(default = "keepalive_timeout_ms")]
    pub(super) redis_keepalive_timeout: u64,
    #[serde(default = "key_ttl_s")]
    pub(super) key_ttl: i64,
}

/// A master and its replicas that sentinels watch. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub(crate) struct RedisSentinelConfig {
    pub(super) redis_sentinels: Vec<SentinelAddress>,
    pub(super) redis_master_name: String,
    #[serde(default)]
    pub(super) redis_role: Role,
    #[serde(default = "timeout_ms")]
    pub(super) redis_connect_timeout: u64,
    #[serde(default = "timeout_ms")]
    pub(super) redis_read_timeout: u64,
    #[serde(default = "sentinel_keepalive_timeout_ms")]
    pub(super) redis_keepalive_timeout: u64,
    #[serde(default)]
    pub(super) redis_database: u64,
    pub(super) redis_username: Option<String>,
    #[serde(default)]
    pub(super) redis_password: Secret,
    pub(super) sentinel_username: Option<String>,
    #[serde(default)]
    pub(super) sentinel_password: Secret,
}

/// Where a sentinel is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub(crate) struct SentinelAddress {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Which of the servers that sentinels watch is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    #[default]
    Master,
    Slave,
}

fn redis_port() -> u64 {
    6379
}

fn timeout_ms() -> u64 {
    1000
}

fn keepalive_timeout_ms() -> u64 {
    10_000
}

fn sentinel_keepalive_timeout_ms() -> u64 {
    60_000
}

fn key_ttl_s() -> i64 {
    3600
}

impl PolicyConfig {
    /// Seconds after which a request that was counted counts no more, at least 1 (`key_ttl`).
    pub(crate) fn key_ttl_s(&self) -> u64 {
        let key_ttl = match self {
            Self::Redis(config) => config.key_ttl,
            Self::RedisCluster(config) => config.key_ttl,
            Self::Local | Self::RedisSentinel(_) => key_ttl_s(),
        };
        u64::try_from(key_ttl).unwrap_or(0).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Deserialize)]
    struct Outer {
        count: u64,
        #[serde(flatten)]
        policy: PolicyConfig,
    }

    fn read(config: Value) -> Result<Outer, serde_json::Error> {
        serde_json::from_value(config)
    }

    #[test]
    fn the_fields_of_the_policy_are_read_and_others_ignored() {
        let local = read(json!({"count": 1, "redis_port": "not looked at"})).expect("valid");
        assert_eq!((local.count, local.policy), (1, PolicyConfig::Local));
        let config = json!({"count": 1, "policy": "redis", "redis_host": "a", "redis_password": "pw"});
        let PolicyConfig::Redis(redis) = read(config).expect("valid").policy else { panic!("redis") };
        assert_eq!((redis.redis_port, redis.redis_timeout, redis.redis_database), (6379, 1000, 0));
        assert_eq!(&*redis.redis_password, "pw");
        assert!(!format!("{redis:?}").contains("pw"), "{redis:?}");
        let config = json!({
            "count": 1, "policy": "redis-sentinel", "redis_role": "slave", "redis_master_name": "m",
            "redis_sentinels": [{"host": "a", "port": 1}]
        });
        let PolicyConfig::RedisSentinel(sentinel) = read(config).expect("valid").policy else { panic!() };
        assert_eq!((sentinel.redis_role, sentinel.redis_keepalive_timeout), (Role::Slave, 60_000));
        assert!(read(json!({"count": 1, "policy": "redis"})).is_err(), "no host");
        assert!(read(json!({"count": 1, "policy": "disk"})).is_err());
    }

    #[test]
    fn a_counted_request_expires_after_a_second_at_the_earliest() {
        for (key_ttl, expected) in [(-5, 1), (0, 1), (7, 7)] {
            let config = json!({"count": 1, "policy": "redis", "redis_host": "a", "key_ttl": key_ttl});
            assert_eq!(read(config).expect("valid").policy.key_ttl_s(), expected);
        }
        assert_eq!(PolicyConfig::Local.key_ttl_s(), 3600);
    }
}
