//! Holds the keys of a file against the table of those there are.
//!
//! APISIX accepts unknown keys in silence. So do we, with a warning and the nearest known key, because a mistyped key
//! that has no effect is found late. A known key that changes nothing is a warning too, where it asks for something.

use crate::table::{self, Effect, Key, Kind};
use document::variables::join;
use document::{Diagnostic, Found, codes};
use document::{Entry, Node, Value};

/// How many edits may lie between a key and the one that was meant, at most.
const NEAR: usize = 3;

/// Warns of keys that nobody knows and of keys that have no effect.
pub(crate) fn check(root: &Node, found: &Found) {
    check_below(root, "", "", found);
}

/// `path` is as the operator sees it, `pattern` the same with `[]` for every index.
fn check_below(node: &Node, path: &str, pattern: &str, found: &Found) {
    match &node.value {
        Value::Map(entries) => {
            let known: Vec<&str> = table::below(pattern).map(Key::name).collect();
            let closed = table::find(pattern).is_none_or(|key| key.kind != Kind::Open) && !known.is_empty();
            for entry in entries {
                let inner = join(path, &entry.key);
                let inner_pattern = join(pattern, &entry.key);
                match table::find(&inner_pattern) {
                    Some(key) => {
                        check_effect(entry, &inner, key, found);
                        if key.kind != Kind::Free {
                            check_below(&entry.value, &inner, &inner_pattern, found);
                        }
                    }
                    None if closed => found.add(unknown(entry, &inner, &known)),
                    None => {}
                }
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                check_below(item, &format!("{path}[{index}]"), &format!("{pattern}[]"), found);
            }
        }
        _ => {}
    }
}

fn unknown(entry: &Entry, path: &str, known: &[&str]) -> Diagnostic {
    let warning = Diagnostic::warning(codes::UNKNOWN_KEY, "unknown key, ignored").at(entry.at).path(path);
    match nearest(&entry.key, known) {
        Some(near) => warning.hint(format!("did you mean {near}?")),
        None => warning.hint("remove it; docs/reference/config.md lists all keys"),
    }
}

/// Warns where the entry at `path` asks for something that the gateway doesn't do.
fn check_effect(entry: &Entry, path: &str, key: &Key, found: &Found) {
    let Effect::Nothing { why, fulfilled } = key.effect else { return };
    let value = &entry.value.value;
    if *value == Value::Null || is_comment(value) || fulfilled.contains(&written(value).as_str()) {
        return;
    }
    let message = format!("accepted, without effect: {why}");
    let warning = Diagnostic::warning(codes::NO_EFFECT, message).at(entry.at).path(path);
    found.add(match fulfilled.first().filter(|word| !word.is_empty()) {
        Some(word) => warning.hint(format!("remove the key, or write {word}")),
        None => warning.hint("remove the key"),
    });
}

/// Whether a snippet of nginx's configuration has nothing in it but comments.
fn is_comment(value: &Value) -> bool {
    let (Value::Text(text) | Value::Filled(text)) = value else { return false };
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
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

/// The candidate that `key` was most likely meant to be, where one is near enough. Used for values as well.
pub(crate) fn nearest<'a>(key: &str, candidates: &[&'a str]) -> Option<&'a str> {
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
    use super::*;
    use document::parse_yaml as parse;

    fn findings(text: &str) -> Vec<(u32, u32, String, Option<String>)> {
        let found = Found::default();
        check(&parse(text).unwrap(), &found);
        found
            .into_sorted()
            .into_iter()
            .map(|p| (p.at.unwrap().line, p.at.unwrap().column, p.path, p.hint))
            .collect()
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
            (
                "deployment:\n  admin:\n    admin_api_mtls: {admin_ssl_crt: a}\n",
                (3, 22, "deployment.admin.admin_api_mtls.admin_ssl_crt"),
                Some("did you mean admin_ssl_cert?"),
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
            "discovery:\n  dns:\n    anything: [1m]\n",
            "apisix: 5\n",
        ] {
            assert_eq!(findings(text), [], "{text}");
        }
    }

    #[test]
    fn what_is_asked_for_in_vain_is_said() {
        for (text, expected) in [
            ("nginx_config:\n  http_configuration_snippet: |\n    # c\n    gzip on;\n", 1),
            ("nginx_config:\n  http_configuration_snippet: |\n    # only a comment\n", 0),
            ("nginx_config:\n  http: {lua_shared_dict: {zone: 1m}}\n", 1),
            ("apisix:\n  stream_proxy:\n    tcp: [9100]\n", 0),
            ("apisix: {enable_http2: true, delete_uri_tail_slash: true, dns_resolver_valid: 30}\n", 0),
            ("apisix: {enable_reuseport: true, extra_lua_path: ''}\n", 0),
            ("apisix: {enable_reuseport: false}\n", 1),
            ("etcd: {host: ['http://127.0.0.1:2379']}\n", 1),
            ("plugin_attr: {prometheus: {metrics: {http_status: {extra_labels: [a: $uri]}}}}\n", 1),
        ] {
            assert_eq!(findings(text).len(), expected, "{text}");
        }
    }
}
