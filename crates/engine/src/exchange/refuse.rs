//! Heads that can't be understood.

use super::body::RequestBody;
use super::respond::{Message, reply};
use super::{After, begin, finish};
use crate::buffers::Scratch;
use crate::link::Link;
use plugin::{Reply, Request, ResponseSource};
use std::borrow::Cow;
use wire::{BodyLength, RequestHead, RequestView};

/// What the access log shows of a request line that was refused: four times as much once it is escaped.
const LOGGED_MAX: usize = 1024;

/// Answers a head that can't be understood, and closes.
pub(crate) async fn refuse(
    link: &mut Link<'_>,
    scratch: &mut Scratch,
    status: u16,
    why: &'static str,
) -> After {
    tracing::info!(client = %link.client.addr, status, "{why}");
    let worker = link.worker;
    let snapshot = worker.snapshot();
    // Nothing of the head can be relied upon. The log shows its first line as it came, as nginx's does.
    let head = RequestHead::default();
    let Scratch { input, response, out, filled, reply_headers, .. } = scratch;
    let view = RequestView { head: &head, bytes: first_line(&input[..*filled]) };
    let request = Request::new(view, Cow::Borrowed(b""), Cow::Borrowed(b""));
    let mut exchange = begin(link, &snapshot, request, reply_headers);
    exchange.timing.request_bytes = *filled as u64;
    exchange.source = ResponseSource::Nginx;
    let mut message = Message::new(&snapshot, response, out);
    let mut facts = head.facts;
    facts.body = BodyLength::UntilClose;
    let mut body = RequestBody::new(&mut [], 0, &facts, 0);
    reply(link, &mut message, &mut body, None, &mut exchange, &Reply::status(status)).await;
    finish::record(worker, &snapshot, None, &body, &mut exchange);
    exchange.reply_headers.clear();
    After::Linger
}

/// The first line of a head that was refused, or what came of it: at most [`LOGGED_MAX`] bytes, any among them but line
/// ends.
fn first_line(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    let line = &bytes[start..bytes.len().min(start + LOGGED_MAX)];
    &line[..memchr::memchr2(b'\r', b'\n', line).unwrap_or(line.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_refused_head_is_what_came_of_it() {
        let long = vec![b'a'; 5000];
        for (bytes, expected) in [
            (&b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"[..], &b"GET /a b HTTP/1.1"[..]),
            (b"\r\n\r\nGET / HTTP/3.1\n", b"GET / HTTP/3.1"),
            (b"\x16\x03\x01\0\rx\n", b"\x16\x03\x01\0"),
            (b"GET /incompl", b"GET /incompl"),
            (b"\r\n", b""),
            (b"", b""),
            (&long, &long[..LOGGED_MAX]),
        ] {
            assert_eq!(first_line(bytes), expected, "{}", bytes.escape_ascii());
        }
    }
}
