//! Redirects clients to another path or host, or from HTTP to HTTPS.
//!
//! ## When to use
//! Use it when a resource has moved, or to enforce encrypted connections.
//!
//! ## Example
//! ```json
//! {
//!     "redirect": {
//!         "http_to_https": true
//!     }
//! }
//! ```
//! Other forms: `{"uri": "/new$request_uri", "ret_code": 301}` or `{"regex_uri": ["^/a/(.*)", "https://b.com/$1"]}`. The
//! HTTPS port is `plugin_attr.redirect.https_port` or else that of `apisix.ssl.listen`; 443 is omitted from the URL.
//!
//! ## Differences from APISIX
//! - If `apisix.ssl.listen` has several ports, the first one is used, not a random one.
//! - `http_to_https` keeps the path as the client encoded it.
//! - `ret_code` must be below 1000.

use crate::status::status;
use crate::text::{Substitution, encode_path};
use model::ConfigError;
use model::var::Template;
use plugin::{CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef, Reply, log_for};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Redirect>("redirect", 900).on_rewrite().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    ret_code: u64,
    uri: Option<String>,
    regex_uri: Option<[String; 2]>,
    #[serde(default)]
    http_to_https: bool,
    encode_uri: bool,
    append_query_string: bool,
}

/// The compiled form.
pub struct Redirect {
    code: u16,
    to: To,
    encode: bool,
    append_query: bool,
}

enum To {
    /// The same at the port of HTTPS; `None`: the gateway's own.
    Https(Option<u16>),
    Uri(Template),
    Substituted(Substitution),
    /// `http_to_https: false`: nowhere.
    Nowhere,
}

/// The port that URLs of HTTPS don't name.
const HTTPS: u16 = 443;

impl Plugin for Redirect {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        if config.http_to_https && config.append_query_string {
            let message = "only one of `http_to_https` and `append_query_string` can be configured.";
            return Err(vec![ConfigError::new("", message)]);
        }
        let port = cx.attributes.and_then(|attributes| attributes.get("https_port")?.as_u64());
        // As in APISIX, what can't be a port names none.
        let port = port.map(|port| u16::try_from(port).ok().filter(|port| *port != 0).unwrap_or(HTTPS));
        let to = match (config.http_to_https, &config.uri, &config.regex_uri) {
            (true, _, _) => To::Https(port),
            (_, Some(uri), _) => To::Uri(Template::parse(uri)),
            (_, _, Some([pattern, replacement])) => {
                let compiled = Substitution::compile(pattern, replacement, false, "/regex_uri");
                To::Substituted(compiled.map_err(|error| {
                    let message =
                        format!("invalid regex_uri ({pattern}, {replacement}), err:{}", error.message);
                    vec![ConfigError { message, ..error }]
                })?)
            }
            _ => To::Nowhere,
        };
        Ok(Self {
            code: status(config.ret_code, "/ret_code")?,
            to,
            encode: config.encode_uri,
            append_query: config.append_query_string,
        })
    }

    fn schema() -> Value {
        let pattern = "(\\\\\\$[0-9a-zA-Z_]+)|\\$\\{([0-9a-zA-Z_]+)\\}|\\$([0-9a-zA-Z_]+)|(\\$|[^$\\\\]+)";
        json!({
            "type": "object",
            "properties": {
                "ret_code": {"type": "integer", "minimum": 200, "default": 302},
                "uri": {"type": "string", "minLength": 2, "pattern": pattern},
                "regex_uri": {
                    "description": "an expression for the client's uri, and what takes the match's place",
                    "type": "array",
                    "maxItems": 2,
                    "minItems": 2,
                    "items": {"description": "regex uri", "type": "string"}
                },
                "http_to_https": {"type": "boolean"},
                "encode_uri": {"type": "boolean", "default": false},
                "append_query_string": {"type": "boolean", "default": false}
            },
            "oneOf": [
                {"required": ["uri"]},
                {"required": ["regex_uri"]},
                {"required": ["http_to_https"]}
            ]
        })
    }
}

impl OnRewrite for Redirect {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let render = |template: &Template| {
            let mut uri = Vec::new();
            template.render(exchange, &mut uri);
            uri
        };
        let uri = match &self.to {
            To::Nowhere => return Flow::Next,
            To::Https(port) => return to_https(*port, exchange),
            To::Uri(template) => render(template),
            To::Substituted(substitution) => match substitution.first(&exchange.request.path) {
                Ok(Some((_, uri))) => uri,
                Ok(None) => return Flow::Next,
                Err(error) => {
                    log_for!(error, exchange, "redirect failed to substitute the uri: {error}");
                    return Flow::status(500);
                }
            },
        };
        let location = self.finish(uri, exchange.request.query());
        Flow::reply(Reply::status(self.code).with_header("Location", location))
    }
}

