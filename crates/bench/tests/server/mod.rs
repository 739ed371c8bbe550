//! A server with a thread a connection, whose behaviour a test decides answer by answer.

#![allow(dead_code, reason = "each test binary uses its own part of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hdrhistogram::Histogram;

/// A running server; its threads end with the test's process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    times: Arc<Mutex<Histogram<u64>>>,
    count: Arc<AtomicU64>,
}

impl Server {
    /// Calls `behave` with the request's number and the socket; the time it gives back is what it says it took.
    pub(crate) fn start(
        behave: impl Fn(u64, &mut TcpStream) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self::at(listener.local_addr().unwrap());
        let (times, behave, count) = (Arc::clone(&server.times), Arc::new(behave), Arc::clone(&server.count));
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (times, behave, count) = (Arc::clone(&times), Arc::clone(&behave), Arc::clone(&count));
                std::thread::spawn(move || serve(socket, &times, &*behave, &count));
            }
        });
        server
    }

    /// An address at which nothing is started.
    pub(crate) fn at(address: SocketAddr) -> Self {
        let times = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        Self { address, times: Arc::new(Mutex::new(times)), count: Arc::default() }
    }

    /// How many requests it has read.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Begins to note times anew.
    pub(crate) fn forget(&self) {
        self.times.lock().unwrap().reset();
    }

    /// The times that it says its answers took, in nanoseconds.
    pub(crate) fn times(&self) -> Histogram<u64> {
        self.times.lock().unwrap().clone()
    }
}

fn serve(
    mut socket: TcpStream,
    times: &Mutex<Histogram<u64>>,
    behave: &dyn Fn(u64, &mut TcpStream) -> Option<Duration>,
    count: &AtomicU64,
) {
    let _ = socket.set_nodelay(true);
    let (mut kept, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    while let Ok(read @ 1..) = socket.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..read]);
        while let Some(end) = kept.windows(4).position(|window| window == b"\r\n\r\n") {
            kept.drain(..end + 4);
            if let Some(taken) = behave(count.fetch_add(1, Relaxed), &mut socket) {
                times.lock().unwrap().saturating_record(taken.as_nanos() as u64);
            }
        }
    }
}

/// Sends bytes; a client that has left is no failure.
pub(crate) fn send(socket: &mut TcpStream, bytes: &[u8]) {
    let _ = socket.write_all(bytes);
}

/// Sends a proper answer.
pub(crate) fn answer(socket: &mut TcpStream, body: &[u8]) {
    let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    send(socket, &bytes);
}
