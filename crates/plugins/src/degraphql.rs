//! Makes a GraphQL request of a plain one.
//!
//! ## When to use
//! To offer a GraphQL query as a REST endpoint: the query is the gateway's, the client only says its variables.
//!
//! ## Example
//! ```json
//! {
//!     "degraphql": {
//!         "query": "query ($name: String!) { persons(filter: { name: $name }) { name blog } }",
//!         "variables": ["name"]
//!     }
//! }
//! ```
//! A POST says the variables in a JSON object, a GET as arguments. Other methods get 405.
//!
//! ## Differences from APISIX
//! None.

use crate::identity::encode_args;
use crate::text::decode_arg;
use model::ConfigError;
use plugin::{
    CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef, WholeBody, graphql_definitions, log_for,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Degraphql>("degraphql", 509).on_access().build()
}

/// The configuration, and the compiled form: there is nothing to compile.
#[derive(Debug, Deserialize)]
pub struct Degraphql {
    max_req_body_size: usize,
    query: String,
    variables: Option<Vec<String>>,
    operation_name: Option<String>,
}

impl Plugin for Degraphql {
    type Config = Self;

    fn compile(config: Self, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let refuse = |path: &str, message: &str| Err(vec![ConfigError::new(path, message)]);
        match graphql_definitions(&config.query) {
            None => refuse("/query", "failed to parse query: it is no GraphQL document"),
            Some(count) if count > 1 && config.operation_name.is_none() => {
                refuse("", "operation_name is required if multiple operations are present in the query")
            }
            Some(_) => Ok(config),
        }
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "max_req_body_size": {
                    "description": "Bytes of a request's body that are held; a longer one gets 413.",
                    "type": "integer", "minimum": 1, "default": 67_108_864
                },
                "query": {"description": "The GraphQL document.", "type": "string", "minLength": 1, "maxLength": 1024},
                "variables": {
                    "description": "The names of the variables that clients say.",
                    "type": "array", "items": {"type": "string"}, "minItems": 1
                },
                "operation_name": {
                    "description": "The operation, where the document has several.",
                    "type": "string", "minLength": 1, "maxLength": 1024
                }
            },
            "required": ["query"]
        })
    }
}

impl OnAccess for Degraphql {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        match exchange.request.method() {
            b"POST" => self.post(exchange),
            b"GET" => {
                self.get(exchange);
                Flow::Next
            }
            _ => Flow::status(405),
        }
    }
}

impl Degraphql {
    /// What a request has besides its variables.
    fn request(&self) -> Map<String, Value> {
        let name =
            self.operation_name.as_ref().map(|name| ("operationName".to_owned(), name.as_str().into()));
        name.into_iter().chain([("query".to_owned(), self.query.as_str().into())]).collect()
    }

    fn post(&self, exchange: &mut Exchange<'_>) -> Flow {
        let body = match exchange.request.whole_body(self.max_req_body_size) {
            WholeBody::Unread => return Flow::Body(self.max_req_body_size),
            WholeBody::TooLong => return Flow::status(413),
            WholeBody::Whole(body) => body,
        };
        let mut request = self.request();
        if let Some(names) = &self.variables {
            let Ok(Value::Object(said)) = serde_json::from_slice::<Value>(body) else {
                log_for!(error, exchange, "degraphql: the request's body is missing, or no JSON object");
                return Flow::status(400);
            };
            let said = names.iter().filter_map(|name| Some((name.clone(), said.get(name)?.clone())));
            request.insert("variables".to_owned(), Value::Object(said.collect()));
        }
        if body.is_empty() {
            // A request without a body can't be given one on its way.
            log_for!(error, exchange, "degraphql: the request has no body");
            return Flow::status(400);
        }
        let edits = exchange.request.edit();
        edits.headers.set("Content-Type", "application/json");
        edits.body = Some(Arc::from(Value::Object(request).to_string().into_bytes()));
        Flow::Next
    }

    fn get(&self, exchange: &mut Exchange<'_>) {
        let mut pairs = Vec::new();
        if let Some(names) = &self.variables {
            let said = names.iter().filter_map(|name| {
                let value = decode_arg(exchange.request.arg(name.as_bytes())?).into_owned();
                Some((name.clone(), Value::from(String::from_utf8_lossy(&value).into_owned())))
            });
            pairs.push(("variables", Value::Object(said.collect()).to_string()));
        }
        pairs.extend(self.operation_name.clone().map(|name| ("operationName", name)));
        pairs.push(("query", self.query.clone()));
        exchange.request.set_query(encode_args(&pairs).into_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Registry};

    fn chain(config: &Value) -> Result<Chain, Vec<ConfigError>> {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        testkit::chain(&registry, &json!({ "degraphql": config }))
    }

    #[test]
    fn variables_become_part_of_the_query() {
        let with =
            chain(&json!({"query": "query ($a: Int) { x(a: $a) }", "variables": ["a", "b"]})).expect("valid");
        let bench = Bench::new("POST /\nContent-Length: 17").with_body(r#"{"a":1,"other":2}"#);
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(&with, &mut exchange), 0);
        let edits = exchange.request.edit();
        let body: Value = serde_json::from_slice(edits.body.as_deref().expect("a body")).expect("JSON");
        assert_eq!(body, json!({"query": "query ($a: Int) { x(a: $a) }", "variables": {"a": 1}}));
        let bench = Bench::new("GET /?a=1%26&c=2");
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(&with, &mut exchange), 0);
        let query = String::from_utf8(exchange.request.query().to_vec()).expect("text");
        assert!(query.starts_with("variables=%7B%22a%22%3A%221%26%22%7D&query=query%20"), "{query}");
        for (request, body, status) in [
            ("PUT /", "", 405),
            ("POST /\nContent-Length: 1", "x", 400),
            ("POST /\nContent-Length: 2", "[]", 400),
            ("POST /", "", 400),
        ] {
            let bench = Bench::new(request).with_body(body);
            assert_eq!(testkit::access(&with, &mut bench.exchange()), status, "{request} {body}");
        }
    }

    #[test]
    fn documents_that_cannot_be_asked_are_refused() {
        for (config, ok) in [
            (json!({"query": "{ a }"}), true),
            (json!({"query": "{ a"}), false),
            (json!({"query": "AAAAA"}), false),
            (json!({"query": "query a { b } query c { d }"}), false),
            (json!({"query": "query a { b } query c { d }", "operation_name": "a"}), true),
            (json!({}), false),
        ] {
            assert_eq!(chain(&config).is_ok(), ok, "{config}");
        }
    }
}
