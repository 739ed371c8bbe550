//! `apisix.yaml` and `apisix.json`: a document with a list for each kind of resource, taken apart into the store's
//! entries.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Kind;
use serde_json::{Map, Value};

use super::place::{Place, Places};
use super::variables;
use crate::txn::check_key;

/// Which of the two a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML that ends in `#END`, so that half a file is never taken for a whole one.
    Yaml,
    /// JSON, which ends where it says.
    Json,
}

/// A document, taken apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// The resources by store key.
    pub entries: BTreeMap<String, Arc<[u8]>>,
    /// `plugins`: what replaces the configuration's lists of plugins; `None` where the document has no such key.
    pub plugins: Option<Vec<PluginName>>,
    /// How many collections it names, also such without resources. None is what a file in the making looks like.
    pub collections: usize,
    /// What was passed over.
    pub warnings: Vec<Mistake>,
    /// Where each resource stands.
    pub places: BTreeMap<String, Place>,
}

/// One of the document's `plugins`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginName {
    /// Its name.
    pub name: String,
    /// Whether it is one for streams.
    pub stream: bool,
}

/// What is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Where; `None` where the whole document is meant.
    pub at: Option<Place>,
    /// What.
    pub message: String,
}

/// How a version of a list is called in the standalone Admin API, which a document may have been taken from.
const VERSION_SUFFIX: &str = "_conf_version";

