//! `apisix.yaml` and `apisix.json`: a document with a list for each kind of resource, taken apart into the store's
//! entries.

use std::collections::BTreeMap;
use std::sync::Arc;

use document::{Diagnostic, Entry, Format, Node, Position, Value as Tree, codes};
use model::Kind;
use serde_json::{Map, Value};

use crate::txn::check_key;

/// A document, taken apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// The resources by store key.
    pub entries: BTreeMap<String, Arc<[u8]>>,
    /// `plugins`: what replaces the configuration's lists of plugins; `None` where the document has no such key.
    pub plugins: Option<Vec<PluginName>>,
    /// How many collections it names, also such without resources. None is what a file in the making looks like.
    pub collections: usize,
    /// The mistakes of single items and collections, which are left out.
    pub mistakes: Vec<Diagnostic>,
    /// Where each resource stands.
    pub places: BTreeMap<String, Position>,
}

/// One of the document's `plugins`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginName {
    /// Its name.
    pub name: String,
    /// Whether it is one for streams.
    pub stream: bool,
}

/// The revision of an item in the standalone Admin API, an integer. APISIX keeps an item whose revision is the same; here
/// items are compared as a whole, so the revision has no use.
pub const MODIFIED_INDEX: &str = "modifiedIndex";

/// How a version of a list is called in the standalone Admin API, which a document may have been taken from.
const VERSION_SUFFIX: &str = "_conf_version";

