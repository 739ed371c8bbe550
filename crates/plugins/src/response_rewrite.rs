//! Rewrites responses: status, header fields and body.
//!
//! ## When to use
//! Use it to hide details of an upstream, to add fields such as those of a security policy, or to replace the bodies
//! of some responses. `vars` selects the responses.
//!
//! ## Example
//! ```json
//! {
//!     "response-rewrite": {
//!         "headers": {
//!             "set": {"X-Served-By": "$balancer_ip:$balancer_port"},
//!             "remove": ["X-Powered-By"]
//!         },
//!         "vars": [["status", "==", 200]]
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - If `filters` cannot buffer a body (`max_resp_body_size`, or 128 MiB of all bodies on a worker) or decompress it, the
//!   response is 502, and the error log reports it. APISIX sends a truncated body.
//! - `filters` decompress gzip and brotli; bodies with other encodings are not changed.
//! - Names in `headers` must be valid field names.
//! - The filter options `i`, `s`, `m` and `x` are supported; `j` and `o` have no effect.

use crate::decoding::Coded;
use crate::headers::{self, HeaderOps};
use crate::text::Substitution;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::ConfigError;
use model::schema::parts;
use model::var::{BodyNeed, Template};
use plugin::{CompileContext, Exchange, Held, OnResponse, Plugin, PluginDef, Replaced, UpstreamResponse};
use router::Expr;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ResponseRewrite>("response-rewrite", 899).on_response().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    max_resp_body_size: usize,
    headers: Option<Map<String, Value>>,
    body: Option<String>,
    body_base64: bool,
    status_code: Option<u16>,
    vars: Option<Value>,
    #[serde(default)]
    filters: Vec<FilterConfig>,
}

#[derive(Debug, Deserialize)]
struct FilterConfig {
    regex: String,
    scope: String,
    replace: String,
    options: String,
}

/// The compiled form.
pub struct ResponseRewrite {
    limit_bytes: usize,
    headers: HeaderOps,
    body: Option<Vec<u8>>,
    status: Option<u16>,
    vars: Option<Expr>,
    filters: Arc<[Filter]>,
}

struct Filter {
    substitution: Substitution,
    global: bool,
}

/// Fields that the framing needs; they are never the configuration's.
const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

impl Plugin for ResponseRewrite {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let body = match config.body {
            Some(text) if config.body_base64 => STANDARD.decode(&text).ok().filter(|body| !body.is_empty()),
            body => body.map(String::into_bytes),
        };
        if config.body_base64 && body.is_none() {
            errors.push(ConfigError::new("/body", "invalid base64 content"));
        }
        let vars = config.vars.as_ref().map(Expr::compile).transpose().unwrap_or_else(|found| {
            errors.extend(found.into_iter().map(|error| {
                let message = format!("failed to validate the 'vars' expression: {}", error.message);
                ConfigError { message, ..error }.under("/vars")
            }));
            None
        });
        let mut filters = Vec::new();
        for (at, filter) in config.filters.iter().enumerate() {
            match filter.compile(&format!("/filters/{at}/regex")) {
                Ok(filter) => filters.push(filter),
                Err(error) => errors.push(error),
            }
        }
        let headers = compile_headers(config.headers.as_ref(), &mut errors);
        errors.extend(headers.check_names().err());
        if !errors.is_empty() {
            return Err(errors);
        }
        let framing = |name: &str| FRAMING.iter().any(|other| other.eq_ignore_ascii_case(name));
        Ok(Self {
            limit_bytes: config.max_resp_body_size,
            headers: headers.without(framing),
            body,
            status: config.status_code,
            vars,
            filters: filters.into(),
        })
    }

    fn body_need(&self) -> BodyNeed {
        self.vars.as_ref().map(Expr::body_need).unwrap_or_default()
    }

    fn schema() -> Value {
        schema()
    }
}

impl FilterConfig {
    fn compile(&self, path: &str) -> Result<Filter, ConfigError> {
        let flags: String = self.options.chars().filter(|option| "ismx".contains(*option)).collect();
        let pattern = if flags.is_empty() { self.regex.clone() } else { format!("(?{flags}){}", self.regex) };
        let substitution = Substitution::compile(&pattern, &self.replace, false, path).map_err(|error| {
            let message = format!("regex \"{}\" validation failed: {}", self.regex, error.message);
            ConfigError { message, ..error }
        })?;
        Ok(Filter { substitution, global: self.scope == "global" })
    }
}

