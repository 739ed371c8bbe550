//! Keys that are read from APISIX's files but change nothing yet; an operator who relies on one must hear of it.

use super::problem::{Problem, Problems};
use super::yaml::{Entry, Value};

/// A key, what the gateway does whatever it says, and the values that ask for just that.
struct Row {
    path: &'static str,
    why: &'static str,
    fulfilled: &'static [&'static str],
}

const fn row(path: &'static str, why: &'static str, fulfilled: &'static [&'static str]) -> Row {
    Row { path, why, fulfilled }
}

const ROWS: &[Row] = &[
    row("apisix.enable_reuseport", "each worker has its own socket", &["true"]),
    row("apisix.ssl.ssl_cert", "certificates are ssl resources", &[]),
    row("apisix.ssl.ssl_cert_key", "certificates are ssl resources", &[]),
    row("apisix.resolver_timeout", "names are resolved with the system's settings", &["5"]),
    row("apisix.dns_resolver_valid", "an answer is kept for as long as its TTL says", &[]),
    row("apisix.enable_resolv_search_opt", "the system's search list is used", &["true"]),
    row("apisix.lru.secret.count", "every value in use is kept", &["512"]),
    row("apisix.lru.secret.neg_count", "every failure in use is kept", &["512"]),
    row("deployment.etcd.watch_timeout", NO_WATCH_TIMEOUT, &["50"]),
    row("deployment.etcd.resync_delay", NO_WATCH_TIMEOUT, &["5"]),
    row("deployment.etcd.health_check_timeout", NO_WATCH_TIMEOUT, &["10"]),
    row("deployment.etcd.startup_retry", "a start waits for etcd, or goes on with what the disk has", &["2"]),
    row("ext-plugin", "external plugin runners are not supported", &[]),
    row("wasm", "WebAssembly plugins are not supported yet", &[]),
    row("xrpc", "xRPC is not supported", &[]),
    row("nginx_config.user", "the gateway runs as whoever starts it", &[]),
    row("nginx_config.enable_cpu_affinity", "workers are not pinned to cores yet", &["false"]),
    row("nginx_config.http.underscores_in_headers", "such headers are passed on", &["on", "true"]),
    row("nginx_config.http.large_client_header_buffers", "the limits are those of 4 8k", &["4 8k"]),
];

const NO_WATCH_TIMEOUT: &str =
    "a connection is known to live by its pings, and begun anew with pauses that grow";

/// How the keys end that hold pieces of an nginx configuration.
const SNIPPET_SUFFIX: &str = "_configuration_snippet";

/// Warns where the entry at `path` asks for something that the gateway doesn't do.
pub(super) fn check(entry: &Entry, path: &str, problems: &Problems) {
    let value = &entry.value.value;
    let accepted =
        |why: &str| Problem::warning(Some(entry.at), path, format!("accepted, without effect: {why}"));
    if let Some(row) = ROWS.iter().find(|row| row.path == path)
        && *value != Value::Null
        && !row.fulfilled.contains(&written(value).as_str())
    {
        problems.add(accepted(row.why));
    }
    if path.starts_with("nginx_config.")
        && path.ends_with(SNIPPET_SUFFIX)
        && let Value::Text(text) | Value::Filled(text) = value
        && text.lines().map(str::trim).any(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let problem = accepted("there is no nginx to configure");
        problems.add(problem.hint("look for a key or a plugin that does the same"));
    }
}

/// A plain value as text; empty for lists and mappings.
fn written(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Text(text) | Value::Filled(text) => text.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys;
    use super::super::yaml::parse;
    use super::*;

    fn findings(text: &str) -> usize {
        let problems = Problems::default();
        keys::check(&parse(text).unwrap(), &problems);
        problems.into_sorted().len()
    }

    #[test]
    fn what_is_asked_for_in_vain_is_said() {
        for (text, expected) in [
            ("nginx_config:\n  http_configuration_snippet: |\n    # c\n    gzip on;\n", 1),
            ("nginx_config:\n  http_configuration_snippet: |\n    # only a comment\n", 0),
            ("apisix:\n  stream_proxy:\n    tcp: [9100]\n", 0),
            ("apisix: {enable_http2: true, delete_uri_tail_slash: true, dns_resolver_valid: 30}\n", 1),
            ("apisix: {dns_resolver: [1.1.1.1]}\ndiscovery: {dns: {servers: [1.1.1.1]}}\n", 0),
            ("apisix: {enable_http2: false, delete_uri_tail_slash: false, resolver_timeout: 5}\n", 0),
            (
                "nginx_config: {http: {underscores_in_headers: \"on\", large_client_header_buffers: 4 8k}}\n",
                0,
            ),
            ("nginx_config: {http: {underscores_in_headers: off, real_ip_from: [10.0.0.0/8]}}\n", 1),
        ] {
            assert_eq!(findings(text), expected, "{text}");
        }
    }

    #[test]
    fn every_key_without_effect_is_a_key() {
        for row in ROWS {
            assert!(keys::is_known(row.path), "{}", row.path);
        }
    }
}
