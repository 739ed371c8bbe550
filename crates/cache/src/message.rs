//! The bytes of a response as they are kept: a message of HTTP/1.1 of its own, without what belonged to its connection.

use crate::Message;
use wire::{Field, Known, ResponseHead};

/// The head of a response as it is kept, but for its length and its end, which [`whole`] adds.
#[must_use]
pub fn head_of(head: &ResponseHead, bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {} ", head.status).into_bytes();
    out.extend_from_slice(head.reason.get(bytes));
    out.extend_from_slice(b"\r\n");
    for field in &head.fields {
        if is_kept(head, bytes, field) {
            line(&mut out, field.name.get(bytes), field.value.get(bytes));
        }
    }
    out
}

/// Head and body as one message.
#[must_use]
pub fn whole(mut head: Vec<u8>, body: Vec<u8>) -> Message {
    head.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    Message { head: head.into(), body: body.into() }
}

/// `message` with the fields that its upstream said anew when it confirmed it (RFC 9111 section 4.3.4). `old` is the head
/// of `message`.
#[must_use]
pub fn refreshed(message: &Message, old: &ResponseHead, new: &ResponseHead, new_bytes: &[u8]) -> Message {
    let bytes = &message.head;
    // Those that say what the kept body is stay (section 3.2).
    let of_body = |name: &[u8]| {
        [&b"content-type"[..], b"content-encoding", b"content-range"]
            .iter()
            .any(|own| own.eq_ignore_ascii_case(name))
    };
    let restated = |field: &Field| is_kept(new, new_bytes, field) && !of_body(field.name.get(new_bytes));
    let is_old = |name: &[u8]| {
        let same = |field: &Field| restated(field) && field.name.get(new_bytes).eq_ignore_ascii_case(name);
        !new.fields.iter().any(same)
    };
    let mut head = bytes.get(..old.fields_start).unwrap_or_default().to_vec();
    for field in old.fields.iter().filter(|field| is_old(field.name.get(bytes))) {
        line(&mut head, field.name.get(bytes), field.value.get(bytes));
    }
    for field in new.fields.iter().filter(|field| restated(field)) {
        line(&mut head, field.name.get(new_bytes), field.value.get(new_bytes));
    }
    head.extend_from_slice(b"\r\n");
    Message { head: head.into(), body: message.body.clone() }
}

/// Whether a field is part of what is kept: neither its connection's, nor said anew with every response.
fn is_kept(head: &ResponseHead, bytes: &[u8], field: &Field) -> bool {
    let name = field.name.get(bytes);
    let nominated = || {
        let connections = head.fields.iter().filter(|field| field.known == Known::Connection);
        let mut names = connections.flat_map(|field| field.value.get(bytes).split(|byte| *byte == b','));
        names.any(|named| named.trim_ascii().eq_ignore_ascii_case(name))
    };
    let of_connection = field.known.is_hop_by_hop() || (head.nominates && nominated());
    // Those of the way to the upstream (section 3.1).
    let of_proxy = [&b"proxy-authenticate"[..], b"proxy-authentication-info", b"proxy-authorization"]
        .iter()
        .any(|own| own.eq_ignore_ascii_case(name));
    let said_anew = matches!(field.known, Known::ContentLength | Known::Date | Known::Server)
        || name.eq_ignore_ascii_case(b"age");
    !of_connection && !of_proxy && !said_anew
}

fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for piece in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Method;

    fn parsed(text: &[u8]) -> ResponseHead {
        let mut head = ResponseHead::default();
        assert!(head.parse(text, Method::Get).unwrap());
        head
    }

    #[test]
    fn a_message_stands_by_itself_and_is_refreshed() {
        let received = b"HTTP/1.0 200 Fine\r\nDate: x\r\nAge: 4\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nProxy-Authenticate: Basic\r\nETag: \"1\"\r\n\
            Cache-Control: max-age=1\r\nContent-Type: a/b\r\nContent-Length: 9\r\n\r\n";
        let message = whole(head_of(&parsed(received), received), b"body".to_vec());
        let text = String::from_utf8(message.head.to_vec()).unwrap();
        let expected = "HTTP/1.1 200 Fine\r\nETag: \"1\"\r\nCache-Control: max-age=1\r\nContent-Type: a/b\r\n\
            Content-Length: 4\r\n\r\n";
        assert_eq!(text, expected);
        let confirmed = b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=5\r\nContent-Type: c/d\r\n\
            Content-Length: 7\r\nX-New: 1\r\nContent-Security-Policy: x\r\n\r\n";
        let old = parsed(&message.head);
        let fresh = refreshed(&message, &old, &parsed(confirmed), confirmed);
        let text = String::from_utf8(fresh.head.to_vec()).unwrap();
        let expected = "HTTP/1.1 200 Fine\r\nETag: \"1\"\r\nContent-Type: a/b\r\nContent-Length: 4\r\n\
            Cache-Control: max-age=5\r\nX-New: 1\r\nContent-Security-Policy: x\r\n\r\n";
        let body = fresh.body.piece(0, &mut []).unwrap();
        assert_eq!((text.as_str(), body), (expected, &b"body"[..]));
    }
}
