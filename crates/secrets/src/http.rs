//! The HTTP client that managers are asked with: blocking, for the threads that do nothing else.

use crate::limits::{ANSWER_BYTES_MAX, CALL_TIME_MAX};
use std::sync::OnceLock;
use ureq::Agent;

/// An HTTP client. Connections are kept between calls.
#[derive(Debug, Default)]
pub(crate) struct Client {
    verifying: OnceLock<Agent>,
    trusting: OnceLock<Agent>,
}

/// A request.
#[derive(Default)]
pub(crate) struct Call<'a> {
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// POST with this body; GET without one.
    pub(crate) body: Option<&'a str>,
    /// Whether any certificate is taken.
    pub(crate) trust_anyone: bool,
}

impl std::fmt::Debug for Call<'_> {
    /// Without the values of headers and without the body, which hold credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| *name).collect();
        f.debug_struct("Call").field("url", &self.url).field("headers", &names).finish_non_exhaustive()
    }
}

/// A response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl std::fmt::Debug for Answer {
    /// Without the body, which holds secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Client {
    /// Sends a request and reads the response, whatever its status.
    ///
    /// # Errors
    /// When there is no response: its reason, without the request's secrets.
    pub(crate) fn send(&self, call: &Call<'_>) -> Result<Answer, String> {
        let slot = if call.trust_anyone { &self.trusting } else { &self.verifying };
        let agent = slot.get_or_init(|| agent(call.trust_anyone));
        let mut request = ureq::http::Request::builder().uri(call.url);
        for (name, value) in call.headers {
            request = request.header(*name, *value);
        }
        let response = match call.body {
            Some(body) => {
                request.method("POST").body(body).map_err(text).and_then(|r| agent.run(r).map_err(text))
            }
            None => request.method("GET").body(()).map_err(text).and_then(|r| agent.run(r).map_err(text)),
        };
        let mut response = response?;
        let body =
            response.body_mut().with_config().limit(ANSWER_BYTES_MAX).lossy_utf8(true).read_to_string();
        Ok(Answer { status: response.status().as_u16(), body: body.map_err(text)? })
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn agent(trust_anyone: bool) -> Agent {
    let config = Agent::config_builder()
        .timeout_global(Some(CALL_TIME_MAX))
        .http_status_as_error(false)
        // A redirect would carry tokens to another host: ureq leaves out `Authorization` and `Cookie` alone.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls::for_calls(!trust_anyone));
    config.build().into()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_sent_and_answered_is_not_shown() {
        let call = Call { headers: &[("X-Vault-Token", "s3cret")], body: Some("s3cret"), ..Call::default() };
        let answer = Answer { status: 200, body: "s3cret".to_owned() };
        let shown = format!("{call:?} {answer:?}");
        assert!(shown.contains("X-Vault-Token") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn a_redirect_is_not_followed_with_the_token() {
        let (first, second) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let (url, elsewhere) = (first.local_addr().unwrap(), second.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let mut stream = first.accept().unwrap().0;
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).unwrap();
            let reply =
                format!("HTTP/1.1 307 X\r\nLocation: http://{elsewhere}/\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(reply.as_bytes()).unwrap();
        });
        second.set_nonblocking(true).unwrap();
        let headers = [("X-Vault-Token", "s.secret"), ("X-Amz-Security-Token", "secret")];
        let url = format!("http://{url}/v1/kv");
        let call = Call { url: &url, headers: &headers, ..Call::default() };
        assert_eq!(Client::default().send(&call).map(|answer| answer.status), Ok(307));
        server.join().unwrap();
        assert!(second.accept().is_err(), "nobody called the other host");
    }
}
