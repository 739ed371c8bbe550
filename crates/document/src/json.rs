//! JSON as a tree with positions.
//!
//! `serde_json` judges the syntax and reads scalars; it has no positions of values, so the tree is built by a walk over
//! the text that it has accepted.

use std::collections::HashSet;

use serde::de::{Deserialize, IgnoredAny};

use crate::diagnostic::{Code, Diagnostic, codes};
use crate::limits::{DEPTH_MAX, NODES_MAX};
use crate::{Entry, Node, Position, Value};

/// Reads one JSON document.
///
/// # Errors
/// The first syntax error, a duplicate key, or a limit (see [`crate::limits`]) that the document exceeds.
pub fn parse(text: &str) -> Result<Node, Box<Diagnostic>> {
    let mut judge = serde_json::Deserializer::from_str(text);
    // Skipped values are read without recursion, so no depth of nesting is dangerous here.
    IgnoredAny::deserialize(&mut judge)
        .and_then(|_| judge.end())
        .map_err(|error| Box::new(syntax_error(&error)))?;
    let mut walk = Walk { text, at: 0, counted: 0, position: Position { line: 1, column: 1 }, nodes: 0 };
    walk.value(0)
}

fn syntax_error(error: &serde_json::Error) -> Diagnostic {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).max(1);
    let shown = error.to_string();
    // The position has its own field.
    let message = shown.split(" at line ").next().unwrap_or_default();
    let at =
        (error.line() > 0).then(|| Position { line: number(error.line()), column: number(error.column()) });
    Diagnostic::error(codes::SYNTAX, format!("not valid JSON: {message}"))
        .at(at)
        .hint("check the commas, the quotes and the brackets before this position")
}

struct Walk<'t> {
    text: &'t str,
    /// The next byte.
    at: usize,
    /// Up to which byte `position` has been computed; tokens come in the order of the text, so each is counted once.
    counted: usize,
    position: Position,
    nodes: usize,
}

impl<'t> Walk<'t> {
    fn value(&mut self, depth: usize) -> Result<Node, Box<Diagnostic>> {
        let next = self.skip_space();
        let at = self.here();
        self.nodes += 1;
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            let message = if depth > DEPTH_MAX {
                format!("nested deeper than {DEPTH_MAX} levels")
            } else {
                format!("more than {NODES_MAX} keys and values")
            };
            return Err(error(codes::LIMIT_EXCEEDED, at, message).hint("split the document").into());
        }
        let value = match next {
            b'{' => self.map(depth)?,
            b'[' => self.list(depth)?,
            _ => scalar(at, self.token())?,
        };
        Ok(Node { at, value })
    }

    fn list(&mut self, depth: usize) -> Result<Value, Box<Diagnostic>> {
        let mut items = Vec::new();
        self.at += 1;
        while self.skip_space() != b']' {
            items.push(self.value(depth + 1)?);
            self.comma();
        }
        self.at += 1;
        Ok(Value::List(items))
    }

    fn map(&mut self, depth: usize) -> Result<Value, Box<Diagnostic>> {
        let mut entries = Vec::new();
        self.at += 1;
        while self.skip_space() != b'}' {
            let at = self.here();
            let Value::Text(key) = scalar(at, self.token())? else {
                return Err(error(codes::SYNTAX, at, "not valid JSON: a key must be a string").into());
            };
            // The colon.
            self.skip_space();
            self.at += 1;
            entries.push(Entry { key, at, value: self.value(depth + 1)? });
            self.nodes += 1;
            self.comma();
        }
        self.at += 1;
        let mut keys = HashSet::with_capacity(entries.len());
        if let Some(entry) = entries.iter().find(|entry| !keys.insert(entry.key.as_str())) {
            return Err(error(codes::DUPLICATE_KEY, entry.at, format!("duplicate key: {}", entry.key))
                .hint("an object may have a key once; remove one of the two")
                .into());
        }
        Ok(Value::Map(entries))
    }

    /// Moves to the next byte that is no white space and returns it; 0 at the end.
    fn skip_space(&mut self) -> u8 {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let space = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.at += space;
        rest.get(space).copied().unwrap_or_default()
    }

    fn comma(&mut self) {
        if self.skip_space() == b',' {
            self.at += 1;
        }
    }

    /// Moves over a scalar and returns it.
    fn token(&mut self) -> &'t str {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let length = match rest.first() {
            Some(b'"') => {
                let mut escaped = false;
                let end = rest.iter().skip(1).position(|&byte| {
                    let quote = byte == b'"' && !escaped;
                    escaped = byte == b'\\' && !escaped;
                    quote
                });
                end.map_or(rest.len(), |end| end + 2)
            }
            _ => rest
                .iter()
                .take_while(|byte| !matches!(byte, b',' | b']' | b'}') && !byte.is_ascii_whitespace())
                .count(),
        };
        let token = self.text.get(self.at..self.at + length).unwrap_or_default();
        self.at += length;
        token
    }

    /// Returns the position of the next byte.
    fn here(&mut self) -> Position {
        for c in self.text.get(self.counted..self.at).unwrap_or_default().chars() {
            if c == '\n' {
                self.position = Position { line: self.position.line.saturating_add(1), column: 1 };
            } else {
                self.position.column = self.position.column.saturating_add(1);
            }
        }
        self.counted = self.at;
        self.position
    }
}

