//! Entries to private parsers, for fuzz targets alone.

use crate::{form, graphql};
use serde_json::Value;
use std::borrow::Cow;

/// The value of the first field `name` of an encoded form.
#[must_use]
pub fn form_field<'f>(form: &'f [u8], name: &[u8]) -> Option<Cow<'f, [u8]>> {
    form::field(form, name)
}

/// The parts of a multipart form by their names.
#[must_use]
pub fn multipart(content_type: &str, body: &[u8]) -> Option<Value> {
    form::parts(content_type, body)
}

/// Kind, name and top-level fields of the first definition in a GraphQL document.
#[must_use]
pub fn graphql(document: &str) -> Option<(&'static str, String, Value)> {
    graphql::first_operation(document).map(|found| (found.kind, found.name, found.root_fields))
}
