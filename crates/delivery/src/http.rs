//! A collector that is sent batches by POST.

use crate::limits::ANSWER_BYTES_MAX;
use crate::{Destination, Framing};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};
use stdx::Secret;
use ureq::{Agent, Body, http};

/// An HTTP server, or several of which each takes any batch.
#[derive(Debug)]
pub struct HttpCollector {
    uris: Vec<String>,
    /// Which of them is next.
    next: AtomicUsize,
    headers: Vec<(String, Secret)>,
    timeout: Duration,
    verify: bool,
    framing: Framing,
    failure_from: u16,
    /// Statuses after which a batch is not tried again.
    hopeless: &'static [u16],
    /// Made with the first batch.
    agent: OnceLock<Agent>,
}

impl HttpCollector {
    /// The server at each of `uris`, which take turns. `timeout` is for connecting, sending and the answer together; with
    /// `verify` a server's certificate has to be one that this machine trusts. A batch is sent as lines, and a status
    /// from 400 is a failure.
    #[must_use]
    pub fn new(uris: Vec<String>, timeout: Duration, verify: bool) -> Self {
        let (headers, framing, failure_from) = (Vec::new(), Framing::Lines, 400);
        let (next, agent) = (AtomicUsize::new(0), OnceLock::new());
        Self { uris, next, headers, timeout, verify, framing, failure_from, hopeless: &[], agent }
    }

    /// With a field in each request.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// With batches written in this form.
    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// With this as the first status that is a failure.
    #[must_use]
    pub fn failure_from(mut self, status: u16) -> Self {
        self.failure_from = status;
        self
    }

    /// With statuses after which a batch is dropped, and that is logged: another try would end alike.
    #[must_use]
    pub fn hopeless(mut self, statuses: &'static [u16]) -> Self {
        self.hopeless = statuses;
        self
    }

    /// Sends `body` to the next of the servers.
    ///
    /// # Errors
    /// Why it didn't take it.
    pub fn post(&self, body: &[u8]) -> Result<(), String> {
        self.post_with(&[], body)
    }

    /// The same with further fields.
    ///
    /// # Errors
    /// Why it didn't take it.
    pub fn post_with(&self, headers: &[(&str, &str)], body: &[u8]) -> Result<(), String> {
        let uri = self.next();
        let mut request = self.with_headers(self.agent().post(uri));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.checked(uri, request.send(body)).map(drop)
    }

    /// Asks one of the servers for the resource at its address.
    ///
    /// # Errors
    /// Why there is none.
    pub fn get(&self, path: &str) -> Result<String, String> {
        let uri = format!("{}{path}", self.next());
        let request = self.with_headers(self.agent().get(&uri));
        self.checked(&uri, request.call())
    }

    fn next(&self) -> &str {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.uris.get(next % self.uris.len().max(1)).map_or("", String::as_str)
    }

    fn agent(&self) -> &Agent {
        self.agent.get_or_init(|| agent(self.verify, self.timeout))
    }

    fn with_headers<B>(&self, mut request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        for (name, value) in &self.headers {
            request = request.header(name, value.as_str());
        }
        request
    }

    /// The body of an answer whose status is none of a failure.
    fn checked(
        &self,
        uri: &str,
        answer: Result<http::Response<Body>, ureq::Error>,
    ) -> Result<String, String> {
        let mut answer = answer.map_err(|error| format!("{uri}: {error}"))?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).lossy_utf8(true).read_to_string();
        let body = body.unwrap_or_default();
        if self.hopeless.contains(&status) {
            tracing::error!("{uri} answered {status}: {body}; the batch is dropped");
            return Ok(body);
        }
        if status < self.failure_from { Ok(body) } else { Err(format!("{uri} answered {status}: {body}")) }
    }
}

impl Destination for HttpCollector {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        self.post(&self.framing.join(entries))
    }
}

/// The time in seconds since 1970, for requests that say when they were signed.
#[must_use]
pub fn unix_time_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
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
