//! Schemas of a document as JSON Schemas that stand alone.

use model::schema::Validator;
use serde_json::{Map, Value, json};

/// How deep references are followed. What is deeper isn't checked.
const DEPTH_MAX: usize = 16;

/// Members of all schemas of a document, with what references name: bounds what recursive ones become.
const MEMBERS_MAX: usize = 500_000;

/// Follows the references of a document.
pub(super) struct Resolver<'d> {
    document: &'d Value,
    /// OpenAPI 3.0, whose schemas have words of their own.
    is_old: bool,
    members: usize,
}

impl<'d> Resolver<'d> {
    pub(super) fn new(document: &'d Value) -> Self {
        let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
        Self { document, is_old: version.starts_with("3.0"), members: 0 }
    }

    /// What `value` is, or what it names by `$ref`.
    pub(super) fn named<'v>(&self, value: &'v Value) -> Result<&'v Value, String>
    where
        'd: 'v,
    {
        let mut value = value;
        for _ in 0..DEPTH_MAX {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return Ok(value) };
            value = self.at(reference)?;
        }
        Err("a reference leads to itself".to_owned())
    }

    fn at(&self, reference: &str) -> Result<&'d Value, String> {
        let pointer =
            reference.strip_prefix('#').ok_or_else(|| format!("{reference} is outside of the document"))?;
        let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8_lossy();
        self.document.pointer(&pointer).ok_or_else(|| format!("{reference} names nothing"))
    }

    /// The schema with what its references name put in their place.
    pub(super) fn schema(&mut self, schema: &Value) -> Result<Value, String> {
        self.expand(schema, 0)
    }

    /// Compiles a schema.
    pub(super) fn validator(&mut self, schema: &Value) -> Result<Validator, String> {
        let schema = self.schema(schema)?;
        Validator::compile(&schema).map_err(|error| format!("{}: {}", error.path, error.message))
    }

    fn expand(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        self.members += 1;
        if self.members > MEMBERS_MAX {
            return Err("the document's schemas are too large".to_owned());
        }
        let Some(object) = schema.as_object() else { return Ok(schema.clone()) };
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            if depth >= DEPTH_MAX {
                return Ok(json!({}));
            }
            let target = self.expand(self.at(reference)?, depth + 1)?;
            // In OpenAPI 3.1 what stands beside a reference counts as well.
            let beside: Map<_, _> = object
                .iter()
                .filter(|(name, _)| *name != "$ref")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            if self.is_old || beside.is_empty() {
                return Ok(target);
            }
            return Ok(json!({"allOf": [target, self.expand(&Value::Object(beside), depth)?]}));
        }
        let mut expanded = Map::new();
        for (name, value) in object {
            expanded.insert(name.clone(), self.member(name, value, depth)?);
        }
        self.translate(&mut expanded);
        Ok(Value::Object(expanded))
    }

    /// A member of a schema: those that are schemas, or hold some, are followed into.
    fn member(&mut self, name: &str, value: &Value, depth: usize) -> Result<Value, String> {
        match (name, value) {
            ("properties" | "patternProperties", Value::Object(all)) => {
                let each = all.iter().map(|(name, schema)| Ok((name.clone(), self.expand(schema, depth)?)));
                each.collect::<Result<Map<_, _>, String>>().map(Value::Object)
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(all)) => all
                .iter()
                .map(|schema| self.expand(schema, depth))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            (
                "items"
                | "additionalProperties"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "additionalItems",
                Value::Object(_),
            ) => self.expand(value, depth),
            // They were put in where they are named.
            ("$defs" | "definitions", _) => Ok(json!({})),
            _ => Ok(value.clone()),
        }
    }

    /// What JSON Schema of draft 7 calls otherwise.
    fn translate(&self, schema: &mut Map<String, Value>) {
        if let Some(Value::Array(first)) = schema.remove("prefixItems") {
            let rest = schema.insert("items".to_owned(), Value::Array(first));
            schema.extend(rest.map(|rest| ("additionalItems".to_owned(), rest)));
        }
        if let Some(Value::Object(dependent)) = schema.remove("dependentRequired") {
            schema.insert("dependencies".to_owned(), Value::Object(dependent));
        }
        // The server alone sends what is read only.
        let is_read_only = |schema: &Value| schema.get("readOnly") == Some(&Value::Bool(true));
        let read_only: Vec<String> = schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter(|(_, schema)| is_read_only(schema))
            .map(|(name, _)| name.clone())
            .collect();
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required
                .retain(|name| name.as_str().is_none_or(|name| !read_only.iter().any(|other| other == name)));
        }
        if !self.is_old {
            return;
        }
        if schema.remove("nullable") == Some(Value::Bool(true)) {
            if let Some(Value::String(kind)) = schema.get("type").cloned() {
                schema.insert("type".to_owned(), json!([kind, "null"]));
            }
            if let Some(Value::Array(values)) = schema.get_mut("enum")
                && !values.contains(&Value::Null)
            {
                values.push(Value::Null);
            }
        }
        for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            if let Some(Value::Bool(is_exclusive)) = schema.get(exclusive).cloned() {
                schema.remove(exclusive);
                let value = if is_exclusive { schema.remove(bound) } else { None };
                schema.extend(value.map(|value| (exclusive.to_owned(), value)));
            }
        }
    }
}
