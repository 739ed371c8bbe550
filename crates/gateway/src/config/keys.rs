//! The keys that `config.yaml` may have, and what to say about the others.
//!
//! APISIX accepts unknown keys in silence. So do we, with a warning and the nearest known key, because a mistyped key
//! that has no effect is found late.

use super::env::join;
use super::no_effect;
use super::problem::{Problem, Problems};
use super::yaml::{Entry, Node, Value};

/// The mappings whose keys are known, by their path; `[]` stands for each item of a list. What is below a key without
/// an entry here is free: plugin attributes, shared dictionaries, service discovery.
const KEYS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "apisix",
            "nginx_config",
            "deployment",
            "plugins",
            "stream_plugins",
            "plugin_attr",
            "discovery",
            "graphql",
            "ext-plugin",
            "wasm",
            "xrpc",
            "etcd",
        ],
    ),
    (
        "apisix",
        &[
            "node_listen",
            "enable_admin",
            "enable_admin_ui",
            "enable_dev_mode",
            "enable_reuseport",
            "enable_debug",
            "show_upstream_status_in_response_header",
            "enable_ipv6",
            "enable_http2",
            "enable_server_tokens",
            "extra_lua_path",
            "extra_lua_cpath",
            "lua_module_hook",
            "proxy_cache",
            "proxy_protocol",
            "proxy_mode",
            "stream_proxy",
            "delete_uri_tail_slash",
            "normalize_uri_like_servlet",
            "match_uri_encoded_slash",
            "max_post_args_readable_size",
            "router",
            "static_roots",
            "log_roots",
            "dns_resolver",
            "dns_resolver_valid",
            "resolver_timeout",
            "enable_resolv_search_opt",
            "ssl",
            "enable_control",
            "control",
            "enable_status",
            "status",
            "disable_sync_configuration_during_start",
            "worker_startup_time_threshold",
            "data_encryption",
            "disable_upstream_healthcheck",
            "trusted_addresses",
            "events",
            "lru",
            "tracing",
        ],
    ),
    ("apisix.node_listen[]", &["ip", "port", "enable_http2"]),
    (
        "apisix.proxy_protocol",
        &["listen_http_port", "listen_https_port", "enable_tcp_pp", "enable_tcp_pp_to_upstream"],
    ),
    ("apisix.stream_proxy", &["tcp", "udp"]),
    ("apisix.stream_proxy.tcp[]", &["addr", "tls", "proxy_protocol", "proxy_protocol_to_upstream"]),
    ("apisix.router", &["http", "ssl"]),
    ("apisix.data_encryption", &["enable_encrypt_fields", "keyring", "format"]),
    ("apisix.proxy_cache", &["cache_ttl", "zones"]),
    ("apisix.proxy_cache.zones[]", &["name", "memory_size", "disk_size", "disk_path", "cache_levels"]),
    ("apisix.lru", &["secret"]),
    ("apisix.lru.secret", &["ttl", "count", "neg_ttl", "neg_count"]),
    ("graphql", &["max_size"]),
    ("apisix.control", &["ip", "port", "router"]),
    ("apisix.status", &["ip", "port"]),
    (
        "apisix.ssl",
        &[
            "enable",
            "listen",
            "ssl_cert",
            "ssl_cert_key",
            "ssl_trusted_certificate",
            "ssl_protocols",
            "ssl_ciphers",
            "ssl_session_tickets",
            "fallback_sni",
        ],
    ),
    ("apisix.ssl.listen[]", &["ip", "port", "enable_http2", "enable_http3"]),
    (
        "nginx_config",
        &[
            "user",
            "error_log",
            "error_log_level",
            "worker_processes",
            "enable_cpu_affinity",
            "worker_rlimit_nofile",
            "worker_rlimit_core",
            "worker_shutdown_timeout",
            "on_panic",
            "max_pending_timers",
            "max_running_timers",
            "event",
            "envs",
            "meta",
            "stream",
            "main_configuration_snippet",
            "http_configuration_snippet",
            "http_server_configuration_snippet",
            "http_server_location_configuration_snippet",
            "http_admin_configuration_snippet",
            "http_end_configuration_snippet",
            "stream_configuration_snippet",
            "http",
        ],
    ),
    ("nginx_config.event", &["worker_connections"]),
    (
        "nginx_config.http",
        &[
            "enable_access_log",
            "access_log",
            "access_log_buffer",
            "access_log_format",
            "access_log_format_escape",
            "keepalive_timeout",
            "keepalive_requests",
            "ssl_handshake_timeout",
            "client_header_timeout",
            "client_body_timeout",
            "client_max_body_size",
            "send_timeout",
            "underscores_in_headers",
            "large_client_header_buffers",
            "real_ip_header",
            "real_ip_recursive",
            "real_ip_from",
            "proxy_ssl_server_name",
            "upstream",
            "charset",
            "variables_hash_max_size",
            "lua_shared_dict",
            "custom_lua_shared_dict",
        ],
    ),
    (
        "nginx_config.stream",
        &[
            "real_ip_from",
            "enable_access_log",
            "access_log",
            "access_log_format",
            "access_log_format_escape",
            "lua_shared_dict",
            "metrics_zone_size",
        ],
    ),
    ("nginx_config.http.upstream", &["keepalive", "keepalive_requests", "keepalive_timeout"]),
    (
        "deployment",
        &["role", "role_traditional", "role_control_plane", "role_data_plane", "admin", "etcd", "certs"],
    ),
    ("deployment.role_traditional", &["config_provider"]),
    ("deployment.role_control_plane", &["config_provider"]),
    ("deployment.role_data_plane", &["config_provider"]),
    (
        "deployment.etcd",
        &[
            "host",
            "prefix",
            "timeout",
            "watch_timeout",
            "resync_delay",
            "health_check_timeout",
            "startup_retry",
            "user",
            "password",
            "tls",
        ],
    ),
    ("deployment.etcd.tls", &["cert", "key", "verify", "sni"]),
    (
        "deployment.admin",
        &[
            "admin_key_required",
            "admin_key",
            "enable_admin_cors",
            "enable_admin_ui",
            "allow_admin",
            "admin_listen",
            "https_admin",
            "admin_api_mtls",
            "admin_api_version",
        ],
    ),
    ("deployment.admin.admin_key[]", &["name", "key", "role"]),
    ("deployment.admin.admin_listen", &["ip", "port"]),
    (
        "plugin_attr.prometheus",
        &[
            "export_uri",
            "metric_prefix",
            "enable_export_server",
            "export_addr",
            "refresh_interval",
            "metrics",
            "default_buckets",
            "llm_latency_buckets",
            "llm_prompt_tokens_buckets",
            "llm_completion_tokens_buckets",
            "allow_degradation",
            "degradation_pause_steps",
        ],
    ),
    ("plugin_attr.prometheus.export_addr", &["ip", "port"]),
];

