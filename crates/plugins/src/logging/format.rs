//! Entries that the user has laid out: `log_format`.

use model::ConfigError;
use model::var::{BodyNeed, Var};
use serde_json::{Map, Value};

/// How deep objects may stand in each other; what is deeper is left out, as by APISIX.
const DEPTH_MAX: usize = 5;

/// What nobody but a logger knows, and what no other variable's value is: bytes of a whole body.
const REQUEST_BODY: &str = "request_body";

/// A `log_format`, parsed.
#[derive(Debug, Default)]
pub(super) struct Format(Vec<(String, Part)>);

#[derive(Debug)]
enum Part {
    Var(Var),
    RequestBody,
    Literal(Value),
    Object(Format),
}

impl Format {
    /// Parses the members of `format`, which stands at `path`.
    ///
    /// # Errors
    /// Every variable that can't be one.
    pub(super) fn compile(format: &Map<String, Value>, path: &str) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let format = Self::parse(format, path, 1, &mut errors);
        if errors.is_empty() { Ok(format) } else { Err(errors) }
    }

    fn parse(format: &Map<String, Value>, path: &str, depth: usize, errors: &mut Vec<ConfigError>) -> Self {
        let mut parts = Vec::new();
        for (name, value) in format {
            let path = format!("{path}/{name}");
            let part = match value {
                Value::Object(_) if depth >= DEPTH_MAX => Part::Literal(Value::Object(Map::new())),
                Value::Object(inner) => Part::Object(Self::parse(inner, &path, depth + 1, errors)),
                Value::String(text) => match text.strip_prefix('$') {
                    None => Part::Literal(value.clone()),
                    Some(REQUEST_BODY) => Part::RequestBody,
                    Some(var) => match Var::try_parse(var) {
                        Ok(var) => Part::Var(var),
                        Err(error) => {
                            errors.push(ConfigError::new(path, error));
                            continue;
                        }
                    },
                },
                other => Part::Literal(other.clone()),
            };
            parts.push((name.clone(), part));
        }
        Self(parts)
    }

    /// The entry, of the variables' values and the request's body; what has no value is left out.
    pub(super) fn fill<'v>(
        &self,
        value: &impl Fn(&Var) -> Option<Value>,
        body: &impl Fn() -> Option<&'v [u8]>,
    ) -> Map<String, Value> {
        let filled = self.0.iter().filter_map(|(name, part)| {
            let value = match part {
                Part::Var(var) => value(var)?,
                Part::RequestBody => text(body()?),
                Part::Literal(literal) => literal.clone(),
                Part::Object(format) => Value::Object(format.fill(value, body)),
            };
            Some((name.clone(), value))
        });
        filled.collect()
    }

    /// Whether the request's body is in it.
    pub(super) fn has_body(&self) -> bool {
        self.any(&|part| matches!(part, Part::RequestBody))
    }

    /// Whether a field of the response is in it.
    pub(super) fn has_response_fields(&self) -> bool {
        self.any(&|part| matches!(part, Part::Var(Var::SentHttp(_))))
    }

    fn any(&self, is: &impl Fn(&Part) -> bool) -> bool {
        self.0.iter().any(|(_, part)| match part {
            Part::Object(format) => format.any(is),
            part => is(part),
        })
    }

    /// What its variables are made from of the request's body.
    pub(super) fn body_need(&self) -> BodyNeed {
        let needs = self.0.iter().map(|(_, part)| match part {
            Part::Var(var) => var.body_need(),
            Part::Object(format) => format.body_need(),
            _ => BodyNeed::default(),
        });
        needs.collect()
    }
}

/// Bytes as text; what is no UTF-8 has replacement characters.
pub(super) fn text(bytes: &[u8]) -> Value {
    Value::from(String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_variables_text_or_objects() {
        let deep = json!({"1": {"2": {"3": {"4": {"5": "$host"}}}}});
        let all = json!({
            "host": "$host", "text": "a $host", "number": 3, "none": "$none", "in": {"body": "$request_body"}, "deep": deep
        });
        let format = Format::compile(all.as_object().unwrap(), "/log_format").unwrap();
        let value = |var: &Var| (*var == Var::Host).then(|| "a.com".into());
        let filled = format.fill(&value, &|| Some(b"b"));
        let deep = json!({"1": {"2": {"3": {"4": {}}}}});
        let expected =
            json!({"host": "a.com", "text": "a $host", "number": 3, "in": {"body": "b"}, "deep": deep});
        assert_eq!(Value::Object(filled), expected);
        assert!(format.has_body() && !format.has_response_fields());
        let wrong = json!({"a": {"b": "$post_arg.["}});
        let errors = Format::compile(wrong.as_object().unwrap(), "/log_format").unwrap_err();
        assert_eq!(errors[0].path, "/log_format/a/b");
    }
}
