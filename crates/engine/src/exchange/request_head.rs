//! The head that the upstream gets.

use crate::connection::Link;
use crate::upstream::NodeState;
use model::resource::PassHost;
use plugin::{Client, Exchange};
use snapshot::Upstream;
use std::rc::Rc;
use wire::http1::{KnownSet, Lines, push_decimal};
use wire::{BodyLength, Field, Known};

/// The lines about the client's connection that are the same for all its requests.
pub(crate) fn forwarded_lines(client: &Client) -> Vec<u8> {
    let (ip, scheme) = (&client.ip_text, client.scheme());
    format!("X-Real-IP: {ip}\r\nX-Forwarded-For: {ip}\r\nX-Forwarded-Proto: {scheme}\r\n").into_bytes()
}

/// What a head says besides the request: the client's connection on one side, the node on the other.
struct Hop<'h> {
    /// [`forwarded_lines`].
    forwarded: &'h [u8],
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
    let hop = Hop {
        forwarded: link.forwarded,
        trusted: link.trusted,
        pass_host: upstream.pass_host,
        upstream_host: upstream.upstream_host.as_deref(),
        node: &node.authority,
    };
    write_head(&hop, exchange, upgrade, out);
}

fn write_head(hop: &Hop<'_>, exchange: &mut Exchange<'_>, upgrade: bool, out: &mut Vec<u8>) {
    out.clear();
    let request = &exchange.request;
    let edits = request.edits.as_deref();
    let method = edits.and_then(|edits| edits.method.as_deref()).map_or(request.method(), str::as_bytes);
    let target = edits.and_then(|edits| edits.target.as_deref()).unwrap_or(request.target());
    if method == b"GET" {
        // Written as one word.
        out.extend_from_slice(b"GET ");
    } else {
        out.extend_from_slice(method);
        out.push(b' ');
    }
    out.extend_from_slice(target);
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    exchange.upstream.host = write_host(hop, exchange, out);
    out.extend_from_slice(b"\r\n");
    write_forwarded(hop, exchange, out);
    write_fields(hop, exchange, upgrade, out);
    let replaced = exchange.request.edits.as_ref().and_then(|edits| edits.body.as_ref());
    let length = match replaced {
        Some(body) => BodyLength::Exact(body.len() as u64),
        None => exchange.request.view.head.facts.body,
    };
    match length {
        BodyLength::Exact(length) => {
            out.extend_from_slice(b"Content-Length: ");
            push_decimal(out, length);
            out.extend_from_slice(b"\r\n");
        }
        BodyLength::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        // A body that a client might be expected to send, and doesn't (RFC 9110 section 8.6).
        _ if matches!(method, b"POST" | b"PUT" | b"PATCH") => out.extend_from_slice(b"Content-Length: 0\r\n"),
        _ => {}
    }
    if upgrade {
        out.extend_from_slice(b"Connection: upgrade\r\n");
    }
    out.extend_from_slice(b"\r\n");
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

/// Writes the value of `Host`; says which it is where it is not the client's own.
fn write_host(hop: &Hop<'_>, exchange: &Exchange<'_>, out: &mut Vec<u8>) -> Option<Rc<str>> {
    let request = &exchange.request;
    if let Some(host) = request.edits.as_ref().and_then(|edits| edits.host.as_deref()) {
        out.extend_from_slice(host);
        return std::str::from_utf8(host).ok().map(Rc::from);
    }
    let own = request.view.head.authority.get(request.view.bytes);
    match (hop.pass_host, hop.upstream_host) {
        (PassHost::Rewrite, Some(host)) => {
            out.extend_from_slice(host.as_bytes());
            Some(host.into())
        }
        (PassHost::Pass, _) if !own.is_empty() => {
            out.extend_from_slice(own);
            None
        }
        _ => {
            out.extend_from_slice(hop.node.as_bytes());
            Some(Rc::clone(hop.node))
        }
    }
}

/// Tells the upstream about the client: its address added to `X-Forwarded-For`, and what the client asked for. Fields
/// that plugins speak of are theirs.
fn write_forwarded(hop: &Hop<'_>, exchange: &Exchange<'_>, out: &mut Vec<u8>) {
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
        out.extend_from_slice(hop.forwarded);
    } else {
        let ip = exchange.client.ip_text.as_bytes();
        if !edited(b"x-real-ip") {
            line(out, "X-Real-IP", ip);
        }
        if !edited(b"x-forwarded-for") {
            out.extend_from_slice(b"X-Forwarded-For: ");
            for field in chain() {
                out.extend_from_slice(field.value.get(request.view.bytes));
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(ip);
            out.extend_from_slice(b"\r\n");
        }
        if !kept(b"x-forwarded-proto") {
            line(out, "X-Forwarded-Proto", exchange.client.scheme().as_bytes());
        }
    }
    let authority = request.view.head.authority.get(request.view.bytes);
    if !authority.is_empty() && !kept(b"x-forwarded-host") {
        out.extend_from_slice(b"X-Forwarded-Host: ");
        out.extend_from_slice(authority);
        out.extend_from_slice(b"\r\n");
    }
    if !kept(b"x-forwarded-port") {
        out.extend_from_slice(b"X-Forwarded-Port: ");
        match authority.get(request.view.head.host.len() + 1..) {
            Some(port) if !port.is_empty() => out.extend_from_slice(port),
            _ => push_decimal(out, u64::from(exchange.client.local.port())),
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// The fields of [`forwarded_lines`].
const SAME_FOR_ALL: [&[u8]; 3] = [b"x-real-ip", b"x-forwarded-for", b"x-forwarded-proto"];

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The fields of a client's request that the gateway doesn't pass on, or writes itself.
const GATEWAYS_OWN: KnownSet = Known::HOP_BY_HOP
    .with(Known::Host)
    .with(Known::XForwardedFor)
    .with(Known::XForwardedOther)
    .with(Known::Forwarded)
    .with(Known::XRealIp);

/// Copies the client's other fields, those of the connection and those that plugins drop left out.
fn write_fields(hop: &Hop<'_>, exchange: &Exchange<'_>, upgrade: bool, out: &mut Vec<u8>) {
    let request = &exchange.request;
    let facts = &request.view.head.facts;
    let edits = request.edits.as_ref().map(|edits| &edits.headers).filter(|edits| !edits.is_empty());
    let bytes = request.view.bytes;
    let mut lines = Lines::new(bytes, out);
    let left_out = GATEWAYS_OWN
        .without_if(Known::XForwardedOther, hop.trusted)
        .without_if(Known::Forwarded, hop.trusted)
        .without_if(Known::Upgrade, upgrade);
    for field in &request.view.head.fields {
        if left_out.has(field.known) || (field.known == Known::Other && is_forged(field.name.get(bytes))) {
            continue;
        }
        let dropped = edits.is_some_and(|edits| edits.drops_spelled(field.name.get(bytes)))
            || (facts.nominates && is_nominated(&request.view.head.fields, bytes, field));
        if !dropped {
            lines.keep(field);
        }
    }
    lines.flush();
    if let Some(edits) = edits {
        edits.write(out);
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