impl Document {
    /// Reads a document; `lookup` knows the environment's variables.
    ///
    /// # Errors
    /// What makes the whole document unusable.
    pub fn read(
        text: &str,
        format: Format,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<Diagnostic>> {
        if format == Format::Yaml && !document::has_end_mark(text) {
            return Err(vec![no_end_mark()]);
        }
        let root = document::read(text, format, lookup)?;
        check_root(&root).map_err(|mistake| vec![*mistake])?;
        let mut document = Self::default();
        take_apart(root, &mut |part| document.take(part));
        Ok(document)
    }

    /// Takes a document apart that has been read already.
    #[must_use]
    pub fn of_value(root: Map<String, Value>) -> Self {
        let mut document = Self::default();
        take_apart_value(root, &mut |part| document.take(part));
        document
    }

    fn take<N>(&mut self, part: Part<N>) {
        match part {
            Part::Collection => self.collections += 1,
            Part::Plugins(plugins) => self.plugins = Some(plugins),
            Part::Mistake(mistake) => self.mistakes.push(mistake),
            Part::Resource { key, fields, at, label, .. } => {
                let value = Value::Object(fields).to_string().into_bytes().into();
                self.places.extend(at.map(|at| (key.clone(), at)));
                if self.entries.insert(key, value).is_some() {
                    let message = "another item before it has the same id; the last one is used";
                    self.mistakes.push(Diagnostic::error(codes::DUPLICATE_ID, message).at(at).path(label));
                }
            }
        }
    }
}

/// Returns the mistake of a YAML file that doesn't end in `#END`.
#[must_use]
pub fn no_end_mark() -> Diagnostic {
    let message = "the file doesn't end in a line with #END: it may not be complete";
    Diagnostic::error(codes::INCOMPLETE_FILE, message).hint("add a last line: #END")
}

/// Checks that a document is a mapping, or empty.
///
/// # Errors
/// The mistake of any other document.
pub fn check_root(root: &Node) -> Result<(), Box<Diagnostic>> {
    if matches!(root.value, Tree::Map(_) | Tree::Null) {
        return Ok(());
    }
    let message = "expected a mapping from collections (routes, upstreams, ...) to lists";
    Err(Diagnostic::error(codes::NOT_A_MAPPING, message).at(root.at).into())
}

/// One part of a document in APISIX's standalone form. `N` is what an item was made from.
#[derive(Debug)]
pub enum Part<N> {
    /// A collection is named; its resources follow.
    Collection,
    /// A resource.
    Resource {
        /// The store key.
        key: String,
        /// The resource as the store keeps it.
        fields: Map<String, Value>,
        /// The item's position, if it is known.
        at: Option<Position>,
        /// The item's collection and index, `routes[3]`.
        label: String,
        /// The item as the document has it.
        item: N,
    },
    /// The list of plugins.
    Plugins(Vec<PluginName>),
    /// A mistake in one item or collection, which is passed over.
    Mistake(Diagnostic),
}

/// Takes a document apart, in the order of its text. Both the gateway and the commands that check a file call this, so
/// that they agree on what a document has.
pub fn take_apart(root: Node, each: &mut dyn FnMut(Part<Node>)) {
    let Tree::Map(entries) = root.value else { return };
    for Entry { key: name, at, value } in entries {
        let kind = match collection_of(&name) {
            Collection::Of(kind) => kind,
            Collection::Plugins => {
                each(Part::Plugins(plugins(&value.to_json())));
                continue;
            }
            Collection::Ignored => continue,
            Collection::Unknown => {
                each(Part::Mistake(unknown_collection(&name).at(at)));
                continue;
            }
        };
        each(Part::Collection);
        match value.value {
            Tree::List(items) => {
                for (index, node) in items.into_iter().enumerate() {
                    each(resource(kind, index, Some(node.at), node.to_json(), node));
                }
            }
            Tree::Null => {}
            // Lua writes an empty list so.
            Tree::Map(fields) if fields.is_empty() => {}
            _ => each(Part::Mistake(no_list(&name).at(at))),
        }
    }
}

/// Does the same as [`take_apart`] for a document that is JSON already and has no positions.
fn take_apart_value(root: Map<String, Value>, each: &mut dyn FnMut(Part<()>)) {
    for (name, items) in root {
        let collection = collection_of(&name);
        if matches!(collection, Collection::Of(_)) {
            each(Part::Collection);
        }
        match (collection, items) {
            (Collection::Plugins, items) => each(Part::Plugins(plugins(&items))),
            (Collection::Of(kind), Value::Array(items)) => {
                for (index, item) in items.into_iter().enumerate() {
                    each(resource(kind, index, None, item, ()));
                }
            }
            (Collection::Of(_), Value::Null) | (Collection::Ignored, _) => {}
            (Collection::Of(_), Value::Object(fields)) if fields.is_empty() => {}
            (Collection::Of(_), _) => each(Part::Mistake(no_list(&name))),
            (Collection::Unknown, _) => each(Part::Mistake(unknown_collection(&name))),
        }
    }
}

enum Collection {
    Of(Kind),
    Plugins,
    Ignored,
    Unknown,
}

fn collection_of(name: &str) -> Collection {
    match Kind::from_collection(name).filter(|kind| kind.parent().is_none()) {
        Some(kind) => Collection::Of(kind),
        None if name == "plugins" => Collection::Plugins,
        None if name.ends_with(VERSION_SUFFIX) || name.starts_with("X-") => Collection::Ignored,
        None => Collection::Unknown,
    }
}

/// Returns the mistake of a key at the top that is no collection.
#[must_use]
pub fn unknown_collection(name: &str) -> Diagnostic {
    let known = Kind::ALL.into_iter().filter(|kind| kind.parent().is_none()).map(Kind::collection);
    let near = known.max_by(|a, b| strsim::jaro(a, name).total_cmp(&strsim::jaro(b, name)));
    Diagnostic::error(codes::UNKNOWN_COLLECTION, "there is no such collection")
        .path(name)
        .hint(format!("did you mean {}?", near.unwrap_or_default()))
}

fn no_list(name: &str) -> Diagnostic {
    Diagnostic::error(codes::WRONG_SHAPE, "expected a list").path(name)
}

fn resource<N>(kind: Kind, index: usize, at: Option<Position>, value: Value, item: N) -> Part<N> {
    let label = format!("{}[{index}]", kind.collection());
    let Value::Object(mut fields) = value else {
        let mistake = Diagnostic::error(codes::WRONG_SHAPE, "expected a mapping");
        return Part::Mistake(mistake.at(at).path(label));
    };
    // As APISIX has it: the id, a consumer's name, or the index in the list.
    let id = fields.get("id").or_else(|| fields.get("username")).and_then(text_of);
    let id = id.unwrap_or_else(|| format!("arr_{}", index + 1));
    let key = kind.key(&id);
    let named = Kind::parse_key(&key).filter(|_| check_key(&key).is_ok());
    let Some((kind, id)) = named else {
        let mistake = Diagnostic::error(codes::INVALID_ID, format!("{id:?} is not a valid id"));
        return Part::Mistake(mistake.at(at).path(label));
    };
    // Of a credential the whole is `CONSUMER/credentials/ID`.
    let own = kind.split_id(id).map_or(id, |(_, own)| own).to_owned();
    fields.insert("id".to_owned(), own.into());
    fields.get_mut("plugins").into_iter().for_each(fill_empty);
    if fields.get(MODIFIED_INDEX).is_some_and(|index| index.is_i64() || index.is_u64()) {
        fields.shift_remove(MODIFIED_INDEX);
    }
    Part::Resource { key, fields, at, label, item }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, format: Format) -> Result<Document, Vec<Diagnostic>> {
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
        assert_eq!(document.places["/routes/7"], Position { line: 3, column: 5 });
        let plugins = document.plugins.unwrap();
        assert_eq!((plugins[0].stream, plugins[1].name.as_str(), plugins[1].stream), (false, "b", true));
        assert_eq!(document.mistakes, []);
        assert_eq!(read("#END", Format::Yaml).unwrap(), Document::default());
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        for (text, format, place, words) in [
            ("routes: []\n", Format::Yaml, None, "#END"),
            ("routes:\n  - uri: [a\n#END", Format::Yaml, Some(2), "not valid YAML"),
            ("routes:\n  - uri: ${{NONE}}\n#END", Format::Yaml, Some(2), "NONE is not set"),
            ("- a\n#END", Format::Yaml, Some(1), "a mapping"),
            ("{\n \"routes\": [,] }", Format::Json, Some(2), "not valid JSON"),
            ("{\"routes\": \"${{NONE}}\"}", Format::Json, Some(1), "NONE is not set"),
        ] {
            let mistake = read(text, format).unwrap_err().remove(0);
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
            .mistakes
            .iter()
            .map(|mistake| (mistake.at.map(|at| at.line), mistake.path.as_str()))
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
        assert_eq!(document.mistakes.len(), 4);
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
