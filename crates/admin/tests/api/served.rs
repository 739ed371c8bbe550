//! The Admin API on a socket.

use crate::bench::{Bench, KEY, route};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

struct Served {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
    _bench: Bench,
}

async fn start() -> Served {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async move {
        let _ = stopped.await;
    };
    let current = Arc::new(admin::CurrentAdmin::new(Arc::clone(&bench.admin)));
    let server = tokio::spawn(admin::server(current, 1024).serve(listener, stopped));
    Served { address, stop, server, _bench: bench }
}

/// What comes back for `head` (lines separated by newlines) and `body`.
async fn exchange(address: SocketAddr, head: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head =
        format!("{head}\nHost: localhost\nX-API-KEY: {KEY}\nConnection: close\n\n").replace('\n', "\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn http_is_served_until_it_is_stopped() {
    let served = start().await;
    let body = route().to_string();
    let head = format!("PUT /apisix/admin/routes/1 HTTP/1.1\nContent-Length: {}", body.len());
    let answer = exchange(served.address, &head, body.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("x-api-version: v3"), "{answer}");
    let answer = exchange(served.address, "GET /apisix/admin/routes/1?x=%zz HTTP/1.1", b"").await;
    assert!(answer.contains("\"key\":\"/apisix/routes/1\""), "{answer}");
    served.stop.send(()).unwrap();
    served.server.await.unwrap().unwrap();
    assert!(TcpStream::connect(served.address).await.is_err());
}

#[tokio::test]
async fn a_large_body_is_refused_and_the_reason_arrives() {
    let served = start().await;
    let body = vec![b' '; 2_000_000];
    let head = format!("PUT /apisix/admin/routes/1 HTTP/1.1\nContent-Length: {}", body.len());
    let answer = exchange(served.address, &head, &body).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(
        answer.contains("request size 2000000 is greater than the maximum size 1572864 allowed"),
        "{answer}"
    );

    let answer = exchange(served.address, &format!("{head}\nExpect: 100-continue"), b"").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "refused before the body is sent: {answer}");
}