impl Document {
    /// Reads a document; `lookup` knows the environment's variables.
    ///
    /// # Errors
    /// What makes all of it unusable.
    pub fn read(
        text: &str,
        format: Format,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Mistake> {
        let whole = |message: &str| Mistake { at: None, message: message.to_owned() };
        let root = match format {
            Format::Yaml => {
                if !text.trim_end().ends_with("#END") {
                    return Err(whole("the file doesn't end in a line with #END: it may not be complete"));
                }
                let text = variables::in_text(text, lookup)?;
                let root: Option<Value> = serde_saphyr::from_str(&text).map_err(|error| syntax(&error))?;
                (root.unwrap_or_default(), Places::new(text))
            }
            Format::Json => {
                let mut root: Value = serde_json::from_str(text).map_err(|error| {
                    let at = Place { line: error.line(), column: error.column().max(1) };
                    // The place is said in front.
                    let said = error.to_string();
                    let message = said.split(" at line ").next().unwrap_or_default();
                    Mistake { at: Some(at), message: format!("not valid JSON: {message}") }
                })?;
                variables::in_value(&mut root, lookup)?;
                (root, Places::new(text.to_owned()))
            }
        };
        match root {
            (Value::Object(root), places) => Ok(Self::of(root, &places)),
            (Value::Null, _) => Ok(Self::default()),
            _ => Err(whole("a mapping from collections (routes, upstreams, ...) to lists is expected")),
        }
    }

    /// Takes a document apart that has been read already.
    #[must_use]
    pub fn of_value(root: Map<String, Value>) -> Self {
        Self::of(root, &Places::default())
    }

    fn of(root: Map<String, Value>, places: &Places) -> Self {
        let mut document = Self::default();
        for (name, items) in root {
            if name == "plugins" {
                document.plugins = Some(plugins(&items));
            } else if let Some(kind) = Kind::from_collection(&name).filter(|kind| kind.parent().is_none()) {
                document.collections += 1;
                document.collection(kind, items, places);
            } else if !name.ends_with(VERSION_SUFFIX) && !name.starts_with("X-") {
                document.warn(places.of(&name, None), format!("{name}: no such collection"));
            }
        }
        document
    }

    fn collection(&mut self, kind: Kind, items: Value, places: &Places) {
        let name = kind.collection();
        let items = match items {
            Value::Array(items) => items,
            Value::Null => return,
            // Lua writes an empty list so.
            Value::Object(fields) if fields.is_empty() => return,
            _ => return self.warn(places.of(name, None), format!("{name}: a list is expected")),
        };
        for (index, item) in items.into_iter().enumerate() {
            let at = places.of(name, Some(index));
            let Value::Object(mut fields) = item else {
                self.warn(at, format!("{name}[{index}]: a mapping is expected"));
                continue;
            };
            // As APISIX has it: the id, a consumer's name, or the place in the list.
            let id = fields.get("id").or_else(|| fields.get("username")).and_then(text_of);
            let id = id.unwrap_or_else(|| format!("arr_{}", index + 1));
            let key = kind.key(&id);
            let named = Kind::parse_key(&key).filter(|_| check_key(&key).is_ok());
            let Some((kind, id)) = named else {
                self.warn(at, format!("{name}[{index}]: {id:?} can be no id"));
                continue;
            };
            // Of a credential the whole is `CONSUMER/credentials/ID`.
            let own = kind.split_id(id).map_or(id, |(_, own)| own);
            fields.insert("id".to_owned(), own.into());
            fields.get_mut("plugins").into_iter().for_each(fill_empty);
            let value = Value::Object(fields).to_string().into_bytes().into();
            self.places.extend(at.map(|at| (key.clone(), at)));
            if self.entries.insert(key, value).is_some() {
                self.warn(at, format!("{name}[{index}]: an id that stood before; the last one counts"));
            }
        }
    }

    fn warn(&mut self, at: Option<Place>, message: String) {
        self.warnings.push(Mistake { at, message });
    }
}

/// `key-auth:` with nothing behind it is a plugin without settings.
fn fill_empty(plugins: &mut Value) {
    let configs = plugins.as_object_mut().into_iter().flat_map(Map::values_mut);
    configs.filter(|config| config.is_null()).for_each(|config| *config = Map::new().into());
}

/// An id as text; APISIX takes numbers too.
fn text_of(id: &Value) -> Option<String> {
    match id {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

fn plugins(items: &Value) -> Vec<PluginName> {
    let plugin = |item: &Value| match item {
        Value::String(name) => Some(PluginName { name: name.clone(), stream: false }),
        item => Some(PluginName {
            name: item.get("name")?.as_str()?.to_owned(),
            stream: item.get("stream").and_then(Value::as_bool).unwrap_or(false),
        }),
    };
    items.as_array().map(|items| items.iter().filter_map(plugin).collect()).unwrap_or_default()
}

fn syntax(error: &serde_saphyr::Error) -> Mistake {
    let said = error.without_snippet().to_string();
    let message = said.split(" at line ").next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let at = error.location().and_then(|location| Place::of(&location));
    Mistake { at, message: format!("not valid YAML: {message}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, format: Format) -> Result<Document, Mistake> {
        Document::read(text, format, &|name| (name == "PORT").then(|| "1980".to_owned()))
    }

    fn keys(document: &Document) -> Vec<&str> {
        document.entries.keys().map(String::as_str).collect()
    }

    #[test]
    fn items_get_the_ids_that_apisix_gives_them() {
        let text = "routes:\n  - uri: /a\n  - id: 7\n    uri: /${{PORT}}\nconsumers:\n  - username: rose\n  \
                    - id: rose/credentials/c1\n    plugins: {}\nplugin_metadata:\n  - id: http-logger\nsecrets:\n  \
                    - id: vault/1\nupstreams:\nservices: {}\nplugins:\n  - name: a\n  - name: b\n    stream: true\n#END\n";
        let document = read(text, Format::Yaml).unwrap();
        assert_eq!(
            keys(&document),
            [
                "/consumers/rose",
                "/consumers/rose/credentials/c1",
                "/plugin_metadata/http-logger",
                "/routes/7",
                "/routes/arr_1",
                "/secrets/vault/1"
            ]
        );
        let route: Value = serde_json::from_slice(&document.entries["/routes/7"]).unwrap();
        assert_eq!(route, serde_json::json!({ "id": "7", "uri": "/1980" }));
        assert_eq!(document.places["/routes/7"], Place { line: 3, column: 5 });
        let plugins = document.plugins.unwrap();
        assert_eq!((plugins[0].stream, plugins[1].name.as_str(), plugins[1].stream), (false, "b", true));
        assert_eq!(document.warnings, []);
        assert_eq!(read("#END", Format::Yaml).unwrap(), Document::default());
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        for (text, format, place, words) in [
            ("routes: []\n", Format::Yaml, None, "#END"),
            ("routes:\n  - uri: [a\n#END", Format::Yaml, Some(2), "not valid YAML"),
            ("routes:\n  - uri: ${{NONE}}\n#END", Format::Yaml, Some(2), "NONE is not set"),
            ("- a\n#END", Format::Yaml, None, "a mapping"),
            ("{\n \"routes\": [,] }", Format::Json, Some(2), "not valid JSON"),
            ("{\"routes\": \"${{NONE}}\"}", Format::Json, None, "NONE is not set"),
        ] {
            let mistake = read(text, format).unwrap_err();
            assert!(mistake.message.contains(words), "{text:?}: {mistake:?}");
            let line = mistake.at.map(|at| at.line);
            assert!(line == place || line == place.map(|line| line + 1), "{text:?}: {mistake:?}");
        }
    }

    #[test]
    fn what_is_wrong_in_part_is_passed_over_with_its_place() {
        let text = "routes:\n  - uri: /a\n    id: 1\n  - 5\n  - id: 1\nrouts: []\nupstreams: 3\n#END";
        let document = read(text, Format::Yaml).unwrap();
        assert_eq!(keys(&document), ["/routes/1"]);
        let warnings: Vec<_> = document
            .warnings
            .iter()
            .map(|mistake| (mistake.at.map(|at| at.line), mistake.message.split(':').next().unwrap()))
            .collect();
        assert_eq!(
            warnings,
            [(Some(4), "routes[1]"), (Some(5), "routes[2]"), (Some(6), "routs"), (Some(7), "upstreams")]
        );
    }

    #[test]
    fn an_id_that_names_no_resource_is_passed_over() {
        let text = "routes:\n- id: a/b\nconsumers:\n- id: rose/credential/c\nsecrets:\n- id: vault\n\
                    services:\n- id: ''\n- id: s\n#END";
        let document = read(text, Format::Yaml).unwrap();
        assert_eq!(keys(&document), ["/services/s"]);
        assert_eq!(document.warnings.len(), 4);
    }

    #[test]
    fn a_plugin_with_nothing_behind_it_has_no_settings() {
        let text = "consumers:\n  - id: rose/credentials/c1\n    plugins:\n      key-auth:\n#END";
        let document = read(text, Format::Yaml).unwrap();
        let value = &*document.entries["/consumers/rose/credentials/c1"];
        assert_eq!(value, br#"{"id":"c1","plugins":{"key-auth":{}}}"#);
    }

    #[test]
    fn json_reads_likewise() {
        let document = read("{\"routes\": [{\"id\": 1, \"uri\": \"/${{PORT}}\"}]}", Format::Json).unwrap();
        assert_eq!(&*document.entries["/routes/1"], br#"{"id":"1","uri":"/1980"}"#);
    }
}
