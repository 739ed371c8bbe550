//! A collector that is sent batches by POST.

use crate::limits::ANSWER_BYTES_MAX;
use crate::{Destination, Framing};
use std::sync::OnceLock;
use std::time::Duration;
use stdx::Secret;
use ureq::Agent;

/// An HTTP server.
#[derive(Debug)]
pub struct HttpCollector {
    /// Where to.
    pub uri: String,
    /// Fields of each request.
    pub headers: Vec<(&'static str, Secret)>,
    /// For connecting, sending and the answer together.
    pub timeout: Duration,
    /// Whether its certificate has to be one that this machine trusts.
    pub verify: bool,
    /// How a batch is written.
    pub framing: Framing,
    /// Made with the first batch.
    pub agent: OnceLock<Agent>,
}

impl Destination for HttpCollector {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        let agent = self.agent.get_or_init(|| agent(self.verify, self.timeout));
        let mut request = agent.post(&self.uri);
        for (name, value) in &self.headers {
            request = request.header(*name, value.as_str());
        }
        let failed = |error: ureq::Error| format!("{}: {error}", self.uri);
        let mut answer = request.send(self.framing.join(entries)).map_err(failed)?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).lossy_utf8(true).read_to_string();
        if status < 400 {
            return Ok(());
        }
        Err(format!("{} answered {status}: {}", self.uri, body.unwrap_or_default()))
    }
}

fn agent(verify: bool, timeout: Duration) -> Agent {
    let config = Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls::for_calls(verify));
    config.build().into()
}
