//! A copy of the client's request that a plugin sends on its own, after the exchange if need be.

use crate::headers::is_of_connection;
use plugin::{BadCall, Call, CallTimeouts, Exchange, HeaderEdits};

/// The method and the header fields of the request as an upstream would get them, for `target`. The `Host` is the one of
/// the request, or `authority` where it names none; fields of the connection and `Expect` are left out. The body is the
/// caller's to add.
///
/// # Errors
/// A request that no call can be made of.
pub(crate) fn head(
    exchange: &Exchange<'_>,
    authority: &str,
    target: Vec<u8>,
    timeouts: CallTimeouts,
) -> Result<Call, BadCall> {
    let (request, view) = (&exchange.request, exchange.request.view);
    let edits = request.edits.as_deref();
    let method = match edits.and_then(|edits| edits.method.as_deref()) {
        Some(method) => method,
        None => std::str::from_utf8(request.method()).map_err(|_| BadCall("the method is no token"))?,
    };
    let own = view.head.authority.get(view.bytes);
    let host = match edits.and_then(|edits| edits.host.as_deref()) {
        Some(host) => host,
        None if own.is_empty() => authority.as_bytes(),
        None => own,
    };
    let mut call = Call::new(method, host, target, timeouts)?;
    for (name, value) in fields(exchange) {
        if !is_of_message(name) {
            call.headers.append(name, value);
        }
    }
    Ok(call)
}

/// The request's fields as an upstream would get them, but for those that the gateway adds about the connection. Of a
/// field that a plugin set or removed the client's own are left out, in every spelling.
pub(crate) fn fields<'x>(exchange: &'x Exchange<'_>) -> impl Iterator<Item = (&'x str, &'x [u8])> {
    let view = exchange.request.view;
    let edits = exchange.request.edits.as_ref().map(|edits| &edits.headers);
    let own =
        view.head.fields.iter().map(move |field| (field.name.get(view.bytes), field.value.get(view.bytes)));
    let kept = own.filter(move |(name, _)| !edits.is_some_and(|edits| edits.drops_spelled(name)));
    let all = kept.chain(edits.into_iter().flat_map(HeaderEdits::fields));
    all.filter_map(|(name, value)| Some((std::str::from_utf8(name).ok()?, value)))
}

/// Whether a field belongs to the message that it came in and not to the request.
pub(crate) fn is_of_message(name: &str) -> bool {
    is_of_connection(name) || ["host", "expect"].iter().any(|other| name.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Authority, MethodName};
    use std::time::Duration;

    fn copy(exchange: &Exchange<'_>) -> (String, String, String) {
        let call = head(exchange, "m.test", b"/t".to_vec(), CallTimeouts::all(Duration::from_secs(1)))
            .expect("a valid request");
        let host = String::from_utf8_lossy(call.authority()).into_owned();
        (call.method().to_owned(), host, testkit::lines(&call.headers))
    }

    #[test]
    fn fields_of_the_request_are_copied_and_those_of_its_message_are_not() {
        let bench = Bench::new(
            "POST /a\nHost: a.com:80\nX-A: 1\nX-A: 2\nX_User: forged\nConnection: close\nKeep-Alive: 1\n\
             Content-Length: 3\nExpect: 100-continue\nTE: trailers\nContent-Type: text/plain",
        );
        let mut exchange = bench.exchange();
        let edits = exchange.request.edit();
        edits.headers.set("X-User", "u");
        let expected = "X-A: 1\r\nX-A: 2\r\nContent-Type: text/plain\r\nX-User: u\r\n";
        assert_eq!(copy(&exchange), ("POST".to_owned(), "a.com:80".to_owned(), expected.to_owned()));
        let edits = exchange.request.edit();
        edits.host = Authority::new("b.com");
        edits.method = MethodName::new("PUT");
        let (method, host, _) = copy(&exchange);
        assert_eq!((method.as_str(), host.as_str()), ("PUT", "b.com"));
    }
}
