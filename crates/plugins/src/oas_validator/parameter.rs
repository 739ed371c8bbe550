//! Parameters of an operation, and what a request says for them.

use super::schema::Resolver;
use crate::text::decode_arg;
use model::schema::Validator;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Where a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

/// A parameter.
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) required: bool,
    style: Style,
    schema: Value,
    validator: Option<Validator>,
}

/// How lists and objects are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// With this character between the members.
    Separated(char),
    /// One argument a member.
    Exploded,
    /// `name[member]=value`
    Deep,
    /// As JSON.
    Json,
}

/// The arguments of a query, decoded.
pub(super) type Arguments = Vec<(String, String)>;

/// Reads a query or a form.
pub(super) fn arguments(query: &[u8]) -> Arguments {
    let decode = |text: &[u8]| String::from_utf8_lossy(&decode_arg(text)).into_owned();
    let pairs = query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| match pair.iter().position(|byte| *byte == b'=') {
            Some(at) => (decode(&pair[..at]), decode(&pair[at + 1..])),
            None => (decode(pair), String::new()),
        })
        .collect()
}

impl Parameter {
    pub(super) fn compile(written: &Value, resolver: &mut Resolver<'_>) -> Result<Option<Self>, String> {
        let text = |name: &str| written.get(name).and_then(Value::as_str);
        let name = text("name").ok_or("a parameter has no name")?.to_owned();
        let place = match text("in") {
            Some("path") => Place::Path,
            Some("query") => Place::Query,
            Some("header") => Place::Header,
            Some("cookie") => Place::Cookie,
            _ => return Err(format!("the parameter {name} is nowhere")),
        };
        // These are described elsewhere (OpenAPI 3.0.3, parameter object).
        if place == Place::Header
            && ["accept", "content-type", "authorization"].contains(&&*name.to_ascii_lowercase())
        {
            return Ok(None);
        }
        let content =
            written.get("content").and_then(Value::as_object).and_then(|content| content.values().next());
        let schema = content.map_or(written.get("schema"), |media| media.get("schema"));
        let default_style = if matches!(place, Place::Query | Place::Cookie) { "form" } else { "simple" };
        let written_style = text("style").unwrap_or(default_style);
        let explode = written.get("explode").and_then(Value::as_bool).unwrap_or(written_style == "form");
        let style = match written_style {
            _ if content.is_some() => Style::Json,
            "deepObject" => Style::Deep,
            "spaceDelimited" if !explode => Style::Separated(' '),
            "pipeDelimited" if !explode => Style::Separated('|'),
            "form" | "spaceDelimited" | "pipeDelimited" if explode && place == Place::Query => {
                Style::Exploded
            }
            _ => Style::Separated(','),
        };
        let required = place == Place::Path || written.get("required") == Some(&Value::Bool(true));
        let schema = schema.map(|schema| resolver.schema(schema)).transpose()?;
        let validator = schema.as_ref().map(Validator::compile).transpose();
        let validator = validator.map_err(|error| format!("the parameter {name}: {}", error.message))?;
        Ok(Some(Self {
            name,
            place,
            required,
            style,
            schema: schema.unwrap_or(Value::Bool(true)),
            validator,
        }))
    }

    /// Checks what a request says for it: one text, or its arguments.
    pub(super) fn check(&self, text: Option<Cow<'_, str>>, arguments: &Arguments) -> Result<(), String> {
        let values = match (self.place, text) {
            (Place::Query, _) => self.of_arguments(arguments),
            (_, None) => Vec::new(),
            (_, Some(text)) => self.of_text(&text),
        };
        if values.is_empty() {
            return if self.required {
                Err(format!("the parameter {} is missing", self.name))
            } else {
                Ok(())
            };
        }
        let Some(validator) = &self.validator else { return Ok(()) };
        let mut first = None;
        for value in &values {
            match validator.check(value).first {
                None => return Ok(()),
                Some(why) => first = first.or(Some(why)),
            }
        }
        Err(format!("the parameter {}: {}", self.name, first.unwrap_or_default()))
    }

