//! `checks` of an upstream: how its nodes' health is found out. Defaults and ranges are the schema's, those of objects
//! that are left out as well.

use serde::Deserialize;

/// How the health of an upstream's nodes is found out.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Checks {
    /// By probes.
    pub active: Option<ActiveChecks>,
    /// By what becomes of the clients' requests.
    pub passive: Option<PassiveChecks>,
}

/// Probes sent to the nodes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct ActiveChecks {
    /// What a probe is.
    #[serde(rename = "type")]
    pub protocol: CheckProtocol,
    /// Seconds that one may take.
    pub timeout: f64,
    /// Probes of one upstream that may be under way at once.
    pub concurrency: i64,
    /// The `Host` asked for, and the name expected in the certificate; by node where absent.
    pub host: Option<String>,
    /// The port probed; the node's own where absent.
    pub port: Option<u16>,
    /// The request's method.
    pub http_method: String,
    /// The request's path.
    pub http_path: String,
    /// The request's body.
    pub http_req_body: String,
    /// Further fields of the request, each as `Name: value`.
    pub req_headers: Vec<String>,
    /// Whether a node's certificate has to be valid.
    pub https_verify_certificate: bool,
    /// Probes of nodes that are healthy, and what makes a node so.
    pub healthy: ActiveHealthy,
    /// Probes of nodes that are not, and what makes a node so.
    pub unhealthy: ActiveUnhealthy,
}

/// What a probe is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckProtocol {
    /// A request, and the status of its answer.
    #[default]
    Http,
    /// The same over TLS.
    Https,
    /// A connection.
    Tcp,
}

/// Probes of healthy nodes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct ActiveHealthy {
    /// Seconds between two probes; 0: none.
    pub interval: u32,
    /// Statuses of a good answer.
    pub http_statuses: Vec<u16>,
    /// Good answers in a row that make a node healthy; up to 254.
    pub successes: u8,
}

/// Probes of unhealthy nodes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct ActiveUnhealthy {
    /// Seconds between two probes; 0: none.
    pub interval: u32,
    /// Statuses of a bad answer.
    pub http_statuses: Vec<u16>,
    /// Bad answers that make a node unhealthy; up to 254.
    pub http_failures: u8,
    /// Connections that failed which make it so; up to 254.
    pub tcp_failures: u8,
    /// Timeouts that make it so; up to 254.
    pub timeouts: u8,
}

/// What is concluded from the clients' requests.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct PassiveChecks {
    /// What is looked at: with `tcp` no status is.
    #[serde(rename = "type")]
    pub protocol: CheckProtocol,
    /// What makes a node healthy.
    pub healthy: PassiveHealthy,
    /// What makes it unhealthy.
    pub unhealthy: PassiveUnhealthy,
}

/// What of the clients' requests makes a node healthy.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct PassiveHealthy {
    /// Statuses of a good answer.
    pub http_statuses: Vec<u16>,
    /// Good answers in a row; 0: they are not counted.
    pub successes: u8,
}

/// What of the clients' requests makes a node unhealthy.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct PassiveUnhealthy {
    /// Statuses of a bad answer.
    pub http_statuses: Vec<u16>,
    /// Bad answers; 0: they are not counted.
    pub http_failures: u8,
    /// Connections that failed; 0: they are not counted.
    pub tcp_failures: u8,
    /// Timeouts; 0: they are not counted.
    pub timeouts: u8,
}

impl Default for ActiveChecks {
    fn default() -> Self {
        Self {
            protocol: CheckProtocol::Http,
            timeout: 1.0,
            concurrency: 10,
            host: None,
            port: None,
            http_method: "GET".to_owned(),
            http_path: "/".to_owned(),
            http_req_body: String::new(),
            req_headers: Vec::new(),
            https_verify_certificate: true,
            healthy: ActiveHealthy::default(),
            unhealthy: ActiveUnhealthy::default(),
        }
    }
}

impl Default for ActiveHealthy {
    fn default() -> Self {
        Self { interval: 1, http_statuses: vec![200, 302], successes: 2 }
    }
}

impl Default for ActiveUnhealthy {
    fn default() -> Self {
        let http_statuses = vec![429, 404, 500, 501, 502, 503, 504, 505];
        Self { interval: 1, http_statuses, http_failures: 5, tcp_failures: 2, timeouts: 3 }
    }
}

impl Default for PassiveHealthy {
    fn default() -> Self {
        let http_statuses = (200..=208).chain([226]).chain(300..=308).collect();
        Self { http_statuses, successes: 5 }
    }
}

impl Default for PassiveUnhealthy {
    fn default() -> Self {
        Self { http_statuses: vec![429, 500, 503], http_failures: 5, tcp_failures: 2, timeouts: 7 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::schema::validator;
    use serde_json::json;

    /// What the schema fills in, and what is read where it filled in nothing, are the same.
    #[test]
    fn defaults_are_the_schemas() {
        let part = || json!({ "healthy": {}, "unhealthy": {} });
        let mut value = json!({ "nodes": {}, "checks": { "active": part(), "passive": part() } });
        validator(Kind::Upstream).apply_defaults(&mut value);
        let filled: Checks = serde_json::from_value(value["checks"].clone()).expect("readable");
        let expected =
            Checks { active: Some(ActiveChecks::default()), passive: Some(PassiveChecks::default()) };
        assert_eq!(filled, expected);
        let bare: Checks = serde_json::from_value(json!({ "active": {}, "passive": {} })).expect("readable");
        assert_eq!(bare, expected);
    }
}
