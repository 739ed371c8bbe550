//! Where requests go: a URL, taken apart.

use std::fmt::{self, Display};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Plain or encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

/// What a connection is made to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// A URL, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Plain or encrypted.
    pub scheme: Scheme,
    /// The host without brackets: a name or an address.
    pub host: String,
    /// The port, the scheme's own where the URL has none.
    pub port: u16,
    /// Host and port as the `Host` field has them.
    pub authority: String,
    /// Path and query; at least `/`.
    pub path: String,
}

/// Why a URL can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no URL that can be asked: {1}")]
pub struct TargetError(String, &'static str);

impl Target {
    /// Reads `http://host[:port][/path][?query]`; `https` too, and without a scheme `http` is meant. What follows a
    /// `#` is not sent.
    ///
    /// # Errors
    /// When it has another scheme, credentials, no host, a bad port, or bytes that can't stand in a request line.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        let error = |why| TargetError(url.to_owned(), why);
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Scheme::Http, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Scheme::Https, rest),
            Some(_) => return Err(error("its scheme is neither http nor https")),
            None => (Scheme::Http, url),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(error("it holds credentials; send them with -H 'Authorization: ...'"));
        }
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(error("spaces, control characters and non-ASCII letters have to be percent-encoded"));
        }
        let (host, port) = split_port(authority).map_err(error)?;
        if host.is_empty() {
            return Err(error("it names no host"));
        }
        Ok(Self {
            scheme,
            host: host.to_owned(),
            port: port.unwrap_or(if scheme == Scheme::Http { 80 } else { 443 }),
            authority: authority.to_owned(),
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        })
    }

    /// What to connect to: the first of the host's addresses, or the unix socket where one is given.
    ///
    /// # Errors
    /// When the name has no address.
    pub fn resolve(&self, unix: Option<&Path>) -> Result<Vec<Endpoint>, String> {
        if let Some(path) = unix {
            return Ok(vec![Endpoint::Unix(path.to_owned())]);
        }
        let found: Vec<Endpoint> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| format!("the name {} can't be resolved: {error}", self.host))?
            .map(Endpoint::Tcp)
            .collect();
        if found.is_empty() {
            return Err(format!("the name {} has no address", self.host));
        }
        Ok(found)
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.scheme == Scheme::Http { "http" } else { "https" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

impl Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inner) => inner.split_once(']').ok_or("its address lacks a closing bracket")?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Ok((host, None)),
        Some("") => Ok((host, None)),
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => Ok((host, Some(port))),
            _ => Err("its port is no number from 1 to 65535"),
        },
        None => Err("something stands between its address and its port"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, scheme, host, port, authority, path) in [
            ("http://a", Scheme::Http, "a", 80, "a", "/"),
            ("https://a.b", Scheme::Https, "a.b", 443, "a.b", "/"),
            ("HTTP://a:8080/x?y=1#z", Scheme::Http, "a", 8080, "a:8080", "/x?y=1"),
            ("127.0.0.1:9080/hello", Scheme::Http, "127.0.0.1", 9080, "127.0.0.1:9080", "/hello"),
            ("http://[::1]:81?q", Scheme::Http, "::1", 81, "[::1]:81", "/?q"),
            ("localhost", Scheme::Http, "localhost", 80, "localhost", "/"),
        ] {
            let target = Target::parse(url).expect(url);
            assert_eq!(
                (target.scheme, &*target.host, target.port, &*target.authority, &*target.path),
                (scheme, host, port, authority, path)
            );
        }
    }

    #[test]
    fn urls_that_cannot_be_asked_say_why() {
        for (url, why) in [
            ("ftp://a", "scheme"),
            ("http://", "no host"),
            ("http://:80/", "no host"),
            ("http://a:0/", "port"),
            ("http://a:99999/", "port"),
            ("http://u:p@a/", "credentials"),
            ("http://a/b c", "percent-encoded"),
            ("http://a/ü", "percent-encoded"),
            ("http://[::1/", "bracket"),
            ("http://[::1]x/", "between"),
            ("", "no host"),
        ] {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
