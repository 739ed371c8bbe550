//! YAML as a tree with positions.
//!
//! Settings are read from this tree and not by `Deserialize` straight from the text: serde stops at the first mistake,
//! and an operator wants to see them all.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::diagnostic::{Diagnostic, codes};
use crate::limits::{
    ALIASES_MAX, ANCHORS_MAX, BYTES_MAX, DEPTH_MAX, EVENTS_MAX, MERGE_KEYS_MAX, NODES_MAX,
    REPLAYED_EVENTS_MAX,
};
use crate::{Entry, Node, Position, Value};

/// Reads one YAML document; an empty text is [`Value::Null`].
///
/// # Errors
/// The first syntax error, or a limit (see [`crate::limits`]) that the document exceeds.
pub fn parse(text: &str) -> Result<Node, Box<Diagnostic>> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: EVENTS_MAX,
            max_nodes: NODES_MAX,
            max_depth: DEPTH_MAX,
            max_aliases: ALIASES_MAX,
            max_anchors: ANCHORS_MAX,
            max_merge_keys: MERGE_KEYS_MAX,
            max_recorded_anchor_events: EVENTS_MAX,
            max_total_scalar_bytes: usize::try_from(BYTES_MAX).unwrap_or(usize::MAX),
            // A thousand routes may share one anchor; what aliases repeat is bounded by the line below.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: REPLAYED_EVENTS_MAX },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| Box::new(syntax_error(&error)))
}

fn syntax_error(error: &serde_saphyr::Error) -> Diagnostic {
    let at = error.location().and_then(|location| position(&location));
    let shown = error.without_snippet().to_string();
    // The place is said in our own form in front of the message, so the parser's own is dropped.
    let message = shown.split_once(" at line ").map_or(shown.as_str(), |(message, _)| message);
    let message = message.strip_prefix("error: ").unwrap_or(message).trim();
    // The parser's words for some mistakes are advice to programmers who call it.
    let (code, said, hint) = if message.starts_with("duplicate") {
        let duplicate = message.split_once(", set ").map_or(message, |(said, _)| said);
        (codes::DUPLICATE_KEY, duplicate, "a mapping may have a key once; remove one of the two")
    } else if message.starts_with("multiple YAML documents") {
        let hint = "a file holds one document; remove the --- before the second one, or the document";
        (codes::SYNTAX, "a second document begins here", hint)
    } else if message.starts_with("recursive references") {
        (
            codes::SYNTAX,
            "an alias refers to a value that contains it",
            "write the value out in place of the alias",
        )
    } else if message.contains("budget") || message.contains("limit exceeded") {
        (codes::LIMIT_EXCEEDED, message, "the document is too large; split it, or write fewer aliases")
    } else if message.contains("tab") {
        (codes::SYNTAX, message, "indent with spaces; YAML allows no tabs there")
    } else {
        (codes::SYNTAX, message, "check the indentation and the quotes of this line and of the one before")
    };
    Diagnostic::error(code, format!("not valid YAML: {said}")).at(at).hint(hint)
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
            ("a: &x\n  b: *x\n", 1, "an alias refers to"),
            ("a: 'open\n", 1, ""),
            ("a: 1\n--- \nb: 2\n", 2, "a second document"),
        ];
        for (text, line, word) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.message.contains(word), "{text:?}: {error:?}");
            assert!(!["Options", "from_str", "weak"].iter().any(|word| error.message.contains(word)));
            let hint = error.hint.as_deref().unwrap_or_default();
            assert_eq!(hint.contains("tabs"), text.contains('\t'), "{error:?}");
            assert!(!error.message.contains(" at line "), "{error:?}");
            let place = error.at.unwrap_or_else(|| panic!("{text:?}: {error:?}"));
            assert!(place.line >= line && place.line <= line + 1, "{text:?}: {error:?}");
        }
    }

    #[test]
    fn nesting_without_end_is_refused() {
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse(&"- ".repeat(100_000)).is_err());
    }

    #[test]
    fn a_hundred_thousand_routes_are_read_with_their_positions() {
        use std::fmt::Write as _;
        let mut text = String::from("routes:\n");
        for n in 0..100_000 {
            writeln!(text, "- id: r{n}\n  uri: /r{n}\n  upstream:\n    nodes: {{\"127.0.0.1:1980\": 1}}")
                .unwrap();
        }
        let root = parse(&text).unwrap();
        let Value::List(items) = &root.get("routes").unwrap().value else { panic!() };
        assert_eq!((items.len(), items[99_999].at), (100_000, at(4 * 99_999 + 2, 3)));
    }

    #[test]
    fn many_routes_may_share_one_anchor() {
        let shared =
            "shared: &s {a: 1}\nroutes:\n".to_owned() + &"- {plugins: *s}\n- {<<: *s, b: 2}\n".repeat(1000);
        let root = parse(&shared).unwrap();
        let Value::List(items) = &root.get("routes").unwrap().value else { panic!() };
        assert_eq!(items[1999].to_json(), serde_json::json!({ "a": 1, "b": 2 }));
    }

    #[test]
    fn bombs_are_refused() {
        use std::fmt::Write as _;
        let bomb = |first: &str, level: &dyn Fn(&str) -> String| {
            let mut text = format!("a0: &a0 {first}\n");
            for n in 1..10 {
                let below = format!("*a{}", n - 1);
                writeln!(text, "a{n}: &a{n} {}", level(&below)).unwrap();
            }
            text
        };
        let lists = bomb("[x, x, x, x, x, x, x, x, x]", &|below| format!("[{}]", [below; 9].join(", ")));
        let maps = bomb("{x: 1}", &|below| {
            let entries: Vec<String> = (0..9).map(|n| format!("k{n}: {below}")).collect();
            format!("{{{}}}", entries.join(", "))
        });
        let merges = bomb("{x: 1}", &|below| format!("{{<<: [{}]}}", [below; 9].join(", ")));
        let documents = "--- a\n".repeat(5000);
        for text in [lists, maps, merges, documents] {
            let error = parse(&text).unwrap_err();
            assert!(error.hint.is_some(), "{error:?}");
        }
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
