//! The tree of a document.

use serde_json::Number;

/// A position in a text. Both numbers start at 1 and count characters, as editors do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where the value begins; for an alias, where the alias is.
    pub at: Position,
    /// The value.
    pub value: Value,
}

/// A value of YAML or JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// A boolean, in YAML in any of YAML 1.1's spellings (`on`, `yes`, `true`), as APISIX's parser has it.
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
    /// Returns the value of `key`, if this is a mapping that has it and it is not null.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        let Value::Map(entries) = &self.value else { return None };
        let node = &entries.iter().find(|entry| entry.key == key)?.value;
        (node.value != Value::Null).then_some(node)
    }

    /// Returns the node as JSON. A string that a variable makes a number or a boolean is one, as in APISIX.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::Float(value) => Number::from_f64(*value).map_or(Json::Null, Json::Number),
            Value::Text(text) => Json::from(text.as_str()),
            Value::Filled(text) => match serde_json::from_str(text) {
                Ok(plain @ (Json::Number(_) | Json::Bool(_))) => plain,
                _ => Json::from(text.as_str()),
            },
            Value::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Value::Map(entries) => {
                Json::Object(entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect())
            }
        }
    }
}
