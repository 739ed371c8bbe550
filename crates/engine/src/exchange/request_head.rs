//! The head that the upstream gets.

use crate::link::Link;
use crate::upstream::NodeState;
use model::resource::PassHost;
use plugin::{Client, Exchange, HeaderEdits};
use snapshot::Upstream;
use std::rc::Rc;
use wire::http1::KnownSet;
use wire::http2::RequestSection;
use wire::{BodyLength, Field, FieldLines, FieldName, FieldSink, FieldValue, Known};

/// The lines about the client's connection that are the same for all its requests.
pub(crate) fn forwarded_lines(client: &Client) -> FieldLines {
    let mut lines = FieldLines::default();
    lines.push("X-Real-IP", client.ip_text.as_bytes());
    lines.push("X-Forwarded-For", client.ip_text.as_bytes());
    lines.push("X-Forwarded-Proto", client.scheme().as_bytes());
    lines
}

/// What a head says besides the request: the client's connection on one side, the node on the other.
struct Hop<'h> {
    /// [`forwarded_lines`].
    forwarded: &'h FieldLines,
    /// Whether the peer's own `X-Forwarded-*` and `Forwarded` are believed.
    trusted: bool,
    pass_host: PassHost,
    /// The `Host` of `pass_host: rewrite`.
    upstream_host: Option<&'h str>,
    /// The `Host` of `pass_host: node`.
    node: &'h Rc<str>,
}

/// Writes the request's head for `node` into `out`. `upgrade` keeps the client's wish for another protocol.
pub(super) fn write(
    link: &Link<'_>,
    exchange: &mut Exchange<'_>,
    upstream: &Upstream,
    node: &NodeState,
    upgrade: bool,
    out: &mut Vec<u8>,
) {
    let hop = Hop::new(link, upstream, node);
    write_head(&hop, exchange, upgrade, out);
}

/// The request's head for `node` as HTTP/2 has it.
pub(super) fn section(
    link: &Link<'_>,
    exchange: &mut Exchange<'_>,
    upstream: &Upstream,
    node: &NodeState,
) -> RequestSection {
    write_section(&Hop::new(link, upstream, node), exchange)
}

fn write_section(hop: &Hop<'_>, exchange: &mut Exchange<'_>) -> RequestSection {
    let (authority, named) = choose_host(hop, exchange);
    let mut section = RequestSection::new(method(exchange), target(exchange), authority);
    write_fields(hop, exchange, false, section.fields());
    exchange.upstream.host = named;
    section
}

impl<'h> Hop<'h> {
    #[inline]
    fn new(link: &Link<'h>, upstream: &'h Upstream, node: &'h NodeState) -> Self {
        Self {
            forwarded: link.forwarded,
            trusted: link.trusted,
            pass_host: upstream.pass_host,
            upstream_host: upstream.upstream_host.as_deref(),
            node: &node.authority,
        }
    }
}

fn method<'x>(exchange: &'x Exchange<'_>) -> &'x [u8] {
    let request = &exchange.request;
    let edits = request.edits.as_deref();
    edits.and_then(|edits| edits.method.as_deref()).map_or(request.method(), str::as_bytes)
}

fn target<'x>(exchange: &'x Exchange<'_>) -> &'x [u8] {
    let edits = exchange.request.edits.as_deref();
    edits.and_then(|edits| edits.target.as_deref()).unwrap_or(exchange.request.target())
}

fn write_head(hop: &Hop<'_>, exchange: &mut Exchange<'_>, upgrade: bool, out: &mut Vec<u8>) {
    out.clear();
    let method = method(exchange);
    if method == b"GET" {
        // Written as one word.
        out.extend_from_slice(b"GET ");
    } else {
        out.extend_from_slice(method);
        out.push(b' ');
    }
    out.extend_from_slice(target(exchange));
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    let (authority, named) = choose_host(hop, exchange);
    out.extend_from_slice(authority);
    out.extend_from_slice(b"\r\n");
    write_fields(hop, exchange, upgrade, out);
    out.extend_from_slice(b"\r\n");
    exchange.upstream.host = named;
}

/// Writes all fields but `Host`.
#[inline(always)]
fn write_fields(hop: &Hop<'_>, exchange: &Exchange<'_>, upgrade: bool, out: &mut impl FieldSink) {
    write_forwarded(hop, exchange, out);
    relay_fields(hop, exchange, upgrade, out);
    let replaced = exchange.request.edits.as_ref().and_then(|edits| edits.body.as_ref());
    let length = match replaced {
        Some(body) => BodyLength::Exact(body.len() as u64),
        None => exchange.request.view.head.facts.body,
    };
    match length {
        BodyLength::Exact(length) if replaced.is_some() || !body_changes(exchange) => {
            out.number(FieldName::CONTENT_LENGTH, length);
        }
        BodyLength::Exact(_) | BodyLength::Chunked => {
            out.field(FieldName::TRANSFER_ENCODING, FieldValue::CHUNKED);
        }
        // A body that a client might be expected to send, and doesn't (RFC 9110 section 8.6).
        _ if matches!(method(exchange), b"POST" | b"PUT" | b"PATCH") => {
            out.number(FieldName::CONTENT_LENGTH, 0);
        }
        _ => {}
    }
    if upgrade {
        out.field(FieldName::CONNECTION, const { FieldValue::of("upgrade") });
    }
}

