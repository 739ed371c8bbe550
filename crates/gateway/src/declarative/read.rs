//! A file's text to resources, each with its place.

use super::place::Origin;
use super::shape::{Context, Shaper};
use crate::config::env::{Lookup, substitute};
use crate::config::problem::Position;
use crate::config::yaml::{Node, Value, parse};
use crate::config::{Problem, Problems};
use admin::Resource;
use model::Kind;
use serde_json::{Map, Number};
use std::collections::HashMap;

/// Collections that say nothing of the configuration.
const PASSED_OVER: [&str; 2] = ["plugins", "_format_version"];

/// The resources of a file, and what is wrong with it.
pub(crate) fn read(text: &str, lookup: Lookup<'_>) -> (Vec<(Resource, Origin)>, Vec<Problem>) {
    let problems = Problems::default();
    let mut root = match parse(text) {
        Ok(root) => root,
        Err(problem) => return (Vec::new(), vec![problem]),
    };
    substitute(&mut root, "", lookup, &problems);
    // What an unset variable leaves empty would be complained of once more, as if the file had said it.
    if !problems.is_empty() {
        return (Vec::new(), problems.into_sorted());
    }
    let mut shaper = Shaper::new(&problems);
    match root.value {
        Value::Null => {}
        Value::Map(entries) => {
            for entry in entries {
                collection(&mut shaper, &entry.key, entry.at, entry.value, &problems);
            }
        }
        _ => problems.add(Problem::error(Some(root.at), "", "a mapping of collections is expected")),
    }
    let items = shaper.into_items();
    let mut seen: HashMap<&str, Position> = HashMap::new();
    for (resource, origin) in &items {
        let at = origin.locate("");
        if let Some(first) = seen.insert(&resource.key, at) {
            let message = format!("{} stands twice, first in line {}", resource.key, first.line);
            problems.add(Problem::error(Some(at), "", message));
        }
    }
    let problems = problems.into_sorted();
    (items, problems)
}

fn collection(shaper: &mut Shaper<'_>, name: &str, at: Position, node: Node, problems: &Problems) {
    if PASSED_OVER.contains(&name) || name.ends_with("_conf_version") {
        return;
    }
    let Some(kind) = Kind::from_collection(name).filter(|kind| kind.parent().is_none()) else {
        let known = Kind::ALL.into_iter().filter(|kind| kind.parent().is_none()).map(Kind::collection);
        let near = known.max_by(|a, b| strsim::jaro(a, name).total_cmp(&strsim::jaro(b, name)));
        let problem = Problem::error(Some(at), name, "there is no such collection");
        problems.add(problem.hint(format!("did you mean {}?", near.unwrap_or_default())));
        return;
    };
    match (kind, node.value) {
        (_, Value::Null) => {}
        (_, Value::List(items)) => {
            for (index, item) in items.into_iter().enumerate() {
                shaper.item(kind, item, &Context { index, ..Context::default() });
            }
        }
        (Kind::GlobalRule | Kind::PluginMetadata, Value::Map(entries)) => {
            for entry in entries {
                shaper.named(kind, &entry.key, entry.value);
            }
        }
        _ => problems.add(Problem::error(Some(at), name, "a list is expected")),
    }
}

/// A node as JSON. Text from a variable is what it looks like, as in APISIX.
pub(crate) fn json(node: &Node) -> serde_json::Value {
    use serde_json::Value as Json;
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::Float(value) => Number::from_f64(*value).map_or(Json::Null, Json::Number),
        Value::Text(text) => Json::from(text.as_str()),
        Value::Filled(text) => match text.as_str() {
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            text => text.parse::<i64>().map_or_else(|_| Json::from(text), Json::from),
        },
        Value::List(items) => Json::Array(items.iter().map(json).collect()),
        Value::Map(entries) => {
            let fields: Map<String, Json> =
                entries.iter().map(|entry| (entry.key.clone(), json(&entry.value))).collect();
            Json::Object(fields)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::id_of;
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        let (items, problems) = read(text, &|_| None);
        assert!(problems.is_empty(), "{problems:?}");
        items.into_iter().map(|(resource, _)| resource.key).collect()
    }

    #[test]
    fn the_standalone_form_is_read() {
        let text = "routes:\n- id: 1\n  uri: /a\n- uri: /b\nconsumers:\n- username: a\n- id: a/credentials/c\n  \
                    plugins: {}\nplugin_metadata:\n- id: http-logger\nsecrets:\n- id: vault/1\nplugins:\n- name: x\n#END\n";
        assert_eq!(
            keys(text),
            [
                "/routes/1",
                "/routes/arr_2",
                "/consumers/a",
                "/consumers/a/credentials/c",
                "/plugin_metadata/http-logger",
                "/secrets/vault/1"
            ]
        );
    }

    #[test]
    fn the_form_of_adc_is_read() {
        let text = "services:\n- name: s\n  description: d\n  upstream: {nodes: []}\n  routes:\n  - name: r\n    \
                    uris: [/a]\nconsumers:\n- username: jack\n  credentials:\n  - name: c\n    type: key-auth\n    \
                    config: {key: k}\nssls:\n- snis: [a.com, b.com]\n  certificates:\n  - {certificate: c1, key: k1}\n  \
                    - {certificate: c2, key: k2}\nglobal_rules:\n  prometheus: {}\nplugin_metadata:\n  http-logger: {a: 1}\n";
        let (items, problems) = read(text, &|_| None);
        assert!(problems.is_empty(), "{problems:?}");
        let find = |key: &str| {
            let (resource, _) = items.iter().find(|(resource, _)| resource.key == key).expect(key);
            serde_json::Value::Object(resource.fields.clone())
        };
        let service = id_of(None, "s");
        let route = find(&format!("/routes/{}", id_of(Some("s"), "r")));
        assert_eq!((&route["service_id"], &route["name"]), (&service.as_str().into(), &"r".into()));
        let service = find(&format!("/services/{service}"));
        assert_eq!((&service["desc"], service.get("routes")), (&"d".into(), None));
        let credential = find(&format!("/consumers/jack/credentials/{}", id_of(Some("jack"), "c")));
        assert_eq!(credential["plugins"]["key-auth"]["key"], "k");
        let ssl = find(&format!("/ssls/{}", id_of(None, "a.com,b.com")));
        assert_eq!((&ssl["cert"], &ssl["keys"][0]), (&"c1".into(), &"k2".into()));
        assert!(find("/global_rules/prometheus")["plugins"]["prometheus"].is_object());
        assert_eq!(find("/plugin_metadata/http-logger")["a"], 1);
    }

    #[test]
    fn mistakes_have_places() {
        for (text, line, word) in [
            ("route:\n- id: 1\n", 1, "no such collection"),
            ("routes: 5\n", 1, "a list"),
            ("routes:\n- id: 1\n- 5\n", 3, "a mapping"),
            ("routes:\n- id: 1\n- id: 1\n", 3, "twice"),
            ("consumers:\n- desc: x\n", 2, "username"),
            ("routes:\n- id: ${{NO_SUCH}}\n", 2, "NO_SUCH"),
        ] {
            let (_, problems) = read(text, &|_| None);
            let [problem] = &problems[..] else { panic!("{text}\n{problems:?}") };
            assert!(problem.message.contains(word), "{text}\n{problem:?}");
            assert_eq!(problem.at.unwrap().line, line, "{text}");
        }
    }
}
