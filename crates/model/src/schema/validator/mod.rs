//! A compiled JSON Schema that answers in APISIX's words.
//!
//! APISIX checks configurations with api7/jsonschema, which generates Lua from a schema. Its one-line, nested answer
//! and the order in which it looks are what operators' scripts know, so this interpreter keeps both, and collects the
//! mistakes behind the first as well. No JSON Schema crate of the ecosystem can be asked for that order or wording.
//!
//! What follows Lua rather than the JSON Schema standard:
//! - an empty array and an empty object are the same thing, each accepted where the other is expected;
//! - `1.0` is an integer; `null` is of type `userdata`; an object's properties are looked at in the schema's order
//!   (Lua's own order is that of its hash table);
//! - a `default` is put in place while checking, so what is checked later (`oneOf`, `if`) sees it, and a branch that
//!   fails leaves behind what it filled in before it failed;
//! - `required: []` asks for an empty object; `propertyNames` is ignored;
//! - a string that refers to a secret (`$secret://`, `$env://`) passes wherever a string may stand.

mod array;
mod combine;
mod compile;
mod keywords;
mod node;
mod object;
mod scalar;
mod unknown;
mod walk;

use crate::ConfigError;
use node::Node;
use serde_json::Value;
use walk::Walk;

/// Levels a value may nest: serde_json's own limit on what it parses, held here also for values made otherwise.
pub const VALUE_DEPTH: usize = 128;

/// Levels a schema may nest, references followed; APISIX's deepest has about a dozen. It bounds the recursion of
/// compiling and checking to stacks of 2 MiB even in unoptimised builds.
pub const SCHEMA_DEPTH: usize = 64;

/// Mistakes listed at most; a document wrong in more places is rarely read further.
pub const MISTAKES: usize = 100;

/// A compiled schema.
#[derive(Debug)]
pub struct Validator {
    root: Node,
}

/// What is wrong with a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Every mistake, in the order found, at most [`MISTAKES`]; empty when the value is acceptable.
    pub errors: Vec<ConfigError>,
    /// The first mistake as the one nested line APISIX answers: `property "uri" validation failed: wrong type: ...`.
    pub first: Option<String>,
}

impl Report {
    /// Whether the value is acceptable.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.first.is_none()
    }
}

impl Validator {
    /// Compiles `schema`: draft 7 without remote references. Keywords it does not know are annotations.
    ///
    /// # Errors
    /// The first thing in the schema that cannot be used, with its place in the schema.
    pub fn compile(schema: &Value) -> Result<Self, ConfigError> {
        compile::compile(schema).map(|root| Self { root })
    }

    /// Names every mistake in `value`, which counts as having its defaults.
    #[must_use]
    pub fn check(&self, value: &Value) -> Report {
        self.walk(value).0
    }

    /// Writes the schema's defaults into `value`, with the reach checking has: nested properties, items, and the
    /// branches of combinations. An empty object where only an array can stand becomes one and the reverse, and a
    /// whole float where only an integer can stand becomes one, so that typed readers need not know Lua. Meant for
    /// values that [`Self::check`] accepts; of others some defaults may be missing.
    pub fn apply_defaults(&self, value: &mut Value) {
        let (_, filled) = self.walk(value);
        if let Some(filled) = filled {
            *value = filled;
        }
    }

    /// The properties that the schema accepts although it names them nowhere, as JSON pointers, at most
    /// [`MISTAKES`]. Objects for which the schema names no property at all are free-form and not looked into.
    #[must_use]
    pub fn unknown_fields(&self, value: &Value) -> Vec<String> {
        if nests_deeper(value, VALUE_DEPTH) { Vec::new() } else { unknown::fields(&self.root, value) }
    }

    /// The mistakes and, unless it nests too deep to be looked at, the value as it stood after the check.
    pub(super) fn walk(&self, value: &Value) -> (Report, Option<Value>) {
        if nests_deeper(value, VALUE_DEPTH) {
            let message = format!("nests deeper than {VALUE_DEPTH} levels");
            let errors = vec![ConfigError::new("", message.as_str())];
            return (Report { errors, first: Some(message) }, None);
        }
        let mut value = value.clone();
        let mut walk = Walk::default();
        let mut first = self.root.check(&mut value, &mut walk).err();
        // A pattern below `not` would let pass what it could not decide.
        if walk.budget.exhausted() && first.is_none() {
            let message = "a pattern needs too many steps on it";
            walk.errors.push(ConfigError::new("", message));
            first = Some(message.to_owned());
        }
        (Report { errors: walk.errors, first }, Some(value))
    }
}

/// Whether arrays and objects nest deeper than `levels`; looks no deeper than that itself.
fn nests_deeper(value: &Value, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else { return value.is_array() || value.is_object() };
    match value {
        Value::Array(items) => items.iter().any(|item| nests_deeper(item, left)),
        Value::Object(fields) => fields.values().any(|field| nests_deeper(field, left)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
