//! What the plugins that compress responses have in common: which responses, and for whom.

use files::accept;
use model::resource::Encoding;
use plugin::{BodyFilter, Coding, Exchange, UpstreamResponse};
use serde::Deserialize;
use serde_json::{Value, json};

/// The fields that say which responses are compressed.
#[derive(Debug, Deserialize)]
pub(crate) struct Selection {
    types: Types,
    min_length: u64,
    http_version: f64,
    #[serde(default)]
    vary: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Types {
    Listed(Vec<String>),
    /// `"*"`, as the schema has it.
    All(#[expect(dead_code, reason = "says no more than that it is there")] String),
}

impl Selection {
    /// The schema of these fields.
    pub(crate) fn properties() -> Value {
        json!({
            "types": {
                "description": "media types of responses that are compressed, or * for all",
                "anyOf": [
                    {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
                    {"enum": ["*"]}
                ],
                "default": ["text/html"]
            },
            "min_length": {
                "description": "bytes of a body, where its length is known, from which on it is compressed",
                "type": "integer",
                "minimum": 1,
                "default": 20
            },
            "http_version": {
                "description": "the lowest version of HTTP to whose clients compressed bodies are sent",
                "enum": [1.1, 1.0],
                "default": 1.1
            },
            "vary": {
                "description": "whether responses say Vary: Accept-Encoding",
                "type": "boolean"
            }
        })
    }

    /// Offers `encoding` where the response is to be compressed and the client takes it.
    pub(crate) fn offer<F: BodyFilter + 'static>(
        &self,
        exchange: &mut Exchange<'_>,
        response: &UpstreamResponse<'_>,
        encoding: Encoding,
        encoder: impl FnOnce() -> F,
    ) {
        if !self.selects(exchange, response) {
            return;
        }
        // What is sent depends on what the client says, also where it gets the plain body.
        if self.vary {
            exchange.reply_headers.append("Vary", "Accept-Encoding");
        }
        let field = exchange.request.header(b"accept-encoding").unwrap_or_default();
        if let Some(weight) = accept::wanted(field, encoding) {
            exchange.offer(Coding { token: encoding.token(), weight, filter: Box::new(encoder()) });
        }
    }

    fn selects(&self, exchange: &Exchange<'_>, response: &UpstreamResponse<'_>) -> bool {
        let Some(content_type) = response.header(b"content-type", exchange.reply_headers) else {
            return false;
        };
        let bare = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let listed = match &self.types {
            Types::All(_) => true,
            Types::Listed(types) => types.iter().any(|listed| listed.as_bytes().eq_ignore_ascii_case(bare)),
        };
        let encoded = response.header(b"content-encoding", exchange.reply_headers);
        listed
            && response.length().is_none_or(|length| length >= self.min_length)
            && (exchange.request.view.head.facts.http11 || self.http_version < 1.1)
            && encoded.is_none_or(<[u8]>::is_empty)
    }
}