    /// The values that arguments may be meant as; none where there is no argument for it.
    fn of_arguments(&self, arguments: &Arguments) -> Vec<Value> {
        let own: Vec<&str> = arguments
            .iter()
            .filter(|(name, _)| *name == self.name)
            .map(|(_, value)| value.as_str())
            .collect();
        let properties = || self.schema.get("properties").and_then(Value::as_object);
        match self.style {
            Style::Deep => {
                let member = |name: &str| {
                    let rest = name.strip_prefix(self.name.as_str())?.strip_prefix('[')?;
                    rest.strip_suffix(']').map(str::to_owned)
                };
                let members =
                    arguments.iter().filter_map(|(name, value)| Some((member(name)?, value.as_str())));
                self.object(members)
            }
            Style::Exploded if has_type(&self.schema, "object") => {
                let members = arguments
                    .iter()
                    .filter(|(name, _)| properties().is_some_and(|all| all.contains_key(name)));
                self.object(members.map(|(name, value)| (name.clone(), value.as_str())))
            }
            Style::Exploded if has_type(&self.schema, "array") && !own.is_empty() => vec![self.list(&own)],
            _ => match own.first() {
                Some(text) => self.of_text(text),
                None => Vec::new(),
            },
        }
    }

    /// The values that a text may be meant as.
    fn of_text(&self, text: &str) -> Vec<Value> {
        match self.style {
            Style::Json => vec![serde_json::from_str(text).unwrap_or_else(|_| text.into())],
            Style::Separated(separator) if has_type(&self.schema, "array") => {
                let items: Vec<_> =
                    if text.is_empty() { Vec::new() } else { text.split(separator).collect() };
                vec![self.list(&items)]
            }
            Style::Separated(separator) if has_type(&self.schema, "object") => {
                let parts: Vec<_> = text.split(separator).collect();
                let pairs: Vec<_> = match parts.iter().all(|part| part.contains('=')) {
                    true => parts.iter().filter_map(|part| part.split_once('=')).collect(),
                    false => {
                        parts.chunks(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect()
                    }
                };
                self.object(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)))
            }
            _ => scalars(text, &self.schema),
        }
    }

    fn list(&self, items: &[&str]) -> Value {
        let schema = self.schema.get("items").unwrap_or(&Value::Bool(true));
        items.iter().map(|item| scalar(item, schema)).collect()
    }

    fn object<'t>(&self, members: impl Iterator<Item = (String, &'t str)>) -> Vec<Value> {
        let object = object(members, &self.schema);
        if object.is_empty() { Vec::new() } else { vec![Value::Object(object)] }
    }
}

/// An object of texts; a member that stands several times is a list.
pub(super) fn object<'t>(
    members: impl Iterator<Item = (String, &'t str)>,
    schema: &Value,
) -> Map<String, Value> {
    let mut object = Map::new();
    for (name, text) in members {
        let of = schema.get("properties").and_then(|all| all.get(&name)).unwrap_or(&Value::Bool(true));
        if has_type(of, "array") {
            let item = scalar(text, of.get("items").unwrap_or(&Value::Bool(true)));
            if let Value::Array(list) = object.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
                list.push(item);
            }
        } else {
            object.insert(name, scalar(text, of));
        }
    }
    object
}

/// Whether a schema says this type.
pub(super) fn has_type(schema: &Value, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(all)) => all.iter().any(|one| one == kind),
        _ => false,
    }
}

/// The value of `text` by the types that a schema says; the text where it is none of them.
fn scalar(text: &str, schema: &Value) -> Value {
    scalars(text, schema).into_iter().next().unwrap_or_else(|| text.into())
}

/// The values that `text` may be meant as, the most particular first. A schema that says no type, as a combination of
/// others, may mean any.
fn scalars(text: &str, schema: &Value) -> Vec<Value> {
    let says = |kind: &str| schema.get("type").is_none() || has_type(schema, kind);
    let mut values = Vec::new();
    if says("integer") || says("number") {
        // A number as JSON writes it: what else parses, such as `inf`, is text.
        let number =
            serde_json::from_str::<Value>(text).ok().filter(|value| value.is_number() && text.trim() == text);
        values.extend(number);
    }
    if says("boolean") {
        values.extend(text.parse::<bool>().ok().map(Value::Bool));
    }
    if has_type(schema, "null") && matches!(text, "" | "null") {
        values.push(Value::Null);
    }
    if says("string") || values.is_empty() {
        values.push(text.into());
    }
    values
}
