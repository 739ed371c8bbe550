//! Validates header fields and bodies of requests against JSON Schemas.
//!
//! ## When to use
//! Use it to keep malformed requests from a service that does not validate its input. The body is parsed as JSON, or
//! as a form if its media type says so. The upstream receives the validated JSON serialized again, so that
//! differences between parsers cannot be exploited.
//!
//! ## Example
//! ```json
//! {
//!     "request-validation": {
//!         "body_schema": {
//!             "type": "object",
//!             "required": ["amount"],
//!             "properties": {"amount": {"type": "integer", "minimum": 1}}
//!         },
//!         "rejected_code": 422
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - Messages about invalid JSON differ.
//! - A form is recognised by its complete media type, not by a prefix.

use model::ConfigError;
use model::schema::{Validator, parts};
use plugin::{
    BodyVars, CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef, Reply, WholeBody, form_fields,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<RequestValidation>("request-validation", 2800).on_rewrite().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    header_schema: Option<Value>,
    body_schema: Option<Value>,
    max_req_body_size: usize,
    rejected_code: u16,
    rejected_msg: Option<String>,
}

/// The compiled form.
pub struct RequestValidation {
    fields: Option<Fields>,
    body: Option<Validator>,
    body_bytes_max: usize,
    rejected_code: u16,
    rejected_msg: Option<String>,
}

/// The schema of the header fields.
struct Fields {
    validator: Validator,
    /// Names in the schema, as it spells them: fields are found whatever their case.
    spelled: Vec<String>,
}

impl Plugin for RequestValidation {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let mut validator = |schema: &Option<Value>, path: &str| {
            let compiled = schema.as_ref().map(Validator::compile).transpose();
            compiled.map_err(|error| errors.push(error.under(path))).ok().flatten()
        };
        let fields = validator(&config.header_schema, "/header_schema");
        let body = validator(&config.body_schema, "/body_schema");
        if !errors.is_empty() {
            return Err(errors);
        }
        let spelled = config.header_schema.as_ref().map(spelled).unwrap_or_default();
        Ok(Self {
            fields: fields.map(|validator| Fields { validator, spelled }),
            body,
            body_bytes_max: config.max_req_body_size,
            rejected_code: config.rejected_code,
            rejected_msg: config.rejected_msg,
        })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "header_schema": {"description": "JSON Schema of the header fields", "type": "object"},
                "body_schema": {"description": "JSON Schema of the body", "type": "object"},
                "max_req_body_size": parts::body_limit("bytes of a body that are held; a request with a longer one is rejected"),
                "rejected_code": {"type": "integer", "minimum": 200, "maximum": 599, "default": 400},
                "rejected_msg": {"type": "string", "minLength": 1, "maxLength": 256}
            },
            "anyOf": [{"required": ["header_schema"]}, {"required": ["body_schema"]}]
        })
    }
}

impl OnRewrite for RequestValidation {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        if let Some(fields) = &self.fields
            && let Some(why) = fields.validator.check(&fields.object(exchange)).first
        {
            return self.reject(Some(why));
        }
        let Some(validator) = &self.body else { return Flow::Next };
        let body = match exchange.request.whole_body(self.body_bytes_max) {
            WholeBody::Unread => return Flow::Body(self.body_bytes_max),
            WholeBody::TooLong | WholeBody::Whole(b"") => return self.reject(None),
            WholeBody::Whole(body) => body,
        };
        let mut types = exchange.request.view.headers(b"content-type");
        let is_form = types.next().is_some_and(BodyVars::is_form);
        if types.next().is_some() {
            // Of two types the upstream might believe the other one.
            return self.reject(None);
        }
        let read = if is_form { Ok(form_fields(body)) } else { serde_json::from_slice(body) };
        let value = match read {
            Ok(value) => value,
            Err(error) => return self.reject(Some(error.to_string())),
        };
        if let Some(why) = validator.check(&value).first {
            return self.reject(Some(why));
        }
        if !is_form {
            exchange.request.edit().body = Some(value.to_string().into_bytes().into());
        }
        Flow::Next
    }
}

impl RequestValidation {
    fn reject(&self, why: Option<String>) -> Flow {
        Flow::reply(match self.rejected_msg.clone().or(why) {
            Some(message) => Reply::text(self.rejected_code, message),
            None => Reply::status(self.rejected_code),
        })
    }
}

