//! An API of this process, on the data port: its requests are small, so they are read whole and answered elsewhere.

use super::After;
use super::body::RequestBody;
use super::respond::{self, Message};
use crate::config::{Mount, MountRequest};
use crate::connection::Link;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io;
use plugin::{Exchange, Reply};

/// Answers from the mounted API.
pub(super) async fn answer(
    link: &mut Link<'_>,
    message: &mut Message<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    mount: &Mount,
) -> After {
    let reply = match collect(link, body, exchange, mount).await {
        Ok(body) => mount.handler.handle(request(exchange, body)).await,
        Err(error) if error.status() == 499 => {
            return respond::fail(link, message, body, None, exchange, error).await;
        }
        Err(error) => Reply::error(error.status(), error.reason),
    };
    respond::reply(link, message, body, None, exchange, &reply).await
}

async fn collect(
    link: &mut Link<'_>,
    body: &mut RequestBody<'_>,
    exchange: &Exchange<'_>,
    mount: &Mount,
) -> Result<Vec<u8>, ProxyError> {
    let limits = &link.config.client;
    if matches!(body.length(), wire::BodyLength::Exact(length) if length > mount.max_body_bytes as u64) {
        return Err(ProxyError::new(Side::Client, ErrorKind::TooLarge, "request body too large"));
    }
    if exchange.request.view.head.facts.expects_continue && !body.has_begun() {
        let limit = link.timer.within(limits.send_timeout);
        let sent = io::write_all(link.stream, super::relay::CONTINUE, limit).await;
        sent.map_err(|error| ProxyError::io(Side::Client, &error))?;
    }
    let limit = link.timer.within(limits.body_timeout);
    body.collect(link.stream, mount.max_body_bytes, limit).await
}

fn request(exchange: &Exchange<'_>, body: Vec<u8>) -> MountRequest {
    let request = &exchange.request;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = request.view.head.fields.iter().map(|field| {
        (text(field.name.get(request.view.bytes)), field.value.get(request.view.bytes).to_vec())
    });
    let mut headers: Vec<_> = headers.collect();
    let authority = request.view.head.authority.get(request.view.bytes);
    // The absolute form overrides `Host` (RFC 9112 section 3.2.2); the handler checks both.
    let named = |(name, host): &(String, Vec<u8>)| name.eq_ignore_ascii_case("host") && host == authority;
    if !authority.is_empty() && !headers.iter().any(named) {
        headers.push(("host".to_owned(), authority.to_vec()));
    }
    MountRequest {
        method: text(request.method()),
        path: text(&request.path),
        query: text(request.query()),
        headers,
        body,
        peer: exchange.client.ip(),
    }
}
