//! Fields of heads as entries show them.

use super::format::text;
use plugin::{Exchange, HeaderEdits, UpstreamResponse};
use serde_json::{Map, Value};

/// What is said between the gateway and its upstream alone.
const HOP_BY_HOP: [&[u8]; 3] = [b"connection", b"keep-alive", b"transfer-encoding"];

/// The request's fields, with what plugins changed in them.
pub(crate) fn of_request(exchange: &Exchange<'_>) -> Map<String, Value> {
    let (view, edits) = (exchange.request.view, exchange.request.edits.as_ref());
    let own = view.head.fields.iter().map(|field| (field.name.get(view.bytes), field.value.get(view.bytes)));
    collect(own, edits.map(|edits| &edits.headers))
}

/// The response's fields, with what plugins changed in them so far.
pub(super) fn of_response(exchange: &Exchange<'_>, response: &UpstreamResponse<'_>) -> Map<String, Value> {
    let edits = Some(&*exchange.reply_headers);
    match (response.head, response.reply) {
        (Some((head, bytes)), _) => {
            let own = head.fields.iter().map(|field| (field.name.get(bytes), field.value.get(bytes)));
            collect(
                own.filter(|(name, _)| !HOP_BY_HOP.iter().any(|hop| name.eq_ignore_ascii_case(hop))),
                edits,
            )
        }
        (None, Some(reply)) => {
            let named = reply.headers.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
            let typed = reply.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            let default = (!typed).then(|| (&b"content-type"[..], reply.default_type().as_bytes()));
            collect(named.chain(default), edits)
        }
        (None, None) => collect(std::iter::empty(), edits),
    }
}

/// Fields by name, in lower case; one that stands several times is a list.
fn collect<'h>(
    own: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    edits: Option<&'h HeaderEdits>,
) -> Map<String, Value> {
    let kept = own.filter(|(name, _)| !edits.is_some_and(|edits| edits.drops(name)));
    let mut all = Map::new();
    for (name, value) in kept.chain(edits.into_iter().flat_map(HeaderEdits::fields)) {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        match all.get_mut(&name) {
            None => drop(all.insert(name, text(value))),
            Some(Value::Array(values)) => values.push(text(value)),
            Some(one) => *one = Value::Array(vec![one.take(), text(value)]),
        }
    }
    all
}
