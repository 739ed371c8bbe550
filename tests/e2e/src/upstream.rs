//! Upstreams made of a few lines: each connection is handed to a function that answers it as well or as badly as the
//! test wants.

use crate::{Message, Peer};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A TCP server; it stops accepting when dropped.
#[derive(Debug)]
pub struct Upstream {
    /// Its port on 127.0.0.1.
    pub port: u16,
    connections: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
}

/// What a recording upstream has seen, in order of arrival. Clones look at the same record.
#[derive(Debug, Clone, Default)]
pub struct Seen(Arc<Mutex<Vec<Message>>>);

impl Upstream {
    /// Hands each connection to `serve`, on a thread of its own, with its number from 0.
    pub fn serve(serve: impl Fn(Peer, usize) + Send + Sync + 'static) -> Self {
        Self::serve_on(0, serve)
    }

    fn serve_on(port: u16, serve: impl Fn(Peer, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, told) = (Arc::clone(&connections), Arc::clone(&ends));
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if told.load(Ordering::Acquire) {
                    return;
                }
                let number = counted.fetch_add(1, Ordering::AcqRel);
                let (peer, serve) = (Peer::new(stream.unwrap()), Arc::clone(&serve));
                std::thread::spawn(move || serve(peer, number));
            }
        });
        Self { port, connections, ends }
    }

    /// Answers each request of each connection with what `answer` makes of it.
    pub fn answering(answer: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::answering_on(0, answer)
    }

    /// As [`Self::answering`], on this port: for answers that name it.
    pub fn answering_on(port: u16, answer: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::serve_on(port, move |mut peer, _| {
            while let Ok(request) = peer.request() {
                if peer.try_send(&answer(&request)).is_err() {
                    return;
                }
            }
        })
    }

    /// Answers each request with 200 and `hello`.
    pub fn hello() -> Self {
        Self::answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec())
    }

    /// As [`Self::hello`], and keeps what it was asked. What breaks off is kept as far as it came, with the start line
    /// `incomplete`.
    pub fn recording() -> (Self, Seen) {
        let seen = Seen::default();
        let record = seen.clone();
        let upstream = Self::serve(move |mut peer, _| {
            while let Ok(request) = peer.request() {
                let head = request.start.starts_with("HEAD ");
                record.add(request);
                let body = if head { "" } else { "hello" };
                if peer
                    .try_send(format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}").as_bytes())
                    .is_err()
                {
                    return;
                }
            }
        });
        (upstream, seen)
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// How many connections it has had.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.port)));
    }
}

impl Seen {
    /// Adds a request.
    pub fn add(&self, request: Message) {
        self.0.lock().unwrap().push(request);
    }

    /// All of it.
    pub fn all(&self) -> Vec<Message> {
        self.0.lock().unwrap().clone()
    }

    /// Takes all that was seen since the last time.
    pub fn take(&self) -> Vec<Message> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Takes the one request that was seen.
    pub fn only(&self) -> Message {
        let mut all = self.take();
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }
}