impl Fields {
    /// The header as an object: a field that is there several times is an array.
    fn object(&self, exchange: &Exchange<'_>) -> Value {
        let view = exchange.request.view;
        let mut object = Map::new();
        for field in &view.head.fields {
            let name = String::from_utf8_lossy(field.name.get(view.bytes));
            let value = Value::from(String::from_utf8_lossy(field.value.get(view.bytes)));
            let spelled = self.spelled.iter().find(|spelled| spelled.eq_ignore_ascii_case(&name));
            let key = spelled.cloned().unwrap_or_else(|| name.to_ascii_lowercase());
            match object.get_mut(&key) {
                None => {
                    object.insert(key, value);
                }
                Some(Value::Array(values)) => values.push(value),
                Some(first) => *first = json!([first.take(), value]),
            }
        }
        Value::Object(object)
    }
}

/// The names that a schema's own `properties` and `required` spell.
fn spelled(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let names = properties.into_iter().flat_map(|properties| properties.keys().cloned());
    let required = required.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned));
    names.chain(required).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    /// The status, and the body of the answer, or the one that goes to the upstream.
    fn run(config: &Value, request: &str, body: &str) -> (u16, String) {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        let chain = testkit::chain(&registry, &json!({"request-validation": config})).expect("valid");
        let bench = Bench::new(&format!("{request}\nContent-Length: {}", body.len())).with_body(body);
        let mut exchange = bench.exchange();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match testkit::request(&chain, &mut exchange) {
            Some(reply) => (reply.status, reply.body.as_deref().map(text).unwrap_or_default()),
            None => match exchange.request.whole_body(usize::MAX) {
                WholeBody::Whole(body) => (0, text(body)),
                other => panic!("{other:?}"),
            },
        }
    }

    #[test]
    fn what_the_schemas_allow_goes_on() {
        let body = json!({"body_schema": {"required": ["a"], "properties": {"a": {"type": "string"}}}});
        let short = json!({"body_schema": {}, "max_req_body_size": 3});
        let header =
            json!({"header_schema": {"required": ["X-A"], "properties": {"X-A": {"pattern": "^1"}}}});
        let many = json!({"header_schema": {"properties": {"x-a": {"type": "array"}}}});
        let form = "POST /\nContent-Type: application/x-www-form-urlencoded";
        let missing = "property \"a\" is required";
        for (config, request, sent, status, text) in [
            (&body, "POST /", "{\"a\" : \"b\"}", 0, "{\"a\":\"b\"}"),
            (&body, "POST /", "{\"a\":1,\"a\":\"b\"}", 0, "{\"a\":\"b\"}"),
            (&body, "POST /", "{}", 400, missing),
            (&body, "POST /", "", 400, ""),
            (&body, "POST /", "{", 400, "EOF while parsing an object at line 1 column 1"),
            (&body, form, "a=b&c", 0, "a=b&c"),
            (&body, form, "b=a", 400, missing),
            (&body, "POST /\nContent-Type: a/b\nContent-Type: a/b", "{\"a\":\"b\"}", 400, ""),
            (&short, "POST /", "1234", 400, ""),
            (&header, "POST /\nx-a: 12", "any", 0, "any"),
            (&many, "POST /\nX-A: 1\nX-A: 2", "any", 0, "any"),
        ] {
            assert_eq!(run(config, request, sent), (status, text.to_owned()), "{config} {request} {sent}");
        }
        assert_eq!(run(&header, "POST /\nx-a: 2", "").0, 400);
        assert_eq!(run(&header, "POST /", "").0, 400);
        let custom = json!({"body_schema": {"required": ["a"]}, "rejected_code": 422, "rejected_msg": "no"});
        assert_eq!(run(&custom, "POST /", "{}"), (422, "no".to_owned()));
    }

    #[test]
    fn a_broken_schema_is_refused() {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        for config in
            [json!({}), json!({"body_schema": {"type": 1}}), json!({"header_schema": {"required": 1}})]
        {
            assert!(testkit::chain(&registry, &json!({"request-validation": config})).is_err(), "{config}");
        }
    }
}
