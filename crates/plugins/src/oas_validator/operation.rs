//! One operation: a method on a path.

use super::parameter::{Arguments, Parameter, Place, arguments, object};
use super::schema::Resolver;
use model::schema::Validator;
use plugin::Request;
use serde_json::Value;
use std::borrow::Cow;

/// What of a request is checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checks {
    pub(super) path: bool,
    pub(super) query: bool,
    pub(super) header: bool,
    pub(super) body: bool,
}

/// An operation.
pub(super) struct Operation {
    parameters: Vec<Parameter>,
    body: Option<Body>,
}

/// The body of an operation.
struct Body {
    required: bool,
    /// By media type or range: `application/json`, `text/*`.
    media: Vec<(String, Option<Media>)>,
}

struct Media {
    schema: Value,
    validator: Validator,
}

impl Operation {
    /// Compiles an operation, with the parameters that its path has for all of them.
    pub(super) fn compile(
        written: &Value,
        shared: &[Value],
        resolver: &mut Resolver<'_>,
    ) -> Result<Self, String> {
        let mut parameters: Vec<Parameter> = Vec::new();
        let own = written.get("parameters").and_then(Value::as_array).into_iter().flatten();
        for parameter in shared.iter().chain(own) {
            let parameter = resolver.named(parameter)?.clone();
            if let Some(parameter) = Parameter::compile(&parameter, resolver)? {
                // The operation's own takes the place of the path's.
                parameters.retain(|other| other.name != parameter.name || other.place != parameter.place);
                parameters.push(parameter);
            }
        }
        let body = match written.get("requestBody") {
            None => None,
            Some(body) => {
                let body = resolver.named(body)?.clone();
                let mut media = Vec::new();
                for (kind, described) in body.get("content").and_then(Value::as_object).into_iter().flatten()
                {
                    let compiled = match described.get("schema") {
                        Some(schema) => Some(Media {
                            validator: resolver
                                .validator(schema)
                                .map_err(|why| format!("a body of {kind}: {why}"))?,
                            schema: resolver.schema(schema)?,
                        }),
                        None => None,
                    };
                    media.push((essence(kind.as_bytes()), compiled));
                }
                Some(Body { required: body.get("required") == Some(&Value::Bool(true)), media })
            }
        };
        Ok(Self { parameters, body })
    }

    /// Checks a request, whose path has these parameters.
    pub(super) fn check(
        &self,
        request: &Request<'_>,
        path: &[(String, String)],
        body: &[u8],
        checks: Checks,
    ) -> Result<(), String> {
        let query = if checks.query { arguments(request.query()) } else { Arguments::new() };
        for parameter in &self.parameters {
            let name = parameter.name.as_str();
            let text = match parameter.place {
                Place::Path if checks.path => path
                    .iter()
                    .find(|(other, _)| other == name)
                    .map(|(_, value)| Cow::Borrowed(value.as_str())),
                Place::Query if checks.query => None,
                Place::Header if checks.header => {
                    let list = request.header_list(name.as_bytes());
                    list.map(|value| Cow::Owned(String::from_utf8_lossy(&value).into_owned()))
                }
                Place::Cookie if checks.header => {
                    request.cookie(name.as_bytes()).map(String::from_utf8_lossy)
                }
                _ => continue,
            };
            parameter.check(text, &query)?;
        }
        match &self.body {
            Some(described) if checks.body => described.check(request, body),
            _ => Ok(()),
        }
    }
}

impl Body {
    fn check(&self, request: &Request<'_>, body: &[u8]) -> Result<(), String> {
        if body.is_empty() {
            return if self.required { Err("the request body is missing".to_owned()) } else { Ok(()) };
        }
        let kind = essence(request.header(b"content-type").unwrap_or(b"application/json"));
        let range = format!("{}/*", kind.split('/').next().unwrap_or_default());
        let find = |wanted: &str| self.media.iter().find(|(other, _)| other == wanted);
        let found = find(&kind).or_else(|| find(&range)).or_else(|| find("*/*"));
        let media = match found {
            Some((_, Some(media))) => media,
            Some((_, None)) => return Ok(()),
            None if self.media.is_empty() => return Ok(()),
            None => return Err(format!("the request body's type {kind} is not described")),
        };
        let value = if kind == "application/json" || kind.ends_with("+json") {
            serde_json::from_slice(body).map_err(|error| format!("the request body is not JSON: {error}"))?
        } else if kind == "application/x-www-form-urlencoded" {
            let fields = arguments(body);
            Value::Object(object(
                fields.iter().map(|(name, value)| (name.clone(), value.as_str())),
                &media.schema,
            ))
        } else {
            return Ok(());
        };
        media.validator.check(&value).first.map_or(Ok(()), |why| Err(format!("the request body: {why}")))
    }
}

/// A media type without its parameters, in lower case.
fn essence(kind: &[u8]) -> String {
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    String::from_utf8_lossy(kind.trim_ascii()).to_ascii_lowercase()
}
