//! The questions to a Consul server, over HTTP. The client blocks, on threads that do nothing else.

use crate::config::ConsulConfig;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use stdx::Secret;
use ureq::Agent;

/// The longest answer that is read: a catalog of 100,000 services with their tags is 10 MB.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Asks one server.
#[derive(Debug, Clone)]
pub(super) struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    server: String,
    token: Secret,
    wait_s: u64,
    agent: Agent,
    /// For answers that the server may put off.
    patient: Agent,
}

/// `X-Consul-Index`: grows with each change of what was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Index(u64);

impl Client {
    pub(super) fn new(server: &str, config: &ConsulConfig) -> Self {
        let (connect, read) =
            (Duration::from_millis(config.timeout.connect), Duration::from_millis(config.timeout.read));
        let agent = |read: Duration| {
            Agent::config_builder()
                .http_status_as_error(false)
                // A redirect would carry the token to another host.
                .max_redirects(0)
                .max_redirects_will_error(false)
                .tls_config(tls::for_calls(config.ssl_verify))
                .timeout_connect(Some(connect))
                .timeout_recv_response(Some(read))
                .timeout_recv_body(Some(read))
                .build()
                .into()
        };
        let wait = Duration::from_secs(config.timeout.wait);
        Self(Arc::new(Inner {
            server: server.to_owned(),
            token: config.token.clone(),
            wait_s: config.timeout.wait,
            agent: agent(read),
            // Consul adds up to a sixteenth, so that not all clients come back at once.
            patient: agent(read + wait + wait / 16),
        }))
    }

    pub(super) fn server(&self) -> &str {
        &self.0.server
    }

    /// What `path` (below `/v1/`, with its query) shows.
    pub(super) async fn get(&self, path: String) -> Result<Value, String> {
        let inner = Arc::clone(&self.0);
        let asked = move || {
            let mut response = inner.ask(&inner.agent, &path)?;
            let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
            let body = body.map_err(|error| format!("{path}: {error}"))?;
            serde_json::from_slice(&body).map_err(|error| format!("{path}: {error}"))
        };
        tokio::task::spawn_blocking(asked).await.map_err(|error| error.to_string())?
    }

    /// Waits until what `path` shows is newer than `index`, or the server has waited for long enough.
    pub(super) async fn poll(&self, path: &'static str, index: Index) -> Result<Index, String> {
        let inner = Arc::clone(&self.0);
        let asked = move || {
            let path = format!("{path}?index={}&wait={}s", index.0, inner.wait_s);
            let response = inner.ask(&inner.patient, &path)?;
            let index =
                response.headers().get("x-consul-index").and_then(|index| index.to_str().ok()?.parse().ok());
            index.map(Index).ok_or_else(|| format!("{path}: no X-Consul-Index"))
        };
        tokio::task::spawn_blocking(asked).await.map_err(|error| error.to_string())?
    }
}

impl Inner {
    fn ask(&self, agent: &Agent, path: &str) -> Result<ureq::http::Response<ureq::Body>, String> {
        let mut request = agent.get(format!("{}/v1/{path}", self.server));
        if !self.token.is_empty() {
            request = request.header("X-Consul-Token", self.token.as_str());
        }
        let response = request.call().map_err(|error| format!("{path}: {error}"))?;
        match response.status().as_u16() {
            200 => Ok(response),
            status => Err(format!("{path}: status {status}")),
        }
    }
}
