//! Which requests have the same response: the key, and the URI that a change makes invalid.

use super::Cache;
use crate::headers::HeaderOps;
use model::var::Template;
use plugin::{Exchange, UpstreamResponse};
use std::borrow::Cow;

/// What a part of a key is. Each part has its length before it, so that no two lists of parts make the same key, whatever
/// clients put into them.
#[derive(Clone, Copy)]
enum Part {
    /// `cache_key`'s.
    Configured = 1,
    /// The consumer's name.
    Consumer = 2,
    /// Who the client says it is, which nobody has checked.
    Claimed = 3,
    /// `http` or `https`: two origins (RFC 9110 section 4.3.1), and upstreams that are told redirect from one to the other.
    Scheme = 4,
    /// The path as the client sent it, where that is not the one that `$uri` says.
    RawPath = 5,
    /// The same for `Host`.
    RawHost = 6,
}

/// The first byte of a key: its form, so that what earlier versions left on disk is not found, and what POST gave.
const FORM: u8 = 2;
const FORM_POSTED: u8 = 3;

impl Cache {
    /// The key of a request that came by `scheme`. What it names is in the form in which the upstream gets it: an upstream
    /// may answer `/x%2fy` and `/x/y`, or `a.com` and `a.com:8080`, differently.
    pub(super) fn key(&self, exchange: &Exchange<'_>, posted: bool, scheme: &str) -> Vec<u8> {
        let mut key = vec![if posted { FORM_POSTED } else { FORM }];
        if let Some(remote_user) = &self.identity {
            match exchange.consumer {
                Some(consumer) => push(&mut key, Part::Consumer, consumer.name.as_bytes()),
                None => push(&mut key, Part::Claimed, &HeaderOps::render(remote_user, exchange)),
            }
        }
        let render = |part: &Template| HeaderOps::render(part, exchange);
        self.key.iter().for_each(|part| push(&mut key, Part::Configured, &render(part)));
        push(&mut key, Part::Scheme, scheme.as_bytes());
        let request = &exchange.request;
        let head = request.view.head;
        let (path, host) = (head.path.get(request.view.bytes), head.authority.get(request.view.bytes));
        if self.names.path && *path != *request.path {
            push(&mut key, Part::RawPath, path);
        }
        if self.names.host && *host != *request.host {
            push(&mut key, Part::RawHost, host);
        }
        key
    }

    /// Whether the request's key says whose credentials it shows, because it has them, or the consumer whose they are: the
    /// gateway has checked that.
    pub(super) fn names_client(&self, exchange: &Exchange<'_>) -> bool {
        let known = exchange.consumer.is_some() && !exchange.anonymous;
        self.names.credentials || (known && (self.identity.is_some() || self.names.consumer))
    }

    /// Forgets all responses with the request's key, by whatever scheme they were asked for; whether there were any.
    pub(super) fn purge(&self, exchange: &Exchange<'_>) -> bool {
        let forms = [("http", false), ("https", false), ("http", true), ("https", true)];
        let found = forms.map(|(scheme, posted)| self.zone.purge(&self.key(exchange, posted, scheme)));
        found.contains(&true)
    }

    /// Makes what is kept invalid after a request that changed it (RFC 9111 section 4.4): of its own URI, and of those in
    /// `Location` and `Content-Location` with the same origin.
    pub(super) fn note_change(&self, exchange: &Exchange<'_>, response: &UpstreamResponse<'_>) {
        let method = exchange.request.method();
        // A POST that the operator has kept responses of changes nothing.
        if matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PURGE") || self.caches(method) {
            return;
        }
        let Some((head, bytes)) = response.head.filter(|(head, _)| (200..400).contains(&head.status)) else {
            return;
        };
        self.zone.invalidate(&uri(exchange));
        self.purge(exchange);
        for name in [&b"location"[..], b"content-location"] {
            let target = head.header(bytes, name).and_then(|target| same_origin(exchange, target));
            if let Some(uri) = target {
                self.zone.invalidate(&uri);
            }
        }
    }
}

fn push(key: &mut Vec<u8>, part: Part, bytes: &[u8]) {
    key.push(part as u8);
    // A head is far below 4 GiB, and so is all that is made of one.
    key.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    key.extend_from_slice(bytes);
}

/// What a request is for, in the form in which two requests for the same thing say the same.
pub(super) fn uri(exchange: &Exchange<'_>) -> Vec<u8> {
    let request = &exchange.request;
    [&request.host, &b"\0"[..], &request.path, b"?", request.query()].concat()
}

/// The same for a URI or a path that a response names; `None` where it is of another origin.
fn same_origin(exchange: &Exchange<'_>, target: &[u8]) -> Option<Vec<u8>> {
    let host = &exchange.request.host;
    let local = if target.starts_with(b"/") && !target.starts_with(b"//") {
        target
    } else {
        let scheme = [exchange.client.scheme().as_bytes(), b"://"].concat();
        let rest =
            target.split_at_checked(scheme.len()).filter(|(start, _)| start.eq_ignore_ascii_case(&scheme))?.1;
        let (authority, path) = rest.split_at(rest.iter().position(|byte| *byte == b'/')?);
        wire::host_of(authority).filter(|other| other.eq_ignore_ascii_case(host))?;
        path
    };
    let local = local.split(|byte| *byte == b'#').next().unwrap_or_default();
    let (path, query) = local.split_at(local.iter().position(|byte| *byte == b'?').unwrap_or(local.len()));
    let path: Cow<'_, [u8]> = wire::normalise_path(path)?;
    Some([&host[..], b"\0", &path, b"?", query.strip_prefix(b"?").unwrap_or_default()].concat())
}
