//! Puts the values of references in their place.

use crate::limits::VALUE_DEPTH_MAX;
use crate::reference::{self, ManagedRef, Reference};
use crate::references::References;
use serde_json::{Map, Value};
use std::time::Instant;

/// Resolves the references of one resource.
pub(crate) struct Resolver<'a> {
    pub(crate) references: &'a References,
    /// Until when values not known yet are waited for.
    pub(crate) until: Instant,
    /// The resource's store key, for messages.
    pub(crate) key: &'a str,
    /// The managed references met, resolved or not.
    pub(crate) met: Vec<ManagedRef>,
}

impl Resolver<'_> {
    /// Resolves all references in `value`; how many could not be. Those stay as they are, and are logged without the
    /// secrets around them.
    pub(crate) fn value(&mut self, value: &mut Value, field: &str) -> usize {
        self.walk(value, field, VALUE_DEPTH_MAX)
    }

    /// The same for every field of an object.
    pub(crate) fn fields(&mut self, fields: &mut Map<String, Value>) -> usize {
        fields.iter_mut().map(|(name, value)| self.walk(value, name, VALUE_DEPTH_MAX)).sum()
    }

    fn walk(&mut self, value: &mut Value, field: &str, depth: usize) -> usize {
        let Some(depth) = depth.checked_sub(1) else { return 0 };
        match value {
            Value::Object(fields) => {
                fields.iter_mut().map(|(name, value)| self.walk(value, name, depth)).sum()
            }
            Value::Array(items) => items.iter_mut().map(|item| self.walk(item, field, depth)).sum(),
            Value::String(text) => {
                let Some(parsed) = Reference::parse(text) else { return 0 };
                let found = parsed.map_err(str::to_owned).and_then(|parsed| self.look_up(text, &parsed));
                match found {
                    Ok(found) => {
                        *value = found;
                        0
                    }
                    Err(error) => {
                        let key = self.key;
                        tracing::error!(
                            "failed to resolve secret reference: {text}, field: {field}, of {key}: {error}"
                        );
                        1
                    }
                }
            }
            _ => 0,
        }
    }

    fn look_up(&mut self, text: &str, parsed: &Reference<'_>) -> Result<Value, String> {
        match parsed {
            Reference::Env { name, field } => reference::env(name, *field, &|name| std::env::var(name).ok()),
            Reference::Managed { .. } => {
                let reference = ManagedRef(text.into());
                let found = self.references.value(&reference, self.until);
                self.met.push(reference);
                found
            }
        }
    }
}