/// Whether filters change the request's body while it is sent.
fn body_changes(exchange: &Exchange<'_>) -> bool {
    exchange.request.edits.as_ref().is_some_and(|edits| edits.body_changes)
}

/// The value of `Host` towards `node`.
pub(super) fn host<'x>(exchange: &'x Exchange<'_>, upstream: &'x Upstream, node: &'x NodeState) -> &'x [u8] {
    let request = &exchange.request;
    if let Some(host) = request.edits.as_ref().and_then(|edits| edits.host.as_deref()) {
        return host;
    }
    let own = request.view.head.authority.get(request.view.bytes);
    match (upstream.pass_host, &upstream.upstream_host) {
        (PassHost::Rewrite, Some(host)) => host.as_bytes(),
        (PassHost::Pass, _) if !own.is_empty() => own,
        _ => node.authority.as_bytes(),
    }
}

/// The value of `Host`, and again where it is not the client's own.
#[inline]
fn choose_host<'x>(hop: &Hop<'x>, exchange: &'x Exchange<'_>) -> (&'x [u8], Option<Rc<str>>) {
    let request = &exchange.request;
    if let Some(host) = request.edits.as_ref().and_then(|edits| edits.host.as_deref()) {
        return (host, std::str::from_utf8(host).ok().map(Rc::from));
    }
    let own = request.view.head.authority.get(request.view.bytes);
    match (hop.pass_host, hop.upstream_host) {
        (PassHost::Rewrite, Some(host)) => (host.as_bytes(), Some(host.into())),
        (PassHost::Pass, _) if !own.is_empty() => (own, None),
        _ => (hop.node.as_bytes(), Some(Rc::clone(hop.node))),
    }
}

/// Tells the upstream about the client: its address added to `X-Forwarded-For`, and what the client asked for. Other fields
/// that plugins speak of are theirs; the client's address stands behind what they say of `X-Forwarded-For`, since its last
/// member is what upstreams go by (nginx's `$proxy_add_x_forwarded_for`).
fn write_forwarded(hop: &Hop<'_>, exchange: &Exchange<'_>, out: &mut impl FieldSink) {
    let request = &exchange.request;
    let edits = request.edits.as_ref().map(|edits| &edits.headers).filter(|edits| !edits.is_empty());
    let edited = |name: &[u8]| edits.is_some_and(|edits| edits.get(name).is_some());
    let told = request.view.head.facts.forwarded;
    let chain = || request.view.head.fields.iter().filter(|field| field.known == Known::XForwardedFor);
    let kept = |name: &[u8]| (told && hop.trusted && request.view.header(name).is_some()) || edited(name);
    let same_for_all = !hop.trusted
        && !exchange.client.is_restated()
        && (edits.is_none() || !SAME_FOR_ALL.into_iter().any(edited));
    if same_for_all && !(told && chain().next().is_some()) {
        out.lines(hop.forwarded.all());
    } else {
        let ip = FieldValue::parsed(exchange.client.ip_text.as_bytes());
        if !edited(b"x-real-ip") {
            out.field(X_REAL_IP, ip);
        }
        let own = chain().filter(|_| !edits.is_some_and(|edits| edits.drops(FORWARDED_FOR)));
        let own = own.map(|field| field.value.get(request.view.bytes));
        let added = edits.into_iter().flat_map(HeaderEdits::fields);
        let added = added.filter(|(name, _)| name.eq_ignore_ascii_case(FORWARDED_FOR));
        let before = own.chain(added.map(|(_, value)| value)).filter(|value| !value.is_empty());
        let before = before.flat_map(|value| [FieldValue::parsed(value), const { FieldValue::of(", ") }]);
        out.joined(X_FORWARDED_FOR, before.chain([ip]));
        if !kept(b"x-forwarded-proto") {
            out.field(X_FORWARDED_PROTO, FieldValue::parsed(exchange.client.scheme().as_bytes()));
        }
    }
    let authority = request.view.head.authority.get(request.view.bytes);
    if !authority.is_empty() && !kept(b"x-forwarded-host") {
        out.field(X_FORWARDED_HOST, FieldValue::parsed(authority));
    }
    if !kept(b"x-forwarded-port") {
        match authority.get(request.view.head.host.len() + 1..) {
            Some(port) if !port.is_empty() => out.field(X_FORWARDED_PORT, FieldValue::parsed(port)),
            _ => out.number(X_FORWARDED_PORT, u64::from(exchange.client.local.port())),
        }
    }
}

