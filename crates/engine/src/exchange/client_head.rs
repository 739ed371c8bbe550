//! The head that the client gets, whoever made the response: text of HTTP/1.1, or HEADERS of HTTP/2.

use super::request_head::is_nominated;
use crate::error::{ProxyError, Side};
use crate::io;
use crate::link::Link;
use crate::transport::Http2Stream;
use crate::worker::Worker;
use plugin::{Exchange, NameLengths, Reply, ResponseSource, has_no_body};
use std::io::Result;
use wire::http1::request::RequestFacts;
use wire::http1::{KnownSet, push_decimal};
use wire::http2::FieldSection;
use wire::{BodyLength, FieldName, FieldSink, FieldValue, Framing, Known, ResponseHead, reason};

const CONTENT_TYPE: FieldName = FieldName::of("Content-Type: ");
const UPSTREAM_STATUS: FieldName = FieldName::of("X-APISIX-Upstream-Status: ");

/// The fields of an upstream's response that the gateway doesn't pass on, or writes itself.
const GATEWAYS_OWN: KnownSet =
    Known::HOP_BY_HOP.without_if(Known::Expect, true).with(Known::Date).with(Known::Server);

/// A head on its way out. The status and what plugins changed are the exchange's.
pub(super) struct ClientHead<'h> {
    pub(super) fields: Fields<'h>,
    pub(super) framing: Framing,
    /// Whether the client's connection may carry another request.
    pub(super) keep_alive: bool,
}

/// The fields that a response has of its own.
#[derive(Clone, Copy)]
pub(super) enum Fields<'h> {
    /// Those of a head that was received, or made in the same form, in these bytes.
    Relayed(&'h ResponseHead, &'h [u8]),
    /// The gateway's or a plugin's, for a body in memory.
    Reply(&'h Reply),
    /// A file's.
    File(&'h files::Answer),
}

impl ClientHead<'_> {
    /// Writes the head to `out`, from which it leaves with the first bytes of the body. Over HTTP/2 it leaves at once, and
    /// `out` is empty; its size is counted.
    ///
    /// # Errors
    /// The stream's.
    #[inline]
    pub(super) fn begin(
        &self,
        worker: &Worker,
        exchange: &mut Exchange<'_>,
        http2: Option<&Http2Stream>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.clear();
        match http2 {
            None => self.write(worker, exchange, out),
            Some(stream) => return self.send(worker, exchange, stream),
        }
        Ok(())
    }

    #[inline]
    fn write(&self, worker: &Worker, exchange: &Exchange<'_>, out: &mut Vec<u8>) {
        match self.fields {
            Fields::Relayed(head, bytes) if exchange.status == head.status && !head.reason.is_empty() => {
                // "HTTP/1.x " and then the upstream's own code and reason.
                out.extend_from_slice(b"HTTP/1.1 ");
                out.extend_from_slice(bytes.get(9..head.fields_start).unwrap_or_default());
            }
            _ => write_status_line(exchange.status, out),
        }
        self.write_fields(worker, exchange, out);
        if self.framing == Framing::Chunked {
            out.field(FieldName::TRANSFER_ENCODING, FieldValue::CHUNKED);
        }
        let upgrade = matches!(self.fields, Fields::Relayed(ResponseHead { status: 101, .. }, _));
        match (upgrade, self.keep_alive, exchange.request.view.head.facts.http11) {
            (true, _, _) => out.field(FieldName::CONNECTION, const { FieldValue::of("upgrade") }),
            (_, false, _) => out.field(FieldName::CONNECTION, const { FieldValue::of("close") }),
            (_, true, false) => out.field(FieldName::CONNECTION, const { FieldValue::of("keep-alive") }),
            // HTTP/1.1 keeps connections unless told otherwise.
            (_, true, true) => {}
        }
        out.extend_from_slice(b"\r\n");
    }

    #[inline(never)]
    fn send(&self, worker: &Worker, exchange: &mut Exchange<'_>, stream: &Http2Stream) -> Result<()> {
        let mut section = FieldSection::default();
        self.write_fields(worker, exchange, &mut section);
        exchange.timing.sent_bytes += section.size() as u64;
        stream.send_response(section.into_response(exchange.status), self.framing)
    }

    /// Writes all fields but those of the connection.
    #[inline(always)]
    fn write_fields(&self, worker: &Worker, exchange: &Exchange<'_>, out: &mut impl FieldSink) {
        worker.clock.write_lines(out);
        write_upstream_status(worker, exchange, out);
        let edits = &*exchange.reply_headers;
        match self.fields {
            Fields::Relayed(head, bytes) => {
                self.relay(exchange, head, bytes, out);
                return edits.write(out);
            }
            Fields::Reply(reply) => write_reply(exchange, reply, out),
            Fields::File(answer) if edits.is_empty() => answer.fields.write(out),
            Fields::File(answer) => {
                let kept = answer.fields.iter().filter(|(name, _)| !edits.drops(name.as_bytes()));
                kept.for_each(|(name, value)| out.any(name, value.as_bytes()));
            }
        }
        edits.write(out);
        let length = match (self.fields, self.framing) {
            _ if has_no_body(exchange.status) => None,
            // What GET would have given.
            (Fields::File(answer), _) => Some(answer.body.length()),
            (_, Framing::Exact(length)) => Some(length),
            _ => None,
        };
        if let Some(length) = length {
            out.number(FieldName::CONTENT_LENGTH, length);
        }
    }

    #[inline(always)]
    fn relay(&self, exchange: &Exchange<'_>, head: &ResponseHead, bytes: &[u8], out: &mut impl FieldSink) {
        let edits = &*exchange.reply_headers;
        let keeps_length = matches!(self.framing, Framing::None | Framing::Exact(_));
        let left_out = GATEWAYS_OWN
            .without_if(Known::ContentLength, keeps_length && exchange.status != 204)
            .without_if(Known::Upgrade, head.status == 101);
        // Fields with names of other lengths are kept for certain.
        let doubtful = if head.nominates { NameLengths::ALL } else { edits.dropped_lengths() };
        out.relay(bytes, &head.fields, |field| {
            let dropped = || {
                edits.drops(field.name.get(bytes))
                    || (head.nominates && is_nominated(&head.fields, bytes, field))
            };
            !(left_out.has(field.known) || (doubtful.has(field.name.len()) && dropped()))
        });
    }
}

