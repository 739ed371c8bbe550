//! Requests that web pages send through the browser of somebody on this machine.
//!
//! A page of any site can send requests to loopback addresses. Two kinds reach an API there: cross-site requests, which
//! carry `Origin`, `Referer` or `Sec-Fetch-Site` (Fetch, W3C Fetch Metadata), and DNS rebinding, where the page's own name
//! resolves to 127.0.0.1 and `Host` names that site. Command line clients send none of the first and name a loopback
//! address in `Host`. No CORS header protects against requests without a preflight, so the requests are refused.

use crate::AdminResponse;
use std::net::IpAddr;

/// The header fields that these checks read.
pub(crate) const HEADERS: [&str; 4] = ["host", "origin", "referer", "sec-fetch-site"];

/// Which web page a request comes from, as far as its headers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// No page: a command line client, or an address that a person typed into a browser.
    None,
    /// A page of the same origin as the API.
    Own,
    /// A page of another origin: another scheme, host or port, or a sandboxed page (`null`).
    Foreign,
}

/// The fields of one request that tell its page. A field that is sent twice is there twice.
#[derive(Debug, Default)]
pub(crate) struct Sender<'a> {
    hosts: Vec<&'a str>,
    origins: Vec<&'a str>,
    referers: Vec<&'a str>,
    fetch_sites: Vec<&'a str>,
}

impl<'a> Sender<'a> {
    /// The sender of a request with these header fields. The authority of a target in absolute form counts as a `Host`.
    pub(crate) fn new(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut sender = Self::default();
        for (name, value) in fields {
            let values = match name.to_ascii_lowercase().as_str() {
                "host" => &mut sender.hosts,
                "origin" => &mut sender.origins,
                "referer" => &mut sender.referers,
                "sec-fetch-site" => &mut sender.fetch_sites,
                _ => continue,
            };
            values.push(value.trim());
        }
        sender
    }

    /// Returns whether every `Host` is `localhost`, a name below it, or a loopback address. A request without one
    /// passes: HTTP/1.0 clients send none, and browsers always send one.
    pub(crate) fn names_loopback(&self) -> bool {
        self.hosts.iter().all(|host| Authority::parse(host).is_some_and(|host| host.is_loopback()))
    }

    /// Returns the page that sent the request, by all of `Origin`, `Referer` and `Sec-Fetch-Site`.
    pub(crate) fn page(&self) -> Page {
        let pages = self.origins.iter().chain(&self.referers).map(|url| self.page_of(url));
        let fetched = self.fetch_sites.iter().map(|site| match *site {
            "none" => Page::None,
            "same-origin" => Page::Own,
            _ => Page::Foreign,
        });
        pages.chain(fetched).fold(Page::None, |worst, page| match (worst, page) {
            (Page::Foreign, _) | (_, Page::Foreign) => Page::Foreign,
            (Page::Own, _) | (_, Page::Own) => Page::Own,
            (Page::None, Page::None) => Page::None,
        })
    }

    /// Returns whether `Origin` names another origin than the API's own.
    pub(crate) fn has_foreign_origin(&self) -> bool {
        self.origins.iter().any(|origin| self.page_of(origin) == Page::Foreign)
    }

    /// The page at `url`. TLS may end in front of the API, so `https` with the same host and port is its own as well.
    fn page_of(&self, url: &str) -> Page {
        let Some((scheme, rest)) = url.split_once("://") else { return Page::Foreign };
        let default = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Page::Foreign,
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let Some(page) = Authority::parse(authority) else { return Page::Foreign };
        let [host] = self.hosts.as_slice() else { return Page::Foreign };
        let same = Authority::parse(host).is_some_and(|host| {
            host.name() == page.name() && host.port.unwrap_or(default) == page.port.unwrap_or(default)
        });
        if same { Page::Own } else { Page::Foreign }
    }
}

/// Host and port of an authority (RFC 3986 section 3.2) without user information.
#[derive(Debug, PartialEq, Eq)]
struct Authority<'a> {
    host: &'a str,
    port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Reads `host`, `host:port`, `[address]` or `[address]:port`; `None` for everything else.
    fn parse(text: &'a str) -> Option<Self> {
        let (host, rest) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match rest.strip_prefix(':') {
            // An empty port is the default one (RFC 3986 section 3.2.3).
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
            Some(_) => return None,
            None if rest.is_empty() => None,
            None => return None,
        };
        let bracketed = text.starts_with('[');
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let valid = match bracketed {
            true => host.parse::<std::net::Ipv6Addr>().is_ok(),
            false => !host.is_empty() && host.bytes().all(plain),
        };
        valid.then_some(Self { host, port })
    }

    /// The host in the form in which equal hosts are equal: lower case, no final dot.
    fn name(&self) -> String {
        self.host.strip_suffix('.').unwrap_or(self.host).to_ascii_lowercase()
    }

    /// Names below `localhost` are loopback (RFC 6761 section 6.3); browsers never ask DNS for them.
    fn is_loopback(&self) -> bool {
        let name = self.name();
        let address = || name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
        name == "localhost" || name.ends_with(".localhost") || address()
    }
}