/// Sends a client that doesn't speak HTTPS to where it can, at `port` or the gateway's own.
fn to_https(port: Option<u16>, exchange: &Exchange<'_>) -> Flow {
    let request = &exchange.request;
    let proto = request.header(b"x-forwarded-proto");
    if proto.unwrap_or(exchange.client.scheme().as_bytes()) == b"https" {
        return Flow::Next;
    }
    let mut location = [b"https://", &*request.host].concat();
    if let Some(port) = port.or(exchange.gateway.https_port).filter(|port| *port != HTTPS) {
        location.extend_from_slice(format!(":{port}").as_bytes());
    }
    location.extend_from_slice(request.target());
    // 308 keeps method and body (RFC 9110 section 15.4.9).
    let code = if matches!(request.method(), b"GET" | b"HEAD") { 301 } else { 308 };
    Flow::reply(Reply::status(code).with_header("Location", location))
}

impl Redirect {
    /// Encodes the path and adds the query, where asked.
    fn finish(&self, uri: Vec<u8>, query: &[u8]) -> Vec<u8> {
        let mark = uri.iter().position(|byte| *byte == b'?');
        let mut location = if self.encode {
            let (path, rest) = uri.split_at(mark.unwrap_or(uri.len()));
            let mut encoded = Vec::with_capacity(uri.len());
            encode_path(path, &mut encoded);
            encoded.extend_from_slice(rest);
            encoded
        } else {
            uri
        };
        if self.append_query && !query.is_empty() {
            location.push(if mark.is_some() { b'&' } else { b'?' });
            location.extend_from_slice(query);
        }
        location
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn clients_are_sent_elsewhere() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        for (config, request, expected) in [
            (json!({"uri": "/new$uri"}), "GET /a", "302 /new/a"),
            (json!({"uri": "/b", "ret_code": 301}), "GET /a?x", "301 /b"),
            (json!({"uri": "/b?c", "append_query_string": true}), "GET /a?x", "302 /b?c&x"),
            (json!({"uri": "$uri", "encode_uri": true}), "GET /a%20b", "302 /a%20b"),
            (json!({"regex_uri": ["^/a/(.*)", "https://b.com/$1"]}), "GET /a/c", "302 https://b.com/c"),
            (json!({"regex_uri": ["^/a/(.*)", "/$1"]}), "GET /b", "passes"),
            (json!({"http_to_https": true}), "GET /a?x\nHost: b.com", "301 https://b.com:9443/a?x"),
            (json!({"http_to_https": true}), "POST /a\nHost: b.com", "308 https://b.com:9443/a"),
            (
                json!({"http_to_https": true, "encode_uri": true}),
                "GET /a%3Fb\nHost: b.com",
                "301 https://b.com:9443/a%3Fb",
            ),
            (json!({"http_to_https": true}), "GET http://c.com/a\nHost: b.com", "301 https://c.com:9443/a"),
            (json!({"http_to_https": true}), "GET /\nX-Forwarded-Proto: https", "passes"),
            (json!({"http_to_https": false}), "GET /", "passes"),
        ] {
            let chain = testkit::chain(&registry, &json!({"redirect": config})).expect("valid");
            let reply = testkit::request(&chain, &mut Bench::new(request).exchange());
            let got = reply.map_or("passes".to_owned(), |reply| {
                format!("{} {}", reply.status, String::from_utf8_lossy(&reply.headers[0].1))
            });
            assert_eq!(got, expected, "{config} {request}");
        }
        for (attribute, expected) in
            [(8443, "https://b.com:8443/"), (443, "https://b.com/"), (70_000, "https://b.com/")]
        {
            let attributes = json!({"redirect": {"https_port": attribute}});
            let registry = Registry::new([def()], attributes.as_object().unwrap().clone()).expect("valid");
            let chain =
                testkit::chain(&registry, &json!({"redirect": {"http_to_https": true}})).expect("valid");
            let reply = testkit::request(&chain, &mut Bench::new("GET /\nHost: b.com").exchange()).unwrap();
            assert_eq!(reply.headers[0].1, expected.as_bytes());
        }
        let both = json!({"redirect": {"http_to_https": true, "append_query_string": true}});
        assert!(testkit::chain(&registry, &both).is_err());
    }
}
