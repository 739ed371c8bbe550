//! A YAML document as a tree in which every key and value knows its place.
//!
//! Settings are read from this tree and not by `Deserialize` straight from the text: serde stops at the first mistake,
//! and an operator wants to see them all.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::problem::{Position, Problem};

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where the value begins; for an alias, where the alias stands.
    pub at: Position,
    /// What stands there.
    pub value: Value,
}

/// A YAML value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// A boolean, in any of YAML 1.1's spellings (`on`, `yes`, `true`), as APISIX's parser has it.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number with a fraction, or too large for an `i64`.
    Float(f64),
    /// A string.
    Text(String),
    /// A string into which an environment variable was put. Its type is what the reader expects, because the variable's
    /// text alone can't tell the key `12345` from the number.
    Filled(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the file, without duplicate keys.
    Map(Vec<Entry>),
}

/// One key of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key begins.
    pub at: Position,
    /// Its value.
    pub value: Node,
}

impl Node {
    /// The value of `key`, where this is a mapping that has it and it is not null.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let Value::Map(entries) = &self.value else { return None };
        let node = &entries.iter().find(|entry| entry.key == key)?.value;
        (node.value != Value::Null).then_some(node)
    }
}

/// Reads one document; an empty text is `Value::Null`. The parser stops at the first syntax error, so at most one
/// problem comes back. Nesting is limited to 64 levels and the number of nodes to 250,000 by the parser's budget.
pub fn parse(text: &str) -> Result<Node, Problem> {
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { with_snippet: false })
        .map_err(|error| syntax_problem(&error))
}

fn syntax_problem(error: &serde_saphyr::Error) -> Problem {
    let at = error.location().and_then(|location| position(&location));
    let shown = error.without_snippet().to_string();
    // The place is said in our own form in front of the message, so the parser's own is dropped.
    let message = shown.split_once(" at line ").map_or(shown.as_str(), |(message, _)| message);
    let message = message.strip_prefix("error: ").unwrap_or(message).trim();
    // The parser's words for some mistakes are advice to programmers who call it.
    let (said, hint) = if message.starts_with("duplicate") {
        let duplicate = message.split_once(", set ").map_or(message, |(said, _)| said);
        (duplicate, "a key may stand once in a mapping; remove one of the two")
    } else if message.starts_with("multiple YAML documents") {
        ("a second document begins here", "a file holds one; remove the --- before this one, or the document")
    } else if message.starts_with("recursive references") {
        ("an alias within what it stands for", "write out what the alias shall stand for")
    } else if message.contains("tab") {
        (message, "indent with spaces; YAML allows no tabs there")
    } else {
        (message, "check the indentation and the quotes of this line and of the one before")
    };
    Problem::error(at, "", format!("not valid YAML: {said}")).hint(hint)
}

fn position(location: &serde_saphyr::Location) -> Option<Position> {
    let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let (line, column) = (number(location.line()), number(location.column()));
    (line > 0).then_some(Position { line, column: column.max(1) })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { at: position(&referenced).unwrap_or(Position { line: 1, column: 1 }), value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    #[expect(clippy::cast_precision_loss, reason = "no setting has such a value: it is refused by its range")]
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Float(value as f64), Value::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = seq.next_element()? {
            list.push(node);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries: Vec<Entry> = Vec::new();
        while let Some(Spanned { value: key, referenced, .. }) = map.next_key::<Spanned<String>>()? {
            let value: Node = map.next_value()?;
            let at = position(&referenced).unwrap_or(value.at);
            entries.push(Entry { key, at, value });
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(line: u32, column: u32) -> Position {
        Position { line, column }
    }

    #[test]
    fn keys_and_values_know_their_places() {
        let root = parse("# a comment\napisix:\n  node_listen:\n    - 9080\n    - port: \"9081\"\n").unwrap();
        let listen = root.get("apisix").and_then(|apisix| apisix.get("node_listen")).unwrap();
        let Value::List(items) = &listen.value else { panic!("{listen:?}") };
        assert_eq!(items[0], Node { at: at(4, 7), value: Value::Int(9080) });
        let Value::Map(entries) = &items[1].value else { panic!("{items:?}") };
        assert_eq!((entries[0].at, entries[0].value.at), (at(5, 7), at(5, 13)));
        assert_eq!(entries[0].value.value, Value::Text("9081".into()));
    }

    #[test]
    fn scalars_have_the_types_of_apisixs_parser() {
        let cases = [
            ("", Value::Null),
            ("# only a comment\n", Value::Null),
            ("~", Value::Null),
            ("true", Value::Bool(true)),
            ("off", Value::Bool(false)),
            ("'off'", Value::Text("off".into())),
            ("-1", Value::Int(-1)),
            ("1.5", Value::Float(1.5)),
            ("60s", Value::Text("60s".into())),
            ("'9080'", Value::Text("9080".into())),
            ("${{PORT:=9080}}", Value::Text("${{PORT:=9080}}".into())),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap().value, expected, "{text}");
        }
    }

    #[test]
    fn keys_need_not_be_strings() {
        let Value::Map(entries) = parse("200: a\ntrue: b\n").unwrap().value else { panic!() };
        assert_eq!((entries[0].key.as_str(), entries[1].key.as_str()), ("200", "true"));
    }

    #[test]
    fn syntax_errors_have_a_place() {
        let cases = [
            ("a:\n\t- b\n", 2, "tab"),
            ("a: [1, 2\nb: 3\n", 2, ""),
            ("a: 1\nb: 2\na: 3\n", 3, "duplicate mapping key: a"),
            ("a: &x\n  b: *x\n", 1, "an alias within"),
            ("a: 'open\n", 1, ""),
            ("a: 1\n--- \nb: 2\n", 2, "a second document"),
        ];
        for (text, line, word) in cases {
            let problem = parse(text).unwrap_err();
            assert!(problem.message.contains(word), "{text:?}: {problem:?}");
            assert!(!["Options", "from_str", "weak"].iter().any(|word| problem.message.contains(word)));
            let hint = problem.hint.as_deref().unwrap_or_default();
            assert_eq!(hint.contains("tabs"), text.contains('\t'), "{problem:?}");
            assert!(!problem.message.contains(" at line "), "{problem:?}");
            let place = problem.at.unwrap_or_else(|| panic!("{text:?}: {problem:?}"));
            assert!(place.line >= line && place.line <= line + 1, "{text:?}: {problem:?}");
        }
    }

    #[test]
    fn nesting_without_end_is_refused() {
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse(&"- ".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = parse(&text);
        }

        #[test]
        fn no_text_of_yamls_own_characters_panics(text in "[-:?\\[\\]{}#&*!|>'\"%@ \n\ta-c0-9,.~<]{0,80}") {
            let _ = parse(&text);
        }
    }
}
