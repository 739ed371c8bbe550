//! An API of this process, on the data port: its requests are small, so they are read whole and answered elsewhere.

use super::body::RequestBody;
use super::client_head::send_continue;
use super::respond::{self, Message};
use super::{After, ahead, wait};
use crate::config::{Mount, MountRequest};
use crate::error::{ErrorKind, ProxyError, Side};
use crate::link::Link;
use crate::services::PLUGIN_WAIT_MAX;
use plugin::{Exchange, HeldBytes, Reply};
use wire::BodyLength;

/// Answers from the mounted API.
pub(super) async fn answer(
    link: &mut Link<'_>,
    message: &mut Message<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    mount: &Mount,
) -> After {
    let result = ask(link, body, exchange, mount).await;
    let reply = match result {
        Ok(reply) => reply,
        Err(error) if error.status() == 499 => {
            return respond::fail(link, message, body, None, exchange, error).await;
        }
        Err(error) => Reply { headers: error.reply().headers, ..Reply::error(error.status(), error.reason) },
    };
    respond::reply(link, message, body, None, exchange, &reply).await
}

async fn ask(
    link: &mut Link<'_>,
    body: &mut RequestBody<'_>,
    exchange: &Exchange<'_>,
    mount: &Mount,
) -> Result<Reply, ProxyError> {
    let mut room = HeldBytes::of_request();
    let length = match body.length() {
        BodyLength::Exact(length) => usize::try_from(length).unwrap_or(usize::MAX),
        _ => mount.max_body_bytes,
    };
    ahead::take(&mut room, length.min(mount.max_body_bytes))?;
    let collected = collect(link, body, exchange, mount).await?;
    ahead::take(&mut room, collected.len())?;
    let answer = mount.handler.handle(request(exchange, collected));
    let late = "the API of this process did not answer in time";
    wait::within(link.timer.within(PLUGIN_WAIT_MAX), answer, link.stream).await?.ok_or(ProxyError::new(
        Side::Upstream,
        ErrorKind::Timeout,
        late,
    ))
}

async fn collect(
    link: &mut Link<'_>,
    body: &mut RequestBody<'_>,
    exchange: &Exchange<'_>,
    mount: &Mount,
) -> Result<Vec<u8>, ProxyError> {
    let limits = &link.config.client;
    if matches!(body.length(), BodyLength::Exact(length) if length > mount.max_body_bytes as u64) {
        return Err(ProxyError::new(Side::Client, ErrorKind::TooLarge, "request body too large"));
    }
    if exchange.request.view.head.facts.expects_continue && !body.has_begun() {
        send_continue(link).await?;
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
