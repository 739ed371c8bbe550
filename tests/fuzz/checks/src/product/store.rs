//! The standalone file.

use ::store::file::{Document, Format};
use model::Kind;
use serde_json::{Map, Value};

/// Line breaks of YAML: a CR LF counts twice, which makes the number of lines an upper bound.
pub(crate) const LINE_ENDS: [char; 2] = ['\r', '\n'];

/// `apisix.yaml` and `apisix.json`: keys that the store takes, values that say their id, places within the text; and the
/// resources come back from a document that is made of them.
pub fn standalone(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lookup = |name: &str| (name == "A").then(|| "value".to_owned());
    let ended = format!("{text}\n#END\n");
    for (text, format) in [(text, Format::Json), (text, Format::Yaml), (&*ended, Format::Yaml)] {
        // A variable's value may have lines of its own; this one has none.
        let lines = u32::try_from(text.split(LINE_ENDS).count()).unwrap_or(u32::MAX);
        match Document::read(text, format, &lookup) {
            Ok(document) => check(&document, lines),
            Err(mistakes) => {
                assert!(!mistakes.is_empty(), "a refusal says why");
                for mistake in mistakes {
                    assert!(!mistake.message.is_empty());
                    assert!(
                        mistake.at.is_none_or(|at| at.column > 0 && (1..=lines + 1).contains(&at.line)),
                        "{mistake:?}"
                    );
                }
            }
        }
    }
}

fn check(document: &Document, lines: u32) {
    assert!(document.places.values().all(|at| at.column > 0 && (1..=lines).contains(&at.line)));
    assert!(document.places.keys().all(|key| document.entries.contains_key(key)));
    let mut root = Map::new();
    for (key, value) in &document.entries {
        let (kind, id) = Kind::parse_key(key).unwrap_or_else(|| panic!("{key:?} is no key"));
        let mut value: Map<String, Value> = serde_json::from_slice(value).expect("an object");
        let own = value.get("id").and_then(Value::as_str).expect("its id");
        assert!(!own.is_empty() && key.ends_with(own), "{key:?} {own:?}");
        if kind.parent().is_none() {
            assert_eq!(own, id);
        }
        // A credential is written under its consumer's name.
        let collection = kind.parent().unwrap_or(kind).collection();
        value.insert("id".to_owned(), id.into());
        let list = root.entry(collection).or_insert_with(|| Value::Array(Vec::new()));
        list.as_array_mut().expect("a list").push(value.into());
    }
    let again = Document::of_value(root);
    assert!(
        again.entries.keys().eq(document.entries.keys()),
        "{:?} {:?}",
        again.mistakes,
        document.entries.keys()
    );
}
