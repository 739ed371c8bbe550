//! A file's text to resources, each with its place.

use super::place::Origin;
use super::shape::{Context, Shaper};
use admin::Resource;
use document::Position;
use document::variables::Lookup;
use document::{Diagnostic, Format, Found, codes};
use document::{Node, Value};
use model::Kind;
use serde_json::Map;
use std::collections::HashMap;
use store::file::{Part, check_root, take_apart, unknown_collection};

/// Collections that say nothing of the configuration.
const PASSED_OVER: [&str; 2] = ["plugins", "_format_version"];

/// The form of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// APISIX's standalone form, read exactly as the gateway reads it with `config_provider: yaml` or `json`.
    Standalone,
    /// The form of ADC: nested lists, and ids made of names.
    Adc,
}

/// Fields that only ADC's form has, by collection.
const ADC_FIELDS: [(&str, &[&str]); 4] = [
    ("services", &["routes", "stream_routes"]),
    ("consumers", &["credentials"]),
    ("consumer_groups", &["consumers"]),
    ("ssls", &["certificates"]),
];

impl Form {
    /// Returns the form of a document. YAML in the standalone form ends in `#END`, without which the gateway refuses
    /// it; JSON is in the standalone form unless it has something that only ADC's form has.
    fn of(text: &str, format: Format, root: &Node) -> Self {
        let standalone = match format {
            Format::Yaml => document::has_end_mark(text),
            Format::Json => !has_adc_parts(root),
        };
        if standalone { Self::Standalone } else { Self::Adc }
    }
}

fn has_adc_parts(root: &Node) -> bool {
    let keyed = |name: &str| {
        root.get(name).is_some_and(|node| matches!(&node.value, Value::Map(entries) if !entries.is_empty()))
    };
    let nested = ADC_FIELDS.iter().any(|(collection, fields)| {
        let Some(Value::List(items)) = root.get(collection).map(|node| &node.value) else { return false };
        items.iter().any(|item| fields.iter().any(|field| item.get(field).is_some()))
    });
    nested || keyed("global_rules") || keyed("plugin_metadata") || root.get("_format_version").is_some()
}

/// What a file declares.
#[derive(Debug)]
pub(crate) struct Document {
    /// The form that it was read in; `None` where it could not be parsed.
    pub form: Option<Form>,
    /// Each resource with its origin.
    pub items: Vec<(Resource, Origin)>,
    /// What is wrong with it.
    pub mistakes: Vec<Diagnostic>,
}

/// Reads a file's text.
pub(crate) fn read(text: &str, format: Format, lookup: Lookup<'_>) -> Document {
    let root = match document::read(text, format, lookup) {
        Ok(root) => root,
        Err(mistakes) => return Document { form: None, items: Vec::new(), mistakes },
    };
    let found = Found::default();
    let form = Form::of(text, format, &root);
    if let Err(mistake) = check_root(&root) {
        found.add(*mistake);
    }
    let items = match form {
        Form::Standalone => standalone(root, &found),
        Form::Adc => adc(root, &found),
    };
    let mut seen: HashMap<&str, Position> = HashMap::with_capacity(items.len());
    for (resource, origin) in &items {
        let at = origin.locate("");
        if let Some(first) = seen.insert(&resource.key, at) {
            let message = format!("{} is also defined in line {}", resource.key, first.line);
            found.add(Diagnostic::error(codes::DUPLICATE_ID, message).at(at));
        }
    }
    Document { form: Some(form), items, mistakes: found.into_sorted() }
}

/// The resources as the gateway's own reader has them. What the gateway passes over with an error in its log is an
/// error here.
fn standalone(root: Node, found: &Found) -> Vec<(Resource, Origin)> {
    let mut items = Vec::new();
    take_apart(root, &mut |part| match part {
        Part::Collection | Part::Plugins(_) => {}
        Part::Mistake(mistake) => found.add(mistake),
        Part::Resource { key, fields, item, .. } => {
            let fields = declared(&key, fields);
            items.push((Resource { key, fields }, Origin::new(item)));
        }
    });
    items
}

/// A standalone resource as the Admin API takes it: without the times that a dump of APISIX has, and a consumer
/// without the id that the standalone form gives it.
fn declared(key: &str, mut fields: Map<String, serde_json::Value>) -> Map<String, serde_json::Value> {
    for time in ["create_time", "update_time"] {
        fields.shift_remove(time);
    }
    if matches!(Kind::parse_key(key), Some((Kind::Consumer, _))) {
        fields.shift_remove("id");
    }
    fields
}

fn adc(root: Node, found: &Found) -> Vec<(Resource, Origin)> {
    let mut shaper = Shaper::new(found);
    if let Value::Map(entries) = root.value {
        for entry in entries {
            collection(&mut shaper, &entry.key, entry.at, entry.value, found);
        }
    }
    shaper.into_items()
}

