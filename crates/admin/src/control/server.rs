//! The control API as an axum application.

use super::{Control, ControlRequest};
use crate::AdminResponse;
use crate::http::server::BODY_TIMEOUT;
use crate::http::wire::to_http;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::Response;
use percent_encoding::percent_decode_str;
use std::sync::Arc;

/// The largest request: one to explain, with its body.
const BODY_MAX: usize = 1 << 20;

/// The `Server` header: without a version, whatever the data plane says.
const SERVER: &str = "Tidegate";

/// The application, to be served on a listener of its own.
pub fn server(control: Arc<Control>) -> Router {
    Router::new().fallback(answer).with_state(control)
}

async fn answer(State(control): State<Arc<Control>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, BODY_MAX)).await else {
        return to_http(AdminResponse::error(408, "the body did not arrive in time"), SERVER);
    };
    let Ok(body) = body else {
        let refusal = AdminResponse::error(413, format!("a body has at most {BODY_MAX} bytes here"));
        return to_http(refusal, SERVER);
    };
    let accept = head.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let request = ControlRequest {
        method: head.method.as_str().to_owned(),
        path: percent_decode_str(head.uri.path()).decode_utf8_lossy().into_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        html: accept.is_some_and(|accept| accept.contains("text/html")),
        body: body.to_vec(),
    };
    let mut response = control.handle(request).await;
    if response.headers.is_empty() {
        response = response.with("Content-Type", "application/json");
    }
    to_http(response, SERVER)
}
