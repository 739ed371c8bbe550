//! Filters and pages of a collection (v3 alone): `name`, `label`, `uri`, `filter`, `page`, `page_size`.
//!
//! Patterns are matched by the `regex` crate, in linear time; a pattern that doesn't compile there matches nothing, as
//! one that doesn't compile in APISIX. An id in `filter` is equal to the same number, which in APISIX it isn't.

use crate::AdminResponse;
use crate::http::args::Args;
use crate::http::identity::text_of;
use crate::read::shape::Item;
use model::Kind;
use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// Bytes that a compiled pattern may take; an Admin client's pattern is a few letters.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Keeps what the arguments ask for.
pub(crate) fn filter(items: &mut Vec<Item>, args: &Args, kind: Kind) {
    if let Some(pattern) = args.get("name") {
        let pattern = compile(pattern);
        items.retain(|item| matches(pattern.as_ref(), item.value.get("name")));
    }
    if let Some(label) = args.get("label") {
        items.retain(|item| item.value.get("labels").is_some_and(|labels| labels.get(label).is_some()));
    }
    if let Some(pattern) = args.get("uri") {
        let pattern = compile(pattern);
        items.retain(|item| {
            let uris = item.value.get("uris").and_then(Value::as_array).into_iter().flatten();
            item.value.get("uri").into_iter().chain(uris).any(|uri| matches(pattern.as_ref(), Some(uri)))
        });
    }
    if let Some(filters) = args.get("filter") {
        for (field, wanted) in Args::parse(filters).iter() {
            if !fields(kind).contains(&field) {
                tracing::warn!(field, collection = kind.collection(), "this field can't be filtered by");
                continue;
            }
            items.retain(|item| item.value.get(field).is_some_and(|found| text_of(found) == wanted));
        }
    }
}

/// Keeps the page asked for, in the order of creation; everything where none is.
pub(crate) fn page(items: &mut Vec<Item>, args: &Args) -> Result<(), AdminResponse> {
    let (Some(page), Some(size)) = (args.number("page"), args.number("page_size")) else { return Ok(()) };
    if !(10.0..=500.0).contains(&size) {
        return Err(AdminResponse::text(400, "page_size must be between 10 and 500"));
    }
    items.sort_by_key(|item| item.created);
    // Saturating: a page beyond any list is an empty one.
    let (page, size) = (page.max(1.0) as usize, size as usize);
    let from = (page - 1).saturating_mul(size).min(items.len());
    items.drain(..from);
    items.truncate(size);
    Ok(())
}

/// The fields that `filter` may name.
fn fields(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Route | Kind::StreamRoute => &["service_id", "upstream_id"],
        _ => &[],
    }
}

fn compile(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build().ok()
}

fn matches(pattern: Option<&Regex>, value: Option<&Value>) -> bool {
    pattern.zip(value.and_then(Value::as_str)).is_some_and(|(pattern, text)| pattern.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn items() -> Vec<Item> {
        (1..=11)
            .map(|n| Item {
                key: format!("/routes/{n}"),
                value: json!({
                    "id": n.to_string(),
                    "name": n.to_string(),
                    "uri": format!("/hello{n}"),
                    "uris": [format!("/world{n}")],
                    "labels": { "env": "x", format!("l{n}"): "y" },
                    "service_id": if n % 2 == 0 { json!("1") } else { json!(1) },
                }),
                // Created in reverse, to see the sorting.
                created: 100 - n,
                modified: 100,
            })
            .collect()
    }

    fn kept(query: &str) -> Vec<String> {
        let mut items = items();
        let args = Args::parse(query);
        filter(&mut items, &args, Kind::Route);
        page(&mut items, &args).unwrap();
        items.iter().map(|item| item.key.trim_start_matches("/routes/").to_owned()).collect()
    }

    #[test]
    fn filters_are_apisix_s() {
        for (query, expected) in [
            ("name=1", &["1", "10", "11"][..]),
            ("name=%5E1%24", &["1"]),
            ("name=(", &[]),
            ("label=l3", &["3"]),
            ("label=none", &[]),
            ("uri=world2", &["2"]),
            ("uri=hello1&label=l10", &["10"]),
            ("filter=upstream_id%3D1", &[]),
            ("filter=service_id%3D1%26unknown%3D5&name=3", &["3"]),
            ("filter=service_id%3D2", &[]),
        ] {
            assert_eq!(kept(query), expected, "{query}");
        }
    }

    #[test]
    fn pages_follow_creation() {
        assert_eq!(kept("page=1&page_size=10")[..2], ["11", "10"]);
        assert_eq!(kept("page=2&page_size=10"), ["1"]);
        assert_eq!(kept("page=-1&page_size=10").len(), 10);
        assert_eq!(kept("page=1e300&page_size=10").len(), 0);
        assert_eq!(kept("page=1&page_size=x").len(), 11);
        assert_eq!(kept("page_size=2").len(), 11);
        for size in ["2", "501", "-1"] {
            let args = Args::parse(&format!("page=1&page_size={size}"));
            let refusal = page(&mut items(), &args).unwrap_err();
            assert_eq!(refusal, AdminResponse::text(400, "page_size must be between 10 and 500"));
        }
    }
}
