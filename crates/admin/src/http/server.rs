//! The Admin API on a listener of its own.

use crate::http::serving::Server;
use crate::http::wire::to_http;
use crate::{AdminRequest, AdminResponse, CurrentAdmin};
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::Response;
use futures_util::StreamExt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a body may take to arrive: nginx's `client_body_timeout`, but for the whole.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes read of a body that is too large, so that its sender gets to reading why: five times APISIX's limit.
const DISCARD_MAX: u64 = 8 * 1024 * 1024;

/// The Admin API's server.
#[must_use]
pub fn server(admin: Arc<CurrentAdmin>, connections_max: usize) -> Server {
    let app = Router::new().fallback(answer).with_state(admin);
    // Which pages may call it depends on the key.
    Server::new("the Admin API", app, connections_max).for_all_senders()
}

async fn answer(
    State(current): State<Arc<CurrentAdmin>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let admin = current.get();
    let (head, body) = request.into_parts();
    let mut request = without_body(&head, peer);
    let read = read(&head, body, admin.body_limit(&request));
    let response = match tokio::time::timeout(BODY_TIMEOUT, read).await {
        Ok(Ok((body, body_size))) => {
            (request.body, request.body_size) = (body, body_size);
            admin.handle(request).await
        }
        Ok(Err(error)) => AdminResponse::error(400, format!("invalid request body: {error}")),
        Err(_) => AdminResponse::error(408, "invalid request body: it did not arrive in time"),
    };
    to_http(response, admin.settings().server)
}

/// The request as its head has it.
fn without_body(head: &Parts, peer: SocketAddr) -> AdminRequest {
    let headers = AdminRequest::HEADERS.into_iter().flat_map(|name| {
        let values = head.headers.get_all(name).iter();
        values.map(move |value| (name.to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
    });
    // An authority of the target overrides `Host` (RFC 9112 section 3.2.2); both are checked.
    let authority = head.uri.authority().map(|authority| ("host".to_owned(), authority.to_string()));
    AdminRequest {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: headers.chain(authority).collect(),
        body: Vec::new(),
        body_size: 0,
        peer: peer.ip(),
        on_data_port: false,
    }
}

/// The body, of which at most `limit` bytes are kept, and its size as far as known.
async fn read(head: &Parts, body: Body, limit: usize) -> Result<(Vec<u8>, u64), axum::Error> {
    let announced = head.headers.get(header::CONTENT_LENGTH);
    let announced =
        announced.and_then(|length| length.to_str().ok()?.parse::<u64>().ok()).unwrap_or_default();
    let fits = usize::try_from(announced).is_ok_and(|length| length <= limit);
    // Who asks first is told before the body is sent.
    if !fits && head.headers.contains_key(header::EXPECT) {
        return Ok((Vec::new(), announced));
    }
    let mut kept = Vec::new();
    let mut size = 0;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        size += chunk.len() as u64;
        if fits && kept.len() + chunk.len() <= limit {
            kept.extend_from_slice(&chunk);
        }
        if size > DISCARD_MAX.max(limit as u64) {
            break;
        }
    }
    Ok((kept, size.max(announced)))
}