/// The operations; the old form is an object of fields to set. The message is APISIX's.
fn compile_headers(headers: Option<&Map<String, Value>>, errors: &mut Vec<ConfigError>) -> HeaderOps {
    let Some(headers) = headers else { return HeaderOps::default() };
    let list = |name: &str| headers.get(name).and_then(Value::as_array);
    let set = headers.get("set").and_then(Value::as_object);
    if list("add").is_none() && set.is_none() && list("remove").is_none() {
        if headers.values().any(|value| headers::text(value).is_none()) {
            errors.push(ConfigError::new("/headers", "invalid type as header value"));
        }
        return HeaderOps { set: HeaderOps::fields(Some(headers)), ..HeaderOps::default() };
    }
    let line = |line: &Value| {
        let (name, value) = line.as_str()?.split_once(':')?;
        Some((name.trim().to_owned(), Template::parse(value.trim_start())))
    };
    let added = list("add").into_iter().flatten().filter_map(line);
    let (single, add): (Vec<_>, Vec<_>) = added.partition(|(name, _)| headers::is_single(name));
    let single = single.into_iter().map(|(name, value)| (name, vec![value]));
    HeaderOps {
        add,
        set: single.chain(HeaderOps::fields(set)).collect(),
        remove: list("remove").into_iter().flatten().filter_map(headers::text).collect(),
    }
}

impl OnResponse for ResponseRewrite {
    fn response(&self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) {
        if self.vars.as_ref().is_some_and(|vars| !vars.eval(exchange)) {
            return;
        }
        if let Some(status) = self.status {
            exchange.status = status;
        }
        if self.body.is_some() || !self.filters.is_empty() {
            self.change_body(exchange, response);
        }
        if !self.headers.is_empty() {
            let mut edits = std::mem::take(exchange.reply_headers);
            self.headers.apply(exchange, &mut edits);
            *exchange.reply_headers = edits;
        }
    }
}

impl ResponseRewrite {
    fn change_body(&self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) {
        match &self.body {
            Some(body) => exchange.extras().body_filters.push(Replaced(body.clone())),
            None => {
                let encoding = response.header(b"content-encoding", exchange.reply_headers);
                let Some(coded) = Coded::of(encoding) else {
                    tracing::error!(
                        "response-rewrite: filters leave a body as it is whose encoding they don't know"
                    );
                    return;
                };
                let (filters, limit_bytes) = (Arc::clone(&self.filters), self.limit_bytes);
                let transform = move |body| {
                    let plain = coded.decode(body, limit_bytes)?;
                    Ok(filters.iter().fold(plain, |body, filter| filter.apply(body)))
                };
                exchange.extras().body_filters.push(Held::new(limit_bytes, transform));
            }
        }
        HeaderOps::body_changed(exchange.reply_headers);
    }
}

impl Filter {
    /// The body with what matches replaced; as it was where matching takes too long.
    fn apply(&self, body: Vec<u8>) -> Vec<u8> {
        let replaced = if self.global {
            self.substitution.all(&body).map(Some)
        } else {
            self.substitution.first(&body).map(|found| found.map(|(_, body)| body))
        };
        match replaced {
            Ok(Some(replaced)) => replaced,
            Ok(None) => body,
            Err(error) => {
                tracing::error!("response-rewrite: a filter substitutes nothing: {error}");
                body
            }
        }
    }
}