fn collection(shaper: &mut Shaper<'_>, name: &str, at: Position, node: Node, found: &Found) {
    if PASSED_OVER.contains(&name) || name.ends_with("_conf_version") {
        return;
    }
    let Some(kind) = Kind::from_collection(name).filter(|kind| kind.parent().is_none()) else {
        found.add(unknown_collection(name).at(at));
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
        _ => found.add(Diagnostic::error(codes::WRONG_SHAPE, "expected a list").at(at).path(name)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::names::id_of;
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        let Document { items, mistakes, .. } = read(text, Format::Yaml, &|_| None);
        assert!(mistakes.is_empty(), "{mistakes:?}");
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
        let Document { form, items, mistakes } = read(text, Format::Yaml, &|_| None);
        assert!(mistakes.is_empty() && form == Some(Form::Adc), "{mistakes:?}");
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
    fn the_end_mark_and_nested_parts_tell_the_forms_apart() {
        let named = "services:\n- name: s\n";
        let adc = id_of(None, "s");
        for (text, format, key) in [
            (named.to_owned(), Format::Yaml, format!("/services/{adc}")),
            (format!("{named}#END\n"), Format::Yaml, "/services/arr_1".to_owned()),
            ("{\"services\": [{\"name\": \"s\"}]}".to_owned(), Format::Json, "/services/arr_1".to_owned()),
            (
                "{\"services\": [{\"name\": \"s\", \"routes\": []}]}".to_owned(),
                Format::Json,
                format!("/services/{adc}"),
            ),
        ] {
            let Document { items, mistakes, .. } = read(&text, format, &|_| None);
            assert!(mistakes.is_empty(), "{text}: {mistakes:?}");
            assert_eq!(items[0].0.key, key, "{text}");
        }
    }

    /// Reads documents in the standalone form as the gateway does and as `config validate` does. Neither may accept
    /// what the other refuses or passes over, and the resources must be the same.
    #[test]
    fn the_gateway_and_validate_agree_on_standalone_documents() {
        let lookup = |name: &str| match name {
            "PORT" => Some("1980".to_owned()),
            "TEXT" => Some("a: b".to_owned()),
            _ => None,
        };
        let yaml = [
            "routes:\n- uri: /a\n- name: n\n  uri: /b\n- id: 7\n  uri: /c\n",
            "routes:\n- id: 1\n  uri: \"/${{PORT}}\"\n  priority: ${{PORT}}\n  desc: \"${{PORT}}\"\n",
            "routes:\n- id: 1\n  desc: ${{TEXT}}\n",
            "routes:\n- id: 1\n  desc: \"${{TEXT}}\"\n",
            "routes:\n- id: ${{NONE}}\n",
            "routes:\n- id: ${{NONE:=5}}\n",
            "consumers:\n- username: rose\n- id: rose/credentials/c1\n  plugins:\n    key-auth:\n",
            "services: {}\nupstreams:\nroutes_conf_version: 3\nX-Digest: d\nplugins:\n- name: echo\n",
            "ssls:\n- id: a b\n",
            "routes:\n- 5\n",
            "routes:\n- id: 1\n- id: 1\n",
            "routs: []\n",
            "routes: 5\n",
            "- 5\n",
            "a: &a [*a]\n",
            "global_rules:\n  prometheus: {}\n",
            "plugin_metadata:\n- id: http-logger\n  log_format: {a: b}\nsecrets:\n- id: vault/1\n  uri: http://v\n",
            "",
        ];
        let json = [
            "{\"routes\": [{\"id\": 1, \"uri\": \"/${{PORT}}\", \"priority\": \"${{PORT}}\"}]}",
            "{\"routes\": [{\"id\": 1, \"id\": 2}]}",
            "{\"routes\": [{\"name\": \"n\"}, {\"id\": \"${{NONE}}\"}]}",
            "{\"routes\": {}}",
            "[]",
            "",
        ];
        let cases = yaml.iter().map(|text| (format!("{text}#END\n"), Format::Yaml));
        let cases = cases.chain(json.iter().map(|text| ((*text).to_owned(), Format::Json)));
        for (text, format) in cases {
            let running = store::file::Document::read(&text, format, &lookup);
            let checked = read(&text, format, &lookup);
            let accepted = running.as_ref().is_ok_and(|document| document.mistakes.is_empty());
            assert_eq!(accepted, checked.mistakes.is_empty(), "{text}\n{running:?}\n{checked:?}");
            let Ok(running) = running else { continue };
            let items = checked.items.into_iter().map(|(Resource { key, mut fields }, _)| {
                if matches!(Kind::parse_key(&key), Some((Kind::Consumer, _))) {
                    fields.insert("id".to_owned(), fields["username"].clone());
                }
                (key, serde_json::Value::Object(fields))
            });
            let expected = running.entries.iter().map(|(key, value)| {
                (key.clone(), serde_json::from_slice::<serde_json::Value>(value).unwrap())
            });
            let (items, expected): (BTreeMap<_, _>, BTreeMap<_, _>) = (items.collect(), expected.collect());
            assert_eq!(items, expected, "{text}");
        }
    }

    #[test]
    fn mistakes_have_places() {
        for (text, line, word) in [
            ("route:\n- id: 1\n", 1, "no such collection"),
            ("routes: 5\n", 1, "a list"),
            ("routes:\n- id: 1\n- 5\n", 3, "expected a mapping"),
            ("routes:\n- id: 1\n- id: 1\n", 3, "also defined"),
            ("consumers:\n- desc: x\n", 2, "username"),
            ("routes:\n- id: ${{NO_SUCH}}\n", 2, "NO_SUCH"),
        ] {
            let mistakes = read(text, Format::Yaml, &|_| None).mistakes;
            let [problem] = &mistakes[..] else { panic!("{text}\n{mistakes:?}") };
            assert!(problem.message.contains(word), "{text}\n{problem:?}");
            assert_eq!(problem.at.unwrap().line, line, "{text}");
        }
    }
}
