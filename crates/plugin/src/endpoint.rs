//! Servers that plugins' configurations name by URL.

use crate::services::{is_authority, is_target};
use crate::{CompileContext, UpstreamChoice, UpstreamCompiler};
use model::ConfigError;
use serde_json::json;
use std::time::Duration;

/// A server that a plugin's configuration names by URL, compiled.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The server as an upstream of one node.
    pub upstream: UpstreamChoice,
    /// `host[:port]` as written: the `Host` of requests to it.
    pub authority: String,
    /// The URL's path and query; `/` where it has none.
    pub target: String,
}

/// Requests that one connection to an endpoint carries: the default of `keepalive_pool.requests`.
const KEEPALIVE_REQUESTS: u64 = 1000;

/// How an endpoint's connections are made.
#[derive(Debug, Clone, Copy)]
pub struct EndpointOptions {
    /// Whether the server's certificate must be valid for its name.
    pub ssl_verify: bool,
    /// Idle connections that each worker keeps; 0 keeps none.
    pub keepalive_pool: u32,
    /// How long a connection may idle.
    pub keepalive_timeout: Duration,
}

impl Default for EndpointOptions {
    /// The defaults of APISIX's plugins: verified, 5 connections, 60 s.
    fn default() -> Self {
        Self { ssl_verify: true, keepalive_pool: 5, keepalive_timeout: Duration::from_secs(60) }
    }
}

impl CompileContext<'_> {
    /// Compiles the server behind `url` (`http://host[:port][/path]` or `https://...`) for [`crate::Services::call`].
    ///
    /// # Errors
    /// A URL that is none, or names another scheme.
    pub fn endpoint(&self, url: &str, options: EndpointOptions) -> Result<Endpoint, Vec<ConfigError>> {
        self.upstreams().endpoint(url, options)
    }

    /// As [`Self::endpoint`], for URLs with one of `schemes`: also `grpc` and `grpcs`, which are asked over HTTP/2.
    ///
    /// # Errors
    /// As [`Self::endpoint`].
    pub fn endpoint_of(
        &self,
        schemes: &[&str],
        url: &str,
        options: EndpointOptions,
    ) -> Result<Endpoint, Vec<ConfigError>> {
        self.upstreams().endpoint_of(schemes, url, options)
    }
}

impl UpstreamCompiler {
    /// As [`CompileContext::endpoint`], for a URL that the plugin learns while it runs: an identity provider's endpoint.
    ///
    /// # Errors
    /// A URL that is none, or names another scheme.
    pub fn endpoint(&self, url: &str, options: EndpointOptions) -> Result<Endpoint, Vec<ConfigError>> {
        self.endpoint_of(&["http", "https"], url, options)
    }

    fn endpoint_of(
        &self,
        schemes: &[&str],
        url: &str,
        options: EndpointOptions,
    ) -> Result<Endpoint, Vec<ConfigError>> {
        let bad = |message: &str| vec![ConfigError::new("", format!("{message}: \"{url}\""))];
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("not an absolute URL"))?;
        let scheme = *schemes
            .iter()
            .find(|allowed| scheme.eq_ignore_ascii_case(allowed))
            .ok_or_else(|| bad(&format!("the URL's scheme must be {}", schemes.join(" or "))))?;
        let (authority, target) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let target = if target.starts_with('?') { format!("/{target}") } else { target.to_owned() };
        if authority.contains('@') {
            return Err(bad("the URL must not hold user information"));
        }
        let (host, port) = split_port(authority).ok_or_else(|| bad("the URL's host or port is invalid"))?;
        if !is_target(target.as_bytes()) || !is_authority(authority.as_bytes()) {
            return Err(bad("the URL has characters that must be percent-encoded"));
        }
        let port = port.unwrap_or(if matches!(scheme, "https" | "grpcs") { 443 } else { 80 });
        let upstream = self.compile(&json!({
            "type": "roundrobin",
            "scheme": scheme,
            "pass_host": "node",
            "nodes": [{ "host": host, "port": port, "weight": 1 }],
            "retries": 0,
            "tls": { "verify": options.ssl_verify },
            "keepalive_pool": {
                "size": options.keepalive_pool.max(1),
                "idle_timeout": options.keepalive_timeout.as_secs_f64(),
                // A connection that carries one request never returns to the pool.
                "requests": if options.keepalive_pool == 0 { 1 } else { KEEPALIVE_REQUESTS },
            },
        }))?;
        Ok(Endpoint { upstream, authority: authority.to_owned(), target })
    }
}

/// Splits `host[:port]`; `None` where that is not its form.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':').or(if rest.is_empty() { Some("") } else { None })?)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let port = if port.is_empty() { None } else { Some(port.parse().ok().filter(|port| *port > 0)?) };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_split_off_its_host() {
        for (authority, expected) in [
            ("a.com", Some(("a.com", None))),
            ("a.com:8080", Some(("a.com", Some(8080)))),
            ("[::1]:8080", Some(("::1", Some(8080)))),
            ("[::1]", Some(("::1", None))),
            ("[::1]x", None),
            ("", None),
            (":80", None),
            ("a:0", None),
            ("a:b", None),
            ("a:70000", None),
        ] {
            assert_eq!(split_port(authority), expected, "{authority}");
        }
    }
}