/// How many edits may lie between a key and the one that was meant, at most.
const NEAR: usize = 3;

/// Warns of keys that nobody knows and of keys that have no effect.
pub fn check(root: &Node, problems: &Problems) {
    check_below(root, "", "", problems);
}

/// `path` is as the operator sees it, `pattern` the same with `[]` for every index.
fn check_below(node: &Node, path: &str, pattern: &str, problems: &Problems) {
    match &node.value {
        Value::Map(entries) => {
            let known = KEYS.iter().find(|(of, _)| *of == pattern).map(|(_, keys)| *keys);
            for entry in entries {
                let inner = join(path, &entry.key);
                if let Some(known) = known
                    && !known.contains(&entry.key.as_str())
                {
                    problems.add(unknown(entry, &inner, known));
                    continue;
                }
                no_effect::check(entry, &inner, problems);
                check_below(&entry.value, &inner, &join(pattern, &entry.key), problems);
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                check_below(item, &format!("{path}[{index}]"), &format!("{pattern}[]"), problems);
            }
        }
        _ => {}
    }
}

fn unknown(entry: &Entry, path: &str, known: &[&str]) -> Problem {
    let problem = Problem::warning(Some(entry.at), path, "unknown key, ignored");
    match nearest(&entry.key, known) {
        Some(near) => problem.hint(format!("did you mean {near}?")),
        None => problem.hint("remove it, or see docs/guide/configuration.md for the keys there are"),
    }
}

/// Whether a key path is one of those above.
#[cfg(test)]
pub(super) fn is_known(path: &str) -> bool {
    let (section, key) = path.rsplit_once('.').unwrap_or(("", path));
    KEYS.iter().any(|(of, keys)| *of == section && keys.contains(&key))
}

/// The candidate that `key` was most likely meant to be, where one is near enough. Used for values as well.
pub fn nearest<'a>(key: &str, candidates: &[&'a str]) -> Option<&'a str> {
    candidates
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(key, candidate), *candidate))
        // At most half of a short word may differ: `x` is no typo of `ip`.
        .filter(|(distance, candidate)| *distance <= NEAR.min(candidate.len() / 2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::super::yaml::parse;
    use super::*;

    fn findings(text: &str) -> Vec<(u32, u32, String, Option<String>)> {
        let problems = Problems::default();
        check(&parse(text).unwrap(), &problems);
        let found = problems.into_sorted().into_iter();
        found.map(|p| (p.at.unwrap().line, p.at.unwrap().column, p.path, p.hint)).collect()
    }

    #[test]
    fn unknown_keys_are_named_with_the_nearest_one() {
        let cases = [
            ("apisix:\n  node_lisen: 9080\n", (2, 3, "apisix.node_lisen"), Some("did you mean node_listen?")),
            ("ngnix_config: {}\n", (1, 1, "ngnix_config"), Some("did you mean nginx_config?")),
            (
                "apisix:\n  node_listen:\n    - prot: 1\n",
                (3, 7, "apisix.node_listen[0].prot"),
                Some("did you mean port?"),
            ),
            ("deployment:\n  admin:\n    zzz: 1\n", (3, 5, "deployment.admin.zzz"), None),
        ];
        for (text, (line, column, path), hint) in cases {
            let found = findings(text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!((found[0].0, found[0].1, found[0].2.as_str()), (line, column, path));
            if let Some(hint) = hint {
                assert_eq!(found[0].3.as_deref(), Some(hint));
            }
        }
    }

    #[test]
    fn free_parts_are_not_looked_into() {
        for text in [
            "plugin_attr:\n  my-plugin:\n    anything: 1\n",
            "nginx_config:\n  http:\n    lua_shared_dict:\n      zone: 1m\n",
            "apisix: 5\n",
        ] {
            assert_eq!(findings(text), [], "{text}");
        }
    }
}