/// The fields of [`forwarded_lines`].
const SAME_FOR_ALL: [&[u8]; 3] = [b"x-real-ip", FORWARDED_FOR, b"x-forwarded-proto"];

const FORWARDED_FOR: &[u8] = b"x-forwarded-for";

const X_REAL_IP: FieldName = FieldName::of("X-Real-IP: ");
const X_FORWARDED_FOR: FieldName = FieldName::of("X-Forwarded-For: ");
const X_FORWARDED_PROTO: FieldName = FieldName::of("X-Forwarded-Proto: ");
const X_FORWARDED_HOST: FieldName = FieldName::of("X-Forwarded-Host: ");
const X_FORWARDED_PORT: FieldName = FieldName::of("X-Forwarded-Port: ");

/// The fields of a client's request that the gateway doesn't pass on, or writes itself.
const GATEWAYS_OWN: KnownSet = Known::HOP_BY_HOP
    .with(Known::Host)
    .with(Known::XForwardedFor)
    .with(Known::XForwardedOther)
    .with(Known::Forwarded)
    .with(Known::XRealIp);

/// Copies the client's other fields, those of the connection and those that plugins drop left out.
fn relay_fields(hop: &Hop<'_>, exchange: &Exchange<'_>, upgrade: bool, out: &mut impl FieldSink) {
    let request = &exchange.request;
    let facts = &request.view.head.facts;
    let edits = request.edits.as_ref().map(|edits| &edits.headers).filter(|edits| !edits.is_empty());
    let bytes = request.view.bytes;
    let left_out = GATEWAYS_OWN
        .without_if(Known::XForwardedOther, hop.trusted)
        .without_if(Known::Forwarded, hop.trusted)
        .without_if(Known::Upgrade, upgrade);
    out.relay(bytes, &request.view.head.fields, |field| {
        if left_out.has(field.known) || (field.known == Known::Other && is_forged(field.name.get(bytes))) {
            return false;
        }
        let dropped = edits.is_some_and(|edits| edits.drops_spelled(field.name.get(bytes)))
            || (facts.nominates && is_nominated(&request.view.head.fields, bytes, field));
        !dropped
    });
    match edits {
        // Already said, with the client's address: see `write_forwarded`.
        Some(edits) if edits.get(FORWARDED_FOR).is_some() => {
            let others = edits.fields().filter(|(name, _)| !name.eq_ignore_ascii_case(FORWARDED_FOR));
            others.for_each(|(name, value)| out.any(std::str::from_utf8(name).unwrap_or_default(), value));
        }
        Some(edits) => edits.write(out),
        None => {}
    }
}

/// Whether only the gateway may say this field, so that a client's own is dropped: the consumer's, in any spelling, and
/// those about the connection where underscores stand for hyphens ([`Known`] has the others). CGI, WSGI and Rack turn
/// both characters into one, so that an application can't tell `X_Real_IP` from `X-Real-IP`.
#[inline]
fn is_forged(name: &[u8]) -> bool {
    matches!(name, [b'x' | b'X', b'-' | b'_', b'r' | b'R' | b'f' | b'F' | b'c' | b'C', ..]) && is_own(name)
}

/// The fields that the gateway writes itself; of consumers, all that begin with `x-consumer-`.
const OWN: [&[u8]; 6] = [
    b"x-real-ip",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-port",
    b"x-forwarded-proto",
    b"x-credential-identifier",
];

#[inline(never)]
fn is_own(name: &[u8]) -> bool {
    let same = |(own, byte): (&u8, &u8)| *own == byte.to_ascii_lowercase() || (*own == b'-' && *byte == b'_');
    let spells = |own: &[u8], name: &[u8]| own.len() == name.len() && own.iter().zip(name).all(same);
    let consumer = b"x-consumer-";
    OWN.iter().any(|own| spells(own, name))
        || name.get(..consumer.len()).is_some_and(|start| spells(consumer, start))
}

/// Whether a `Connection` field names this one (RFC 9110 section 7.6.1). None may take the length away by which the end
/// of the message is found.
pub(super) fn is_nominated(fields: &[Field], bytes: &[u8], field: &Field) -> bool {
    let name = field.name.get(bytes);
    field.known != Known::ContentLength
        && fields.iter().filter(|other| other.known == Known::Connection).any(|connection| {
            connection
                .value
                .get(bytes)
                .split(|byte| *byte == b',')
                .any(|token| token.trim_ascii().eq_ignore_ascii_case(name))
        })
}

#[cfg(test)]
mod tests;
