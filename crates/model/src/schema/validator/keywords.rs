//! Reads a schema's keywords, and says where one is not of the form it must have.

use super::scalar::Pattern;
use crate::ConfigError;
use serde_json::{Map, Value};

/// The keywords of one schema and where in the document it stands.
pub(super) struct Keywords<'a> {
    pub(super) map: &'a Map<String, Value>,
    pub(super) path: String,
}

impl<'a> Keywords<'a> {
    /// An error about the keyword `name`.
    pub(super) fn wrong(&self, name: &str, message: impl Into<String>) -> ConfigError {
        ConfigError::new(format!("{}/{name}", self.path), message)
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name)
    }

    /// Whether any of `names` is there.
    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.map.contains_key(*name))
    }

    /// A size: `minLength`, `maxItems` ...; `3.0` is one.
    pub(super) fn size(&self, name: &str) -> Result<Option<usize>, ConfigError> {
        let Some(number) = self.number(name)? else { return Ok(None) };
        let whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
        if whole {
            Ok(Some(number as usize))
        } else {
            Err(self.wrong(name, "must be a non-negative integer"))
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<f64>, ConfigError> {
        self.read(name, "must be a number", Value::as_f64)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, ConfigError> {
        self.read(name, "must be a string", Value::as_str)
    }

    pub(super) fn list(&self, name: &str) -> Result<Option<&'a Vec<Value>>, ConfigError> {
        self.read(name, "must be an array", Value::as_array)
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, ConfigError> {
        Ok(self.read(name, "must be a boolean", Value::as_bool)?.unwrap_or(false))
    }

    /// The entries of an object-valued keyword; none where it is absent.
    pub(super) fn entries(
        &self,
        name: &str,
    ) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, ConfigError> {
        let map = self.read(name, "must be an object", Value::as_object)?;
        Ok(map.into_iter().flatten())
    }

    pub(super) fn names(&self, name: &str) -> Result<Option<Vec<String>>, ConfigError> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        strings(list).map(Some).ok_or_else(|| self.wrong(name, "must be an array of strings"))
    }

    /// Compiles `text`, which stands at the keyword `name`, as a regular expression.
    pub(super) fn pattern(&self, name: &str, text: &str) -> Result<Pattern, ConfigError> {
        Pattern::compile(text)
            .map_err(|error| self.wrong(name, format!("is not a regular expression: {error}")))
    }

    fn read<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(name, expected))
    }
}

/// The strings of an array that holds nothing else.
pub(super) fn strings(list: &[Value]) -> Option<Vec<String>> {
    list.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}
