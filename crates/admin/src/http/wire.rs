//! A response as the server sends it.

use crate::AdminResponse;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Response;

/// The answer on the wire; `server` is what its `Server` header says.
pub(crate) fn to_http(response: AdminResponse, server: &'static str) -> Response {
    let mut built = Response::builder().status(response.status);
    built = built.header(header::SERVER, server);
    for (name, value) in response.headers {
        built = built.header(name, value);
    }
    built.body(Body::from(response.body)).unwrap_or_else(|error| {
        tracing::error!(%error, "an Admin response that is no HTTP");
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}