#[expect(clippy::cast_precision_loss, reason = "no setting has such a value: it is refused by its range")]
fn scalar(at: Position, token: &str) -> Result<Value, Box<Diagnostic>> {
    use serde_json::Value as Json;
    match serde_json::from_str(token) {
        Ok(Json::Null) => Ok(Value::Null),
        Ok(Json::Bool(value)) => Ok(Value::Bool(value)),
        Ok(Json::String(text)) => Ok(Value::Text(text)),
        Ok(Json::Number(number)) => Ok(match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::Float(number as f64),
            (None, None) => Value::Float(number.as_f64().unwrap_or_default()),
        }),
        // A string may hold half of a surrogate pair, which a skipped value is not searched for.
        Ok(_) | Err(_) => Err(error(codes::SYNTAX, at, "not valid JSON: this value can't be read").into()),
    }
}

fn error(code: Code, at: Position, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(code, message).at(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_and_values_have_their_positions() {
        let root = parse("{\n  \"routes\": [\n    {\"é\\\"\": 1, \"uri\": \"/a\"},\n    5\n  ]\n}").unwrap();
        let Value::List(items) = &root.get("routes").unwrap().value else { panic!("{root:?}") };
        assert_eq!(items[1], Node { at: Position { line: 4, column: 5 }, value: Value::Int(5) });
        let Value::Map(entries) = &items[0].value else { panic!("{items:?}") };
        assert_eq!((entries[0].key.as_str(), entries[0].at), ("é\"", Position { line: 3, column: 6 }));
        assert_eq!((entries[1].at, entries[1].value.at.column), (Position { line: 3, column: 16 }, 23));
    }

    #[test]
    fn mistakes_have_their_positions() {
        for (text, line, words) in [
            ("{\n \"a\": [,] }", 2, "not valid JSON"),
            ("{\"a\": 1,\n \"a\": 2}", 2, "duplicate key: a"),
            ("[1] x", 1, "not valid JSON"),
            ("[\n\"\\ud800\"]", 2, "can't be read"),
            ("", 1, "not valid JSON"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.message.contains(words), "{text:?}: {error:?}");
            assert_eq!(error.at.map(|at| at.line), Some(line), "{text:?}: {error:?}");
        }
    }

    #[test]
    fn nesting_and_nodes_are_bounded() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(&deep).unwrap_err().message.contains("nested deeper"));
    }

    proptest! {
        #[test]
        fn every_text_is_read_as_serde_json_reads_it(text in "[-\\[\\]{}\":,. \n\\\\tfu0-9é]{0,40}|\\PC{0,20}") {
            if let Ok(root) = parse(&text) {
                let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(root.to_json().to_string(), expected.to_string());
            }
        }
    }
}