/// APISIX's schema.
fn schema() -> Value {
    let scalar = json!({"oneOf": [{"type": "string"}, {"type": "number"}]});
    let fields = json!({"type": "object", "minProperties": 1, "patternProperties": {"^[^:]+$": scalar}});
    json!({
        "type": "object",
        "properties": {
            "max_resp_body_size": parts::body_limit("bytes of a body, packed and unpacked, that filters hold; a longer one is answered with 502"),
            "headers": {
                "description": "new headers for response",
                "anyOf": [
                    fields,
                    {
                        "properties": {
                            "add": {
                                "type": "array",
                                "minItems": 1,
                                "items": {"type": "string", "pattern": "^[^:]+:[^:]*[^/]$"}
                            },
                            "set": fields,
                            "remove": {
                                "type": "array",
                                "minItems": 1,
                                "items": {"type": "string", "pattern": "^[^:]+$"}
                            }
                        }
                    }
                ]
            },
            "body": {"description": "new body for response", "type": "string"},
            "body_base64": {
                "description": "whether new body for response need base64 decode before return",
                "type": "boolean",
                "default": false
            },
            "status_code": {
                "description": "new status code for response",
                "type": "integer",
                "minimum": 200,
                "maximum": 598
            },
            "vars": {"type": "array"},
            "filters": {
                "description": "replacements in the body",
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "required": ["regex", "replace"],
                    "properties": {
                        "regex": {"type": "string", "minLength": 1},
                        "scope": {"type": "string", "enum": ["once", "global"], "default": "once"},
                        "replace": {"type": "string"},
                        "options": {"type": "string", "default": "jo"}
                    }
                }
            }
        },
        "dependencies": {
            "body": {"not": {"required": ["filters"]}},
            "filters": {"not": {"required": ["body"]}}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    /// Status, header lines and what becomes of the body `hello hello`.
    fn run(config: &Value, status: u16) -> (u16, String, String) {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        let chain = testkit::chain(&registry, &json!({"response-rewrite": config})).expect("valid");
        let bench = Bench::new("GET /");
        let mut exchange = bench.exchange();
        testkit::response(&chain, &mut exchange, status);
        let body = testkit::body(&mut exchange, b"hello hello");
        (exchange.status, testkit::lines(exchange.reply_headers), String::from_utf8_lossy(&body).into_owned())
    }

    #[test]
    fn responses_are_rewritten() {
        let h = "hello hello";
        for (config, status, lines, body) in [
            (json!({"status_code": 201}), 201, "", h),
            (json!({"headers": {"X-A": 1, "X-B": "$remote_addr"}}), 200, "X-A: 1\r\nX-B: 127.0.0.1\r\n", h),
            (
                json!({"headers": {"add": ["A: b", "A:c"], "set": {"D": "e"}, "remove": ["F"]}}),
                200,
                "A: b\r\nA: c\r\nD: e\r\n",
                h,
            ),
            (json!({"headers": {"Content-Length": "1"}}), 200, "", h),
            (json!({"headers": {"set": {"A": "", "B": "$arg_none", "C": "c"}}}), 200, "C: c\r\n", h),
            (json!({"headers": {"A": "", "C": "c"}}), 200, "C: c\r\n", h),
            (
                json!({"headers": {"add": ["Content-Type: a", "content-type: b", "Link: a", "Link: b"]}}),
                200,
                "Link: a\r\nLink: b\r\ncontent-type: b\r\n",
                h,
            ),
            (json!({"body": "new"}), 200, "", "new"),
            (json!({"body": "bmV3", "body_base64": true}), 200, "", "new"),
            (json!({"body": "new", "vars": [["status", "==", 404]]}), 200, "", h),
            (json!({"filters": [{"regex": "hello", "replace": "x"}]}), 200, "", "x hello"),
            (
                json!({"filters": [{"regex": "H(.)", "replace": "$1", "scope": "global", "options": "ij"}]}),
                200,
                "",
                "ello ello",
            ),
        ] {
            assert_eq!(run(&config, 200), (status, lines.to_owned(), body.to_owned()), "{config}");
        }
    }

    #[test]
    fn a_body_that_filters_can_not_see_whole_fails() {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        let gzip = |plain: &[u8]| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut gzip, plain).unwrap();
            gzip.finish().unwrap()
        };
        let filters = json!([{"regex": "a", "replace": "b", "scope": "global"}]);
        let config = json!({"response-rewrite": {"max_resp_body_size": 100, "filters": filters}});
        let chain = testkit::chain(&registry, &config).expect("valid");
        for (encoding, body, expected) in [
            ("", vec![b'a'; 100], Some(vec![b'b'; 100])),
            ("", vec![b'a'; 101], None),
            ("gzip", gzip(&[b'a'; 100]), Some(vec![b'b'; 100])),
            ("gzip", gzip(&[b'a'; 101]), None),
            ("gzip", b"plain".to_vec(), None),
            ("gzip", Vec::new(), Some(Vec::new())),
        ] {
            let bench = Bench::new("GET /");
            let mut exchange = bench.exchange();
            exchange.status = 200;
            let reply = plugin::Reply::text(200, "").with_header("Content-Encoding", encoding);
            let made = UpstreamResponse { head: None, reply: Some(&reply) };
            for step in &chain.response {
                step.hook.response(&mut exchange, &made);
            }
            let filters = exchange.take_body_filters(&made).unwrap_or_default();
            let made = testkit::whole(filters, &mut exchange, &body);
            assert_eq!(made.ok(), expected, "{encoding} {}", body.len());
        }
    }

    #[test]
    fn mistakes_are_named() {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        for (config, message) in [
            (json!({"body": "-", "body_base64": true}), "invalid base64 content"),
            (json!({"filters": [{"regex": "(", "replace": ""}]}), "regex \"(\" validation failed"),
            (json!({"vars": [["a"]]}), "failed to validate the 'vars' expression: "),
            (json!({"vars": [[]]}), "failed to validate the 'vars' expression: rule too short"),
            (json!({"headers": {"X-A": {}}}), "invalid type as header value"),
            (json!({"headers": {"X-A": "a", "X-B": ["b"]}}), "invalid type as header value"),
            (json!({"headers": {"X\r\nY": "1"}}), "invalid field character in header"),
            (json!({"headers": {"set": {"X Y": "1"}}}), "invalid field character in header"),
            (json!({"body": "a", "filters": [{"regex": "a", "replace": ""}]}), ""),
        ] {
            let errors =
                testkit::chain(&registry, &json!({"response-rewrite": config})).expect_err("refused");
            assert!(errors[0].message.contains(message), "{config}: {errors:?}");
        }
    }
}
