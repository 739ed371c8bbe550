//! Responds with an example or with random data that matches a JSON Schema, without an upstream.
//!
//! ## When to use
//! Use it while the upstream is not implemented yet, so that its clients can be developed.
//!
//! ## Example
//! ```json
//! {
//!     "mocking": {
//!         "content_type": "application/json",
//!         "response_schema": {
//!             "type": "object",
//!             "properties": {
//!                 "name": {"type": "string", "example": "jack"},
//!                 "age": {"type": "integer"},
//!                 "tags": {"type": "array", "items": {"type": "string"}}
//!             }
//!         }
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - `response_status` is between 200 and 999; names in `response_headers` must be valid field names.
//! - A member of `response_schema` without a known `type` is omitted; in APISIX, the request fails.
//! - `X-Mock-By` names Tidegate. XML is escaped and indented with two spaces.

mod generate;
mod xml;

use crate::headers::{self, HeaderOps};
use crate::random::Random;
use crate::status::status;
use model::ConfigError;
use model::var::Template;
use plugin::{CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef, Reply};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Mocking>("mocking", 10_900).on_access().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    delay: i64,
    response_status: u64,
    content_type: String,
    response_example: Option<String>,
    response_schema: Option<Value>,
    with_mock_header: bool,
    response_headers: Option<Map<String, Value>>,
}

/// The compiled form.
pub struct Mocking {
    random: Arc<Random>,
    delay: Duration,
    status: u16,
    content_type: String,
    content: Content,
    shows_maker: bool,
    headers: Vec<(String, Template)>,
}

enum Content {
    Example(Template),
    Json(Value),
    Xml(Value),
}

const TYPES: [&str; 5] = ["application/xml", "application/json", "text/plain", "text/html", "text/xml"];

impl Plugin for Mocking {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let media_type = config.content_type.rsplit_once(';').map_or(&*config.content_type, |(kind, _)| kind);
        if !TYPES.contains(&media_type) {
            return Err(vec![ConfigError::new("/content_type", "unsupported content type!")]);
        }
        let status = status(config.response_status, "/response_status")?;
        let content = match (config.response_example, config.response_schema) {
            (Some(example), _) => Content::Example(Template::parse(&example)),
            (None, schema) if media_type.ends_with("xml") => Content::Xml(schema.unwrap_or_default()),
            (None, schema) if media_type != "text/html" => Content::Json(schema.unwrap_or_default()),
            // As in APISIX: there is no HTML for a schema.
            _ => Content::Example(Template::parse("")),
        };
        Ok(Self {
            random: cx.shared.get(),
            delay: Duration::from_secs(u64::try_from(config.delay).unwrap_or(0)),
            status,
            headers: headers::single(config.response_headers.as_ref(), "/response_headers")
                .map_err(|error| vec![error])?,
            content_type: config.content_type,
            content,
            shows_maker: config.with_mock_header,
        })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "delay": {"description": "Seconds before the answer.", "type": "integer", "default": 0},
                "response_status": {"type": "integer", "default": 200, "minimum": 100},
                "content_type": {"type": "string", "default": "application/json;charset=utf8"},
                "response_example": {"description": "The body; may have variables.", "type": "string"},
                "response_schema": {
                    "description": "The JSON schema of the body, where there is no example.",
                    "type": "object"
                },
                "with_mock_header": {"type": "boolean", "default": true},
                "response_headers": {
                    "type": "object",
                    "minProperties": 1,
                    "patternProperties": {"^[^:]+$": {"oneOf": [{"type": "string"}, {"type": "number"}]}}
                }
            },
            "anyOf": [{"required": ["response_example"]}, {"required": ["response_schema"]}]
        })
    }
}

impl OnAccess for Mocking {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let exchange = &*exchange;
        let data = |schema: &Value| generate::object(schema, &mut |bound| self.random.below(bound, exchange));
        let body = match &self.content {
            Content::Example(template) => HeaderOps::render(template, exchange),
            Content::Json(schema) => data(schema).to_string().into_bytes(),
            Content::Xml(schema) => xml::document("data", &data(schema)).into_bytes(),
        };
        let mut reply = Reply::text(self.status, body).with_header("Content-Type", self.content_type.clone());
        if self.shows_maker {
            reply = reply.with_header("X-Mock-By", concat!("tidegate/", env!("CARGO_PKG_VERSION")));
        }
        for (name, value) in &self.headers {
            reply = reply.with_header(name.clone(), HeaderOps::render(value, exchange));
        }
        let flow = Flow::reply(reply);
        if self.delay.is_zero() { flow } else { exchange.after(self.delay, flow) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    fn reply(config: &Value) -> Reply {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        let chain = testkit::chain(&registry, &json!({"mocking": config})).expect("valid");
        let bench = Bench::new("GET /?a=7");
        let reply = testkit::request(&chain, &mut bench.exchange()).expect("an answer");
        assert_eq!(
            bench.services.slept().as_secs(),
            config.get("delay").and_then(Value::as_u64).unwrap_or(0)
        );
        reply
    }

    #[test]
    fn examples_and_schemas_are_answered_with() {
        let schema = json!({"properties": {"a": {"type": "string", "example": "<x>"}}});
        for (config, body) in [
            (json!({"response_example": "hello $arg_a", "delay": 2}), "hello 7"),
            (json!({"response_schema": schema}), "{\"a\":\"<x>\"}"),
            (json!({"response_schema": schema, "content_type": "text/plain"}), "{\"a\":\"<x>\"}"),
            (json!({"response_schema": schema, "content_type": "text/html"}), ""),
            (
                json!({"response_schema": schema, "content_type": "application/xml;charset=utf8"}),
                "<data>\n  <a>&lt;x&gt;</a>\n</data>\n",
            ),
        ] {
            let reply = reply(&config);
            assert_eq!(String::from_utf8_lossy(&reply.body.expect("a body")), body, "{config}");
        }
    }

    #[test]
    fn fields_tell_the_type_and_what_is_asked_for() {
        let config = json!({"response_example": "", "response_status": 201, "with_mock_header": false, "response_headers": {"X-A": "$arg_a"}});
        let reply = reply(&config);
        assert_eq!(reply.status, 201);
        let fields: Vec<_> =
            reply.headers.iter().map(|(name, value)| (&**name, String::from_utf8_lossy(value))).collect();
        let json = "application/json;charset=utf8";
        assert_eq!(fields, [("Content-Type", json.into()), ("X-A", "7".into())]);
    }

    #[test]
    fn mistakes_are_named() {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        for (config, path) in [
            (json!({}), "/mocking"),
            (json!({"response_example": "", "content_type": "image/png"}), "/mocking/content_type"),
            (json!({"response_example": "", "response_status": 100}), "/mocking/response_status"),
        ] {
            let errors = testkit::chain(&registry, &json!({"mocking": config})).expect_err("refused");
            assert_eq!(errors[0].path, path, "{config}");
        }
    }
}
