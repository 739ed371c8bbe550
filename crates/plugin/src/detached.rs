//! A request that goes on after its exchange: a copy for another server than the one that answers.

use crate::{
    Answer, Authority, Call, CallBody, CallError, CallErrorKind, CallTimeouts, Exchange, HeaderEdits,
    HeldBytes, LocalFuture, Request, Services, Target, UpstreamChoice, WholeBody,
};
use bytes::Bytes;
use std::rc::Rc;
use wire::{Field, Known};

/// A copy of a request as the upstream would get it: what plugins changed up to now is in it. It borrows nothing of the
/// exchange, so that a task ([`Services::spawn`]) can send it after the client has its answer.
///
/// The body's bytes count among those of requests that the worker holds ([`crate::REQUEST_BYTES_MAX`]) until the copy is
/// dropped, or its answer has begun.
#[derive(Debug)]
pub struct DetachedRequest {
    method: String,
    /// Path and query.
    pub target: Target,
    /// The value of `Host`; `None` where the client sent none.
    pub authority: Option<Authority>,
    /// All fields but those of the connection and of framing. Of what clients say about themselves nothing is left that
    /// the gateway says: consumers and addresses.
    pub headers: HeaderEdits,
    body: Bytes,
    room: HeldBytes,
}

/// Why a request can't be copied with its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotDetached {
    /// The body has not been read: the hook answers [`crate::Flow::Body`] and runs again.
    Unread,
    /// The body is longer than the limit.
    TooLong,
    /// The worker holds [`crate::REQUEST_BYTES_MAX`] bytes of requests' bodies already.
    NoRoom,
}

impl Exchange<'_> {
    /// Copies the request and its body, if that has at most `limit_bytes`.
    ///
    /// # Errors
    /// When the body can't be copied. [`Self::detach_head`] leaves it out.
    pub fn detach(&self, limit_bytes: usize) -> Result<DetachedRequest, NotDetached> {
        let body = match self.request.whole_body(limit_bytes) {
            WholeBody::Unread => return Err(NotDetached::Unread),
            WholeBody::TooLong => return Err(NotDetached::TooLong),
            WholeBody::Whole(body) => body,
        };
        let mut copy = self.detach_head();
        // Once in the copy, and once in the serialised call.
        copy.room.grow(body.len().saturating_mul(2)).map_err(|_| NotDetached::NoRoom)?;
        copy.body = Bytes::copy_from_slice(body);
        Ok(copy)
    }

    /// Copies the request without its body.
    #[must_use]
    pub fn detach_head(&self) -> DetachedRequest {
        let request = &self.request;
        let edits = request.edits.as_deref();
        let method = edits.and_then(|edits| edits.method.as_deref().map(str::as_bytes));
        let method = String::from_utf8_lossy(method.unwrap_or(request.method())).into_owned();
        let target = edits.and_then(|edits| edits.target.clone());
        let own = request.view.head.authority.get(request.view.bytes);
        let own = if own.is_empty() { None } else { Authority::new(own) };
        DetachedRequest {
            method,
            target: target.unwrap_or_else(|| Target::new(request.target())),
            authority: edits.and_then(|edits| edits.host.clone()).or(own),
            headers: self.detached_fields(),
            body: Bytes::new(),
            room: HeldBytes::of_request(),
        }
    }

    fn detached_fields(&self) -> HeaderEdits {
        let request = &self.request;
        let (bytes, edits) = (request.view.bytes, request.edits.as_ref().map(|edits| &edits.headers));
        let mut fields = HeaderEdits::default();
        for field in &request.view.head.fields {
            let name = field.name.get(bytes);
            let dropped = edits.is_some_and(|edits| edits.drops_spelled(name));
            let keeps = !dropped && passes(field.known, name) && !is_nominated(request, field);
            if let (true, Ok(name)) = (keeps, std::str::from_utf8(name)) {
                fields.append(name, field.value.get(bytes));
            }
        }
        let mut chain = request.view.headers(b"x-forwarded-for").collect::<Vec<_>>();
        chain.push(self.client.ip_text.as_bytes());
        fields.append("X-Real-IP", self.client.ip_text.as_bytes());
        fields.append("X-Forwarded-For", chain.join(&b", "[..]));
        fields.append("X-Forwarded-Proto", self.client.scheme());
        for (name, value) in edits.into_iter().flat_map(HeaderEdits::fields) {
            let name = String::from_utf8_lossy(name);
            if OWN.contains(&&*name.to_ascii_lowercase()) {
                fields.set(&name, value);
            } else {
                fields.append(&name, value);
            }
        }
        fields
    }
}

/// The fields that a copy has once whatever plugins say.
const OWN: [&str; 3] = ["x-real-ip", "x-forwarded-for", "x-forwarded-proto"];

/// Whether a client's field goes on: it is about the request, and not the gateway's to say.
fn passes(known: Known, name: &[u8]) -> bool {
    match known {
        Known::Host
        | Known::XForwardedFor
        | Known::XForwardedOther
        | Known::XRealIp
        | Known::FramingAlias => false,
        // Underscores stand for hyphens in CGI, WSGI and Rack.
        Known::Other => {
            let spelled = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
            let name: Vec<u8> = name.iter().map(spelled).collect();
            !name.starts_with(b"x-consumer-")
                && !name.starts_with(b"x-forwarded-")
                && name != b"x-real-ip"
                && name != b"x-credential-identifier"
        }
        known => !known.is_hop_by_hop(),
    }
}

