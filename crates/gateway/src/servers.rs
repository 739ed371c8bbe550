//! The control plane's listeners: Admin API, status, metrics. Bound before anything runs, served on one event loop.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use admin::{AdminRequest, CurrentAdmin};
use anyhow::Context;
use axum::Router;
use axum::http::header;
use axum::routing::get;
use engine::{MountHandler, MountRequest};
use observe::Metrics;
use observe::error_log::NOTICE;
use plugin::Reply;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Handle;

/// Connections that wait to be accepted. The kernel drops the SYN of what doesn't fit, and the client's next try comes a
/// second later: with tokio's 128, 10 ms of a flood would keep a scraper out.
const BACKLOG: u32 = 4096;

/// Takes a port of the control plane.
///
/// # Errors
/// When it can't be had, with its purpose and address.
pub fn bind(purpose: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    let listener = listen().with_context(|| {
        let owner = engine::port_owner(address.port()).map(|owner| format!(", in use by {owner}"));
        format!("cannot listen on {address} for {purpose}{}", owner.unwrap_or_default())
    })?;
    tracing::info!(target: NOTICE, %address, serves = purpose, "listening");
    Ok(listener)
}

/// What Prometheus scrapes.
pub fn metrics(uri: &str, metrics: Arc<Metrics>) -> Router {
    let scrape = move || {
        let text = observe::exposition(&metrics);
        std::future::ready(([(header::CONTENT_TYPE, observe::EXPOSITION_TYPE)], text))
    };
    Router::new().route(uri, get(scrape))
}

/// The Admin API as the data plane's workers reach it. It answers on the control plane's event loop: its timers and
/// its store belong there.
pub struct AdminOnDataPort {
    /// The API.
    pub admin: Arc<CurrentAdmin>,
    /// The control plane's event loop.
    pub control: Handle,
}

impl MountHandler for AdminOnDataPort {
    fn handle(&self, request: MountRequest) -> Pin<Box<dyn Future<Output = Reply> + Send>> {
        let admin = self.admin.get();
        let answer = self.control.spawn(async move {
            let text =
                |(name, value): (String, Vec<u8>)| (name, String::from_utf8_lossy(&value).into_owned());
            let response = admin
                .handle(AdminRequest {
                    method: request.method,
                    path: request.path,
                    query: request.query,
                    headers: request.headers.into_iter().map(text).collect(),
                    body_size: request.body.len() as u64,
                    body: request.body,
                    peer: request.peer,
                    on_data_port: true,
                })
                .await;
            Reply {
                status: response.status,
                headers: response
                    .headers
                    .into_iter()
                    .map(|(name, value)| (name.into(), value.into_bytes()))
                    .collect(),
                body: Some(response.body),
            }
        });
        Box::pin(async move { answer.await.unwrap_or_else(|_| Reply::error(500, "the Admin API failed")) })
    }
}
