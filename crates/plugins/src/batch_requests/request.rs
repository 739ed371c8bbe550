//! A batch as the client writes it, and the calls that are made of it.

use crate::headers::is_of_connection;
use crate::request_copy;
use bytes::Bytes;
use plugin::{BadCall, Call, CallBody, CallTimeouts, Exchange};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Marks the requests of a batch, so that none of them is a batch. A client that sends it harms itself alone.
pub(super) const MARK: &str = "X-Tidegate-Batch";

/// A batch.
#[derive(Debug, Deserialize)]
pub(super) struct Batch {
    query: Option<Map<String, Value>>,
    #[serde(default)]
    headers: Map<String, Value>,
    /// Milliseconds that each step of a request may take.
    pub(super) timeout: u64,
    pub(super) pipeline: Vec<Item>,
}

/// One request of it.
#[derive(Debug, Deserialize)]
pub(super) struct Item {
    method: String,
    path: String,
    query: Option<Map<String, Value>>,
    #[serde(default)]
    headers: Map<String, Value>,
    body: Option<String>,
    pub(super) ssl_verify: bool,
}

/// What the requests of a batch have in common.
pub(super) struct Shared {
    query: Map<String, Value>,
    headers: Map<String, Value>,
    /// The fields of the client's own request that all requests get.
    outer: Vec<(String, Vec<u8>)>,
    host: Vec<u8>,
    /// The field that tells the client's address, where there is one, and the address.
    client: Option<(String, String)>,
    timeouts: CallTimeouts,
}

/// The JSON Schema of a batch: APISIX's.
pub(super) fn schema() -> Value {
    let methods = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "object"},
            "headers": {"type": "object"},
            "timeout": {"type": "integer", "minimum": 1, "default": 30000},
            "pipeline": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "version": {"type": "number", "enum": [1.0, 1.1], "default": 1.1},
                        "method": {"type": "string", "enum": methods, "default": "GET"},
                        "path": {"type": "string", "minLength": 1},
                        "query": {"type": "object"},
                        "headers": {"type": "object"},
                        "body": {"type": "string"},
                        "ssl_verify": {"type": "boolean", "default": false}
                    },
                    "required": ["path"]
                }
            }
        },
        "anyOf": [{"required": ["pipeline"]}]
    })
}

/// Why a body is no JSON. Where the first thing in it is none, in the words of APISIX's parser.
pub(super) fn explain(error: &serde_json::Error, body: &[u8]) -> String {
    let start = body.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or_default();
    let text = error.to_string();
    let is_first = error.line() == 1 && error.column() <= start + 2 && !b"{[".contains(&body[start]);
    if is_first && text.starts_with("expected ") {
        return format!("Expected value but found invalid token at character {}", start + 1);
    }
    text
}

impl Shared {
    /// What the requests of `batch` take from it and from the client's request.
    pub(super) fn new(batch: &Batch, exchange: &Exchange<'_>, timeouts: CallTimeouts) -> Self {
        let outer = request_copy::fields(exchange).filter(|(name, _)| is_passed_on(name));
        let outer = outer.map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
        let (view, local) = (exchange.request.view, exchange.client.local);
        let own = view.head.authority.get(view.bytes);
        Self {
            query: batch.query.clone().unwrap_or_default(),
            headers: batch.headers.clone(),
            outer,
            host: if own.is_empty() { local.to_string().into_bytes() } else { own.to_vec() },
            client: exchange
                .gateway
                .real_ip_header
                .clone()
                .map(|name| (name, exchange.client.ip_text.clone())),
            timeouts,
        }
    }

    /// The path and query of a request.
    ///
    /// # Errors
    /// A path or a host that no request can have.
    pub(super) fn target(&self, item: &Item) -> Result<Vec<u8>, BadCall> {
        let mut target = item.path.clone().into_bytes();
        let mut mark = if item.path.contains('?') { b'&' } else { b'?' };
        let own = item.query.iter().flatten();
        let common = self
            .query
            .iter()
            .filter(|(name, _)| !item.query.as_ref().is_some_and(|own| own.contains_key(*name)));
        for (name, value) in own.chain(common) {
            for value in values(value) {
                target.push(std::mem::replace(&mut mark, b'&'));
                escape(name.as_bytes(), &mut target);
                if let Some(value) = value {
                    target.push(b'=');
                    escape(value.as_bytes(), &mut target);
                }
            }
        }
        let call = Call::new(&item.method, self.host(item), target, self.timeouts)?;
        Ok(call.target().to_vec())
    }

    fn host(&self, item: &Item) -> Vec<u8> {
        let host = [&item.headers, &self.headers].into_iter().find_map(|headers| text_of(headers, "host"));
        host.map_or_else(|| self.host.clone(), String::into_bytes)
    }

    /// The request itself. Of fields of one name its own stand above the batch's, and these above the client's.
    ///
    /// # Errors
    /// A host that is none.
    pub(super) fn call(&self, target: Vec<u8>, item: Item) -> Result<Call, BadCall> {
        let mut call = Call::new(&item.method, self.host(&item), target, self.timeouts)?;
        let headers = &mut call.headers;
        for (name, value) in &self.outer {
            if !is_named(&item.headers, name) && !is_named(&self.headers, name) {
                headers.append(name, value);
            }
        }
        let common = self.headers.iter().filter(|(name, _)| !is_named(&item.headers, name));
        for (name, value) in item.headers.iter().chain(common).filter(|(name, _)| is_settable(name)) {
            for value in values(value) {
                headers.append(name, value.unwrap_or_else(|| "true".to_owned()));
            }
        }
        if let Some((name, address)) = &self.client {
            headers.set(name, address);
        }
        headers.set(MARK, "1");
        if let Some(body) = item.body {
            call.body = CallBody::Bytes(Bytes::from(body));
        }
        Ok(call)
    }
}

/// Whether a field of the client's own request is for the requests of its batch: all are but those about its body, its
/// connection, and what it accepts as an answer's coding.
fn is_passed_on(name: &str) -> bool {
    let starts = |start: &str| name.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start));
    !starts("content-") && !name.eq_ignore_ascii_case("accept-encoding") && is_settable(name)
}

/// Whether a batch may set a field. `X-Forwarded-*`, in any spelling, would be believed of the gateway's own address.
fn is_settable(name: &str) -> bool {
    let spelled = name.replace('_', "-");
    let starts = |start: &str| spelled.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start));
    let is = |other: &str| spelled.eq_ignore_ascii_case(other);
    !is_of_connection(name) && !starts("x-forwarded-") && !["host", "expect", "forwarded"].into_iter().any(is)
}

fn is_named(headers: &Map<String, Value>, name: &str) -> bool {
    headers.keys().any(|other| other.eq_ignore_ascii_case(name))
}

fn text_of(headers: &Map<String, Value>, name: &str) -> Option<String> {
    let (_, value) = headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name))?;
    values(value).into_iter().next().flatten()
}

/// The values of a field or an argument; `None` for an argument without one.
fn values(value: &Value) -> Vec<Option<String>> {
    match value {
        Value::String(text) => vec![Some(text.clone())],
        Value::Number(number) => vec![Some(number.to_string())],
        Value::Bool(true) => vec![None],
        Value::Array(all) => all.iter().flat_map(values).collect(),
        Value::Bool(false) | Value::Null | Value::Object(_) => Vec::new(),
    }
}

/// Percent-encodes all but the unreserved characters (RFC 3986 section 2.3).
fn escape(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(*byte);
        } else {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}