/// How a body that comes as `length` goes to the client.
pub(super) fn framing(length: BodyLength, facts: &RequestFacts) -> Framing {
    match length {
        BodyLength::None => Framing::None,
        BodyLength::Exact(length) => Framing::Exact(length),
        BodyLength::Chunked | BodyLength::UntilClose if facts.http2 => Framing::Frames,
        BodyLength::Chunked | BodyLength::UntilClose if facts.http11 => Framing::Chunked,
        BodyLength::Chunked | BodyLength::UntilClose => Framing::Close,
    }
}

/// Sends the head of an interim response (RFC 9110 section 15.2) over HTTP/2, or writes it to `out`: what it says of the
/// upstream's connection is left out. `bytes` are those of `response`.
pub(super) fn interim(
    response: &ResponseHead,
    bytes: &[u8],
    http2: Option<&Http2Stream>,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.clear();
    if let Some(stream) = http2 {
        let mut section = FieldSection::default();
        relay_interim(response, bytes, &mut section);
        return stream.send_interim(section.into_response(response.status));
    }
    // The code and the reason.
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(bytes.get(9..response.fields_start).unwrap_or_default());
    relay_interim(response, bytes, out);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

fn relay_interim(response: &ResponseHead, bytes: &[u8], out: &mut impl FieldSink) {
    out.relay(bytes, &response.fields, |field| {
        let nominated = response.nominates && is_nominated(&response.fields, bytes, field);
        !field.known.is_hop_by_hop() && !nominated
    });
}

/// Tells a client that waits for permission to send its body that it may.
pub(super) async fn send_continue(link: &mut Link<'_>) -> std::result::Result<(), ProxyError> {
    let limit = link.timer.within(link.config.client.send_timeout);
    let sent = match link.stream.http2() {
        Some(stream) => stream.send_interim(FieldSection::default().into_response(100)),
        None => io::write_all(link.stream, b"HTTP/1.1 100 Continue\r\n\r\n", limit).await,
    };
    sent.map_err(|error| ProxyError::io(Side::Client, &error))
}

/// The upstream's status where it is to be shown.
#[inline]
fn write_upstream_status(worker: &Worker, exchange: &Exchange<'_>, out: &mut impl FieldSink) {
    let status = match exchange.upstream.status {
        // The proxy's own verdict stands for an upstream that gave none, as `$upstream_status` does in nginx.
        0 if exchange.source == ResponseSource::Nginx && exchange.upstream.addr.is_some() => exchange.status,
        status => status,
    };
    if status >= 500 || (status != 0 && worker.shows_upstream_status.get()) {
        out.number(UPSTREAM_STATUS, u64::from(status));
    }
}

fn write_reply(exchange: &Exchange<'_>, reply: &Reply, out: &mut impl FieldSink) {
    let edits = &*exchange.reply_headers;
    let typed = reply.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !typed && !has_no_body(exchange.status) && !edits.drops(b"Content-Type") {
        out.field(CONTENT_TYPE, FieldValue::parsed(reply.default_type().as_bytes()));
    }
    for (name, value) in reply.headers.iter().filter(|(name, _)| !edits.drops(name.as_bytes())) {
        out.any(name, value);
    }
}

fn write_status_line(status: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    push_decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}
