//! What conditions may ask about a request's body. It is parsed when the first of them does, and once.

use crate::HeldBytes;
use crate::form;
use crate::graphql::{self, Operation};
use serde_json::Value;
use std::borrow::Cow;
use std::cell::OnceCell;

/// How much of a body is read ahead for conditions, in bytes. A longer one is as if it were not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// For form fields and JSON (`apisix.max_post_args_readable_size`).
    pub fields: usize,
    /// For GraphQL (`graphql.max_size`).
    pub graphql: usize,
}

/// A request's body as conditions see it.
#[derive(Debug, Default)]
pub struct BodyVars {
    /// `None` where it was not read, because nobody asks about such a body or because it is too long.
    bytes: Option<Vec<u8>>,
    /// The worker's room that `bytes` take.
    _room: HeldBytes,
    /// What was not read is longer than this.
    longer_than: usize,
    content_type: String,
    limits: BodyLimits,
    fields: OnceCell<Option<Value>>,
    operation: OnceCell<Option<Operation>>,
}

/// A request's body for a plugin that wants all of it: see [`crate::Flow::Body`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WholeBody<'b> {
    /// It has to be asked for.
    Unread,
    /// It has more bytes than the plugin can do with.
    TooLong,
    /// All of it.
    Whole(&'b [u8]),
}

/// What a body is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Json,
    Form,
    Multipart,
    Other,
}

impl Default for BodyLimits {
    /// APISIX's.
    fn default() -> Self {
        Self { fields: 64 << 20, graphql: 1 << 20 }
    }
}

impl BodyVars {
    /// Of a body that was read, or of one that was not.
    #[must_use]
    pub fn new(content_type: Option<&[u8]>, bytes: Option<Vec<u8>>, limits: BodyLimits) -> Self {
        Self {
            bytes,
            content_type: String::from_utf8_lossy(content_type.unwrap_or_default()).into_owned(),
            limits,
            ..Self::default()
        }
    }

    /// Whether a body of this type is an encoded form.
    #[must_use]
    pub fn is_form(content_type: &[u8]) -> bool {
        std::str::from_utf8(content_type).is_ok_and(|text| Kind::of(text) == Kind::Form)
    }

    /// The same, holding `room` of the worker for as long as the body is there.
    #[must_use]
    pub fn holding(self, room: HeldBytes) -> Self {
        Self { _room: room, ..self }
    }

    /// The same; a body that was not read has more than `length_bytes`.
    #[must_use]
    pub fn longer_than(self, length_bytes: usize) -> Self {
        Self { longer_than: length_bytes, ..self }
    }

    /// The body for a plugin that can do with at most `limit_bytes` of it.
    pub(crate) fn whole(&self, limit_bytes: usize) -> WholeBody<'_> {
        match &self.bytes {
            Some(bytes) if bytes.len() <= limit_bytes => WholeBody::Whole(bytes),
            Some(_) => WholeBody::TooLong,
            None if self.longer_than >= limit_bytes => WholeBody::TooLong,
            None => WholeBody::Unread,
        }
    }

    /// Whether fields can be found in a body of this type at all: JSON and the two kinds of forms.
    #[must_use]
    pub fn has_fields(content_type: &[u8]) -> bool {
        std::str::from_utf8(content_type).is_ok_and(|text| Kind::of(text) != Kind::Other)
    }

    fn up_to(&self, limit: usize) -> Option<&[u8]> {
        self.bytes.as_deref().filter(|bytes| bytes.len() <= limit)
    }

    /// All fields: the JSON document, or a form as an object.
    pub(crate) fn fields(&self) -> Option<&Value> {
        let parse = || {
            let bytes = self.up_to(self.limits.fields)?;
            match Kind::of(&self.content_type) {
                Kind::Json => serde_json::from_slice(bytes).ok(),
                Kind::Form => Some(form::fields(bytes)),
                Kind::Multipart => form::parts(&self.content_type, bytes),
                Kind::Other => None,
            }
        };
        self.fields.get_or_init(parse).as_ref()
    }

    /// The first field `name` of an encoded form, which a multipart form is not.
    pub(crate) fn form_field(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        match Kind::of(&self.content_type) {
            Kind::Form => form::field(self.up_to(self.limits.fields)?, name.as_bytes()),
            _ => None,
        }
    }

    /// The first operation of the GraphQL document that a request brings: a GET in its query, a POST in its body.
    pub(crate) fn operation(&self, method: &[u8], query: &[u8]) -> Option<&Operation> {
        let read = || {
            let document: Cow<'_, [u8]> = match method {
                b"GET" => form::field(query, b"query")?,
                b"POST" => {
                    let bytes = self.up_to(self.limits.graphql)?;
                    match Kind::of(&self.content_type) {
                        Kind::Json => Cow::Borrowed(self.fields()?.get("query")?.as_str()?.as_bytes()),
                        _ => Cow::Borrowed(bytes),
                    }
                }
                _ => return None,
            };
            graphql::first_operation(std::str::from_utf8(&document).ok()?)
        };
        self.operation.get_or_init(read).as_ref()
    }
}

impl Kind {
    fn of(content_type: &str) -> Self {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        let is = |name: &str| media_type.eq_ignore_ascii_case(name);
        if is("application/json") {
            Self::Json
        } else if is("application/x-www-form-urlencoded") {
            Self::Form
        } else if is("multipart/form-data") {
            Self::Multipart
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(content_type: &str, text: &str) -> BodyVars {
        let limits = BodyLimits { fields: 1000, graphql: 40 };
        BodyVars::new(Some(content_type.as_bytes()), Some(text.as_bytes().to_vec()), limits)
    }

    #[test]
    fn fields_come_from_what_the_content_type_says() {
        for (content_type, text, expected) in [
            ("application/json; charset=utf-8", r#"{"a": 1}"#, Some(json!({"a": 1}))),
            ("Application/JSON", "{", None),
            ("application/x-www-form-urlencoded", "a=1", Some(json!({"a": "1"}))),
            ("text/plain", r#"{"a": 1}"#, None),
            ("", "a=1", None),
        ] {
            assert_eq!(body(content_type, text).fields(), expected.as_ref(), "{content_type} {text}");
        }
        assert_eq!(BodyVars::new(Some(b"application/json"), None, BodyLimits::default()).fields(), None);
    }

    #[test]
    fn operations_come_from_query_or_body() {
        let query: &[u8] = b"query=query+q{a}&query={b}";
        let name =
            |body: &BodyVars, method: &[u8]| body.operation(method, query).map(|found| found.name.clone());
        assert_eq!(name(&body("", ""), b"GET").as_deref(), Some("q"));
        assert_eq!(name(&body("", "query p { a }"), b"POST").as_deref(), Some("p"));
        assert_eq!(
            name(&body("application/json", r#"{"query": "query j {a}"}"#), b"POST").as_deref(),
            Some("j")
        );
        assert_eq!(name(&body("application/json", r#"{"query": 1}"#), b"POST"), None);
        assert_eq!(name(&body("", &format!("query p {{ a }}{}", " ".repeat(40))), b"POST"), None);
        assert_eq!(name(&body("", "query p { a }"), b"PUT"), None);
    }
}
