//! The response's head as it would be sent.

use plugin::{Exchange, UpstreamResponse};

/// All fields of the response as it would be sent.
pub(crate) fn all_headers(
    exchange: &Exchange<'_>,
    response: Option<&UpstreamResponse<'_>>,
) -> Vec<(String, Vec<u8>)> {
    let edits = &exchange.reply_headers;
    let mut all = Vec::new();
    let mut add = |name: &[u8], value: &[u8]| {
        all.push((String::from_utf8_lossy(name).into_owned(), value.to_vec()));
    };
    if let Some((head, bytes)) = response.and_then(|response| response.head) {
        for field in &head.fields {
            let name = field.name.get(bytes);
            if !edits.drops(name) {
                add(name, field.value.get(bytes));
            }
        }
    }
    if let Some(reply) = response.and_then(|response| response.reply) {
        for (name, value) in &reply.headers {
            if !edits.drops(name.as_bytes()) {
                add(name.as_bytes(), value);
            }
        }
        if !edits.drops(b"content-type")
            && reply.headers.iter().all(|(name, _)| !name.eq_ignore_ascii_case("content-type"))
        {
            add(b"Content-Type", reply.default_type().as_bytes());
        }
    }
    edits.fields().for_each(|(name, value)| add(name, value));
    all
}