/// The refusal of a request that a web page of another origin sent.
pub(crate) fn foreign_page() -> AdminResponse {
    AdminResponse::error(
        403,
        "refused: a web page sent this request (Origin, Referer or Sec-Fetch-Site), and this key or port is not for pages",
    )
}

/// The refusal of a request whose `Host` is no loopback address.
pub(crate) fn foreign_host() -> AdminResponse {
    AdminResponse::error(403, "refused: Host is no loopback address; use localhost, 127.0.0.1 or [::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_hosts_are_told_from_others() {
        for host in [
            "localhost",
            "LocalHost:9080",
            "localhost.",
            "localhost.:9080",
            "app.localhost:1",
            "127.0.0.1",
            "127.0.0.1:9080",
            "127.0.0.1:",
            "127.8.9.10:65535",
            "[::1]",
            "[::1]:9080",
            "[0:0:0:0:0:0:0:1]:9080",
            "[::ffff:127.0.0.1]:9080",
        ] {
            assert!(Sender::new([("Host", host)]).names_loopback(), "{host}");
        }
        for host in [
            "",
            ":9080",
            "evil.test",
            "evil.test:9080",
            "127.0.0.1.evil.test",
            "localhost.evil.test",
            "evillocalhost",
            "localhost..",
            ".",
            "gateway",
            "0.0.0.0:9080",
            "[::]:9080",
            "10.0.0.1",
            "2130706433",
            "0x7f.1",
            "127.1",
            "::1",
            "::1:9080",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "[localhost]",
            "[fe80::1%lo]",
            "127.0.0.1@evil.test",
            "evil.test#127.0.0.1",
            "127.0.0.1:99999",
            "127.0.0.1:+1",
            "127.0.0.1, evil.test",
            "127.0.0.1 evil.test",
        ] {
            assert!(!Sender::new([("Host", host)]).names_loopback(), "{host}");
        }
        assert!(Sender::new([]).names_loopback());
        assert!(!Sender::new([("host", "localhost"), ("HOST", "evil.test")]).names_loopback());
    }

    #[test]
    fn pages_are_told_by_every_field_that_names_them() {
        let host = ("Host", "127.0.0.1:9080");
        for (fields, page) in [
            (vec![host], Page::None),
            (vec![host, ("Sec-Fetch-Site", "none")], Page::None),
            (vec![host, ("Origin", "http://127.0.0.1:9080")], Page::Own),
            (vec![host, ("Origin", "https://127.0.0.1:9080")], Page::Own),
            (vec![host, ("Referer", "http://127.0.0.1:9080/a?b#c")], Page::Own),
            (vec![host, ("Sec-Fetch-Site", "same-origin")], Page::Own),
            (vec![("Host", "A.test"), ("Origin", "https://a.test")], Page::Own),
            (vec![("Host", "a.test"), ("Origin", "https://a.test:443")], Page::Own),
            (vec![("Host", "[::1]:1"), ("Origin", "http://[::1]:1")], Page::Own),
            (vec![("Host", "a.test:80"), ("Origin", "https://a.test")], Page::Foreign),
            (vec![host, ("Origin", "http://127.0.0.1")], Page::Foreign),
            (vec![host, ("Origin", "http://127.0.0.1:9081")], Page::Foreign),
            (vec![host, ("Origin", "http://localhost:9080")], Page::Foreign),
            (vec![host, ("Origin", "http://evil.test:9080")], Page::Foreign),
            (vec![host, ("Origin", "null")], Page::Foreign),
            (vec![host, ("Origin", "")], Page::Foreign),
            (vec![host, ("Origin", "file://")], Page::Foreign),
            (vec![host, ("Origin", "chrome-extension://abc")], Page::Foreign),
            (vec![host, ("Origin", "http://127.0.0.1:9080@evil.test")], Page::Foreign),
            (vec![host, ("Origin", "http://127.0.0.1:9080 http://evil.test")], Page::Foreign),
            (vec![host, host, ("Origin", "http://127.0.0.1:9080")], Page::Foreign),
            (vec![("Origin", "http://127.0.0.1:9080")], Page::Foreign),
            (vec![host, ("Referer", "http://evil.test/")], Page::Foreign),
            (vec![host, ("Sec-Fetch-Site", "cross-site")], Page::Foreign),
            (vec![host, ("Sec-Fetch-Site", "same-site")], Page::Foreign),
            (vec![host, ("Sec-Fetch-Site", "")], Page::Foreign),
            (
                vec![host, ("Origin", "http://127.0.0.1:9080"), ("Sec-Fetch-Site", "cross-site")],
                Page::Foreign,
            ),
            (vec![host, ("Origin", "http://127.0.0.1:9080"), ("Origin", "http://evil.test")], Page::Foreign),
        ] {
            assert_eq!(Sender::new(fields.iter().copied()).page(), page, "{fields:?}");
        }
    }
}
