//! Requests that never stop coming, to see whether one of them fails.

use crate::Peer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Fewer requests show nothing. On a crowded machine what they accompany may be over before that.
const REQUESTS_MIN: usize = 10;

/// Requests on one connection, one after the other.
#[derive(Debug)]
pub struct Traffic {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(usize, Vec<String>)>,
}

impl Traffic {
    /// Asks for `path` until it is stopped, and at least ten times.
    pub fn start(port: u16, path: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut count, mut failed) = (0, Vec::new());
            let mut peer = Peer::connect(port);
            while !stopped.load(Ordering::Relaxed) || count < REQUESTS_MIN {
                count += 1;
                let head = format!("GET {path} HTTP/1.1\r\nHost: traffic\r\n\r\n");
                let answer = peer.try_send(head.as_bytes()).and_then(|()| peer.try_response("GET"));
                match answer {
                    Ok(answer) if answer.status() == 200 => {
                        // A client may close after so many requests; then a new connection is as good.
                        if answer.lists("connection", "close") {
                            peer = Peer::connect(port);
                        }
                    }
                    Ok(answer) => failed.push(answer.start),
                    Err(error) => {
                        failed.push(error.to_string());
                        peer = Peer::connect(port);
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            (count, failed)
        });
        Self { stop, thread }
    }

    /// Stops, and fails the test if a request has failed.
    pub fn all_succeeded(self) {
        self.stop.store(true, Ordering::Relaxed);
        let (count, failed) = self.thread.join().unwrap();
        assert!(failed.is_empty(), "{} of {count} requests failed: {:?}", failed.len(), failed.first());
    }
}
