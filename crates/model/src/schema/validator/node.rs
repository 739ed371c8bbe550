//! One schema, compiled: its rules in the order in which APISIX applies them.

use super::array::Items;
use super::combine::Combinations;
use super::object::Fields;
use super::scalar::{Format, NumberRules, TextRules};
use super::walk::{First, Verdict, Walk};
use crate::schema::lua;
use serde_json::{Number, Value};

/// A compiled schema.
#[derive(Debug)]
pub(super) enum Node {
    /// `true`
    Anything,
    /// `false`
    Nothing,
    /// `{...}`
    Rules(Box<Rules>),
}

/// The rules of a schema that is an object; each is absent where the schema doesn't have it.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) types: Option<Types>,
    pub(super) fields: Option<Fields>,
    pub(super) items: Option<Items>,
    pub(super) text: Option<TextRules>,
    pub(super) number: Option<NumberRules>,
    /// Canonical texts of the values allowed.
    pub(super) values: Option<Vec<String>>,
    pub(super) combinations: Combinations,
    pub(super) format: Option<Format>,
    /// Canonical text of the one value allowed.
    pub(super) constant: Option<String>,
    /// At least one item matches.
    pub(super) contains: Option<Node>,
}

/// The `type` keyword.
#[derive(Debug)]
pub(super) struct Types {
    /// The types allowed.
    pub(super) any_of: Vec<Type>,
    /// Written as a list, which changes the message.
    pub(super) listed: bool,
}

/// A type by its JSON Schema name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
    /// Lua's own: array or object.
    Table,
}

impl Type {
    /// The types and their names.
    const NAMES: [(&'static str, Self); 8] = [
        ("null", Self::Null),
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("string", Self::String),
        ("array", Self::Array),
        ("object", Self::Object),
        ("table", Self::Table),
    ];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind)
    }

    fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Integer, Value::Number(number)) => number.as_f64().is_some_and(|n| n.fract() == 0.0),
            // In Lua an empty table is both.
            (Self::Array, Value::Object(fields)) => fields.is_empty(),
            (Self::Object, Value::Array(items)) => items.is_empty(),
            (Self::Null, Value::Null)
            | (Self::Boolean, Value::Bool(_))
            | (Self::Number, Value::Number(_))
            | (Self::String, Value::String(_))
            | (Self::Array | Self::Table, Value::Array(_))
            | (Self::Object | Self::Table, Value::Object(_)) => true,
            _ => false,
        }
    }

    /// Gives an accepted value the form that other readers expect of this type.
    fn settle(self, value: &mut Value) {
        /// 2^53: from here on floats are whole for want of digits.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match (self, &*value) {
            (Self::Array, Value::Object(_)) => *value = Value::Array(Vec::new()),
            (Self::Object, Value::Array(_)) => *value = Value::Object(serde_json::Map::new()),
            (Self::Integer, Value::Number(number)) if number.is_f64() => {
                if let Some(whole) = number.as_f64().filter(|n| n.abs() < EXACT) {
                    *value = Value::Number(Number::from(whole as i64));
                }
            }
            _ => {}
        }
    }
}

impl Types {
    pub(super) fn accept(&self, value: &Value) -> bool {
        self.any_of.iter().any(|kind| kind.accepts(value))
    }

    fn check(&self, value: &mut Value, walk: &mut Walk) -> Verdict {
        if self.accept(value) {
            if let [only] = self.any_of[..] {
                only.settle(value);
            }
            return Ok(());
        }
        let names: Vec<_> = self.any_of.iter().map(|kind| kind.name()).collect();
        let (one_of, got) = (if self.listed { "one of " } else { "" }, lua::type_name(value));
        walk.fault(format!("wrong type: expected {one_of}{}, got {got}", names.join(", ")))
    }

    fn are_string_alone(&self) -> bool {
        !self.listed && self.any_of == [Type::String]
    }
}

impl Node {
    /// Checks `value`, filling in defaults on the way. Recursion is bounded by the schema's depth.
    pub(super) fn check(&self, value: &mut Value, walk: &mut Walk) -> Verdict {
        match self {
            Self::Anything => Ok(()),
            Self::Nothing => walk.fault("expect false always"),
            Self::Rules(rules) => rules.check(value, walk),
        }
    }

    /// Its rules, unless it is `true` or `false`.
    pub(super) fn rules(&self) -> Option<&Rules> {
        match self {
            Self::Rules(rules) => Some(rules),
            Self::Anything | Self::Nothing => None,
        }
    }
}

impl Rules {
    fn check(&self, value: &mut Value, walk: &mut Walk) -> Verdict {
        let strings_only = self.types.as_ref().is_none_or(Types::are_string_alone);
        if strings_only && lua::is_secret_reference(value) {
            return Ok(());
        }
        if let Some(types) = &self.types {
            // Of a value of the wrong type nothing else is worth saying.
            types.check(value, walk)?;
        }
        let mut first = First::default();
        let empty = lua::is_empty_table(value);
        if let Some(fields) = &self.fields {
            first.note(fields.check(value, empty, walk), walk)?;
        }
        if let Some(items) = &self.items {
            first.note(items.check(value, empty, walk), walk)?;
        }
        if let (Some(rules), Value::String(text)) = (&self.text, &*value) {
            first.note(rules.check(text, walk), walk)?;
        }
        if let (Some(rules), Some(number)) = (&self.number, value.as_f64()) {
            first.note(rules.check(number, walk), walk)?;
        }
        if self.values.as_ref().is_some_and(|allowed| !allowed.contains(&lua::canonical(value))) {
            first.note(walk.fault("matches none of the enum values"), walk)?;
        }
        first.note(self.combinations.check(value, walk), walk)?;
        if let (Some(format), Value::String(text)) = (&self.format, &*value) {
            first.note(format.check(text, walk), walk)?;
        }
        if self.constant.as_ref().is_some_and(|constant| *constant != lua::canonical(value)) {
            first.note(walk.fault("failed to check const value"), walk)?;
        }
        if let Some(wanted) = &self.contains {
            first.note(contains(wanted, value, walk), walk)?;
        }
        first.verdict()
    }
}

fn contains(wanted: &Node, value: &mut Value, walk: &mut Walk) -> Verdict {
    let Value::Array(items) = value else { return Ok(()) };
    if items.is_empty() {
        return walk.fault("check contains: empty array is invalid");
    }
    // Every item is tried, as in APISIX: trying fills in defaults.
    let matches =
        items.iter_mut().filter_map(|item| walk.passes(|walk| wanted.check(item, walk)).then_some(()));
    if matches.count() == 0 { walk.fault("failed to check contains") } else { Ok(()) }
}
