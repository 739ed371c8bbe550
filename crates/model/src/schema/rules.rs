//! What APISIX checks of a resource in code, beyond its schema, and without looking at other resources.

use super::{MISTAKES, Report, Validator, upstream as upstream_schema};
use crate::ConfigError;
use serde_json::Value;
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::LazyLock;

/// Mistakes found so far, in APISIX's order.
#[derive(Debug, Default)]
pub(super) struct Found(Report);

impl Found {
    fn push(&mut self, path: String, message: impl Into<String>, first: impl Into<String>) {
        self.0.first.get_or_insert_with(|| first.into());
        if self.0.errors.len() < MISTAKES {
            self.0.errors.push(ConfigError::new(path, message));
        }
    }

    /// A mistake that APISIX words without `invalid configuration: `.
    pub(super) fn bare(&mut self, path: String, message: impl Into<String>) {
        let message = message.into();
        self.push(path, message.clone(), message);
    }

    /// A mistake that APISIX words with `invalid configuration: `.
    fn prefixed(&mut self, path: String, message: &str) {
        self.push(path, message, format!("invalid configuration: {message}"));
    }

    /// Takes over what a schema said.
    pub(super) fn schema(&mut self, report: Report) {
        if let Some(line) = report.first {
            self.0.first.get_or_insert_with(|| format!("invalid configuration: {line}"));
        }
        let room = MISTAKES.saturating_sub(self.0.errors.len());
        self.0.errors.extend(report.errors.into_iter().take(room));
    }

    /// All of them.
    pub(super) fn into_report(self) -> Report {
        self.0
    }
}

/// Fields of a route of which only one may be there; APISIX says so before it looks at the schema.
pub(super) fn exclusive_fields(route: &Value, found: &mut Found) {
    for (one, many) in [("host", "hosts"), ("remote_addr", "remote_addrs")] {
        if route.get(one).is_some() && route.get(many).is_some() {
            found.bare(String::new(), format!("only one of {one} or {many} is allowed"));
        }
    }
}

/// In the list form of `nodes` an IPv6 address stands in brackets. `path` is where the upstream stands.
pub(super) fn bracketed_nodes(upstream: &Value, path: &str, found: &mut Found) {
    let nodes = upstream.get("nodes").and_then(Value::as_array).into_iter().flatten();
    for (i, node) in nodes.enumerate() {
        // An address in brackets does not parse.
        let host = node.get("host").and_then(Value::as_str);
        if host.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok()) {
            found
                .prefixed(format!("{path}/nodes/{i}/host"), "IPv6 address must be enclosed with '[' and ']'");
        }
    }
}

/// The rules on an upstream that has its defaults. `path` is where it stands.
pub(super) fn upstream(upstream: &Value, path: &str, found: &mut Found) {
    let text = |field: &str| upstream.get(field).and_then(Value::as_str);
    for address in upstream.get("nodes").and_then(Value::as_object).into_iter().flat_map(|nodes| nodes.keys())
    {
        // APISIX lets a port pass that is no number at all, and then connects to another one.
        if let Some(port) =
            written_port(address).filter(|port| !port.parse::<u16>().is_ok_and(|port| port > 0))
        {
            found.bare(format!("{path}/nodes"), format!("invalid port {port}"));
        }
    }
    if text("pass_host") == Some("rewrite") && text("upstream_host").is_none_or(str::is_empty) {
        let message = "`upstream_host` can't be empty when `pass_host` is `rewrite`";
        found.bare(format!("{path}/upstream_host"), message);
    }
    if text("type") == Some("chash") {
        hash_key(text("hash_on").unwrap_or("vars"), upstream.get("key"), path, found);
    }
}

/// Of an ssl, `certs` and `keys` go together.
pub(super) fn certificate_pairs(ssl: &Value, found: &mut Found) {
    let count = |field: &str| ssl.get(field).and_then(Value::as_array).map_or(0, Vec::len);
    let server = ssl.get("type").and_then(Value::as_str) != Some("client");
    if server && count("certs") != count("keys") {
        found.bare("/keys".to_owned(), "mismatched number of certs and keys");
    }
}

/// `chash` needs a key, except for consumers, of a form that `hash_on` asks for.
fn hash_key(hash_on: &str, key: Option<&Value>, path: &str, found: &mut Found) {
    static SCHEMAS: LazyLock<HashMap<&str, Validator>> = LazyLock::new(|| {
        let compiled = |hash_on| {
            let schema = upstream_schema::hash_key(hash_on)?;
            Some((hash_on, Validator::compile(&schema).ok()?))
        };
        ["vars", "header", "cookie", "vars_combinations"].into_iter().filter_map(compiled).collect()
    });
    let Some(key) = key else {
        if hash_on != "consumer" {
            found.bare(format!("{path}/key"), "missing key");
        }
        return;
    };
    // A key of another type has been named by the upstream's own schema.
    if let Some(schema) = SCHEMAS.get(hash_on).filter(|_| key.is_string()) {
        let mut report = schema.check(key);
        report.errors = report.errors.into_iter().map(|error| error.under(&format!("{path}/key"))).collect();
        found.schema(report);
    }
}

/// The text after the colon that separates host and port, where there is one; as APISIX splits.
fn written_port(address: &str) -> Option<&str> {
    let (host, port) = address.rsplit_once(':').filter(|(_, port)| !port.is_empty())?;
    let bare_ipv6 =
        !address.starts_with('[') && host.split_once('.').map_or(host, |(head, _)| head).contains(':');
    let has_port = if address.starts_with('[') { host.ends_with(']') } else { !bare_ipv6 };
    has_port.then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_found_where_apisix_finds_them() {
        for (address, expected) in [
            ("127.0.0.1", None),
            ("127.0.0.1:80", Some("80")),
            ("host:0", Some("0")),
            ("a.b:c:99", Some("99")),
            ("host:", None),
            ("::1", None),
            ("2001:db8::68", None),
            ("::ffff:192.0.2.1", None),
            ("[::1]", None),
            ("[::1]:65536", Some("65536")),
            ("[::1:80", None),
            ("", None),
            (":", None),
        ] {
            assert_eq!(written_port(address), expected, "{address}");
        }
    }
}