/// Whether a `Connection` field names this one (RFC 9110 section 7.6.1).
fn is_nominated(request: &Request<'_>, field: &Field) -> bool {
    let (head, bytes) = (request.view.head, request.view.bytes);
    let mut options = request.view.headers(b"connection").flat_map(|list| list.split(|byte| *byte == b','));
    head.facts.nominates
        && options.any(|option| option.trim_ascii().eq_ignore_ascii_case(field.name.get(bytes)))
}

impl DetachedRequest {
    /// The method's token.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The body; empty where there is none.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Sends it to a node of `to`. The memory for its body is given back once the answer's head is there.
    pub fn send(
        self,
        services: &Rc<dyn Services>,
        to: &UpstreamChoice,
        timeouts: CallTimeouts,
    ) -> LocalFuture<Result<Answer, CallError>> {
        let Self { method, target, authority, headers, body, room } = self;
        let authority = authority.as_deref().map(<[u8]>::to_vec).unwrap_or_default();
        let made = Call::new(&method, authority, &target[..], timeouts);
        let mut call = match made {
            Ok(call) => call,
            Err(bad) => {
                let error = CallError { kind: CallErrorKind::Protocol, reason: bad.0 };
                return Box::pin(std::future::ready(Err(error)));
            }
        };
        call.headers = headers;
        if !body.is_empty() {
            call.body = CallBody::Bytes(body);
        }
        let answer = services.call(to, call);
        Box::pin(async move {
            let answer = answer.await;
            drop(room);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Bench;
    use crate::{MethodName, REQUEST_BYTES_MAX};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    fn sent(bench: &Bench, copy: DetachedRequest) -> crate::testkit::MadeCall {
        let services = Rc::clone(&bench.services) as Rc<dyn Services>;
        let to = UpstreamChoice::Id("mirror".into());
        bench.services.answer(204, &[], "");
        let mut sending = copy.send(&services, &to, CallTimeouts::all(Duration::from_secs(1)));
        let polled = sending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(Answer { status: 204, .. }))));
        bench.services.calls().remove(0)
    }

    #[test]
    fn a_copy_is_what_the_upstream_would_get() {
        let bench = Bench::new(
            "POST /a%20b?c=d\nHost: Shop.example:8080\nContent-Length: 4\nConnection: x-hop, close\nX-Hop: 1\n\
             Accept: */*\nX-Consumer_Username: admin\nX_Real_IP: 6.6.6.6\nX-Forwarded-For: 1.1.1.1\n\
             X-Forwarded-Host: b\nExpect: 100-continue\nX-Old: 1\nCookie: a=b",
        )
        .from_ip("9.9.9.9")
        .with_body("text");
        let mut exchange = bench.exchange();
        let edits = exchange.request.edit();
        edits.method = MethodName::new("PUT");
        edits.headers.set("X-Consumer-Username", "eve");
        edits.headers.remove("X-Old");
        edits.headers.set("X-Real-IP", "7.7.7.7");
        exchange.request.set_query(b"e=f".to_vec());
        let copy = exchange.detach(4).expect("the body was read");
        drop(exchange);
        let call = sent(&bench, copy);
        assert_eq!((&*call.method, &*call.target), ("PUT", "/a%20b?e=f"));
        assert_eq!((&*call.authority, &*call.body), ("Shop.example:8080", &b"text"[..]));
        assert_eq!(
            call.headers,
            "Accept: */*\r\nCookie: a=b\r\nX-Forwarded-For: 1.1.1.1, 9.9.9.9\r\nX-Forwarded-Proto: http\r\n\
             X-Consumer-Username: eve\r\nX-Real-IP: 7.7.7.7\r\n"
        );
    }

    #[test]
    fn a_body_is_copied_whole_or_not_at_all() {
        let post = "POST /\nContent-Length: 4";
        let bench = Bench::new(post);
        assert_eq!(bench.exchange().detach(4).err(), Some(NotDetached::Unread));
        assert_eq!(bench.exchange().detach(3).err(), Some(NotDetached::TooLong));
        assert_eq!(sent(&bench, bench.exchange().detach_head()).body, b"");
        let bench = Bench::new(post).with_body("text");
        assert_eq!(bench.exchange().detach(3).err(), Some(NotDetached::TooLong));
        // What copies hold is bounded for the worker as a whole.
        let mut held = HeldBytes::of_request();
        held.grow(REQUEST_BYTES_MAX - 8).expect("nothing is held yet");
        let first = bench.exchange().detach(4).expect("room for one");
        assert_eq!(bench.exchange().detach(4).err(), Some(NotDetached::NoRoom));
        sent(&bench, first);
        assert!(bench.exchange().detach(4).is_ok(), "it was given back");
    }

    #[test]
    fn a_request_without_a_host_needs_one_for_its_copy() {
        let bench = Bench::new("GET /\nHost: ");
        let mut copy = bench.exchange().detach_head();
        assert_eq!(copy.authority, None);
        copy.authority = Authority::new("mirror.example");
        assert_eq!(sent(&bench, copy).authority, "mirror.example");
    }
}
