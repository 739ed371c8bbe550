//! What a run does, resolved: nothing left to read, look up or check.

use std::sync::Arc;
use std::time::Duration;

use super::pace::Pace;
use super::target::{Endpoint, Target};
use crate::http::{BodyCheck, Protocol, Request, Tls};

/// What a run does.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The URL, for the request's line and for messages.
    pub target: Target,
    /// What connections are made to.
    pub endpoint: Endpoint,
    /// The protocol spoken.
    pub protocol: Protocol,
    /// Set where connections are encrypted.
    pub tls: Option<Tls>,
    /// The one request that is sent again and again.
    pub request: Arc<Request>,
    /// Threads; at least 1.
    pub threads: usize,
    /// Connections over all threads; at least one per thread.
    pub connections: usize,
    /// Requests under way on each connection at a time: pipelined in HTTP/1.1, streams in HTTP/2; at least 1.
    pub depth: usize,
    /// How long requests are sent and measured.
    pub duration: Duration,
    /// How long requests are sent before that without being measured.
    pub warmup: Duration,
    /// How long a connection may take to be made, and an answer to come.
    pub timeout: Duration,
    /// End after so many requests, where that is earlier.
    pub requests: Option<u64>,
    /// When requests are sent.
    pub pace: Pace,
    /// What each body must be.
    pub check: Option<BodyCheck>,
    /// Cores for the threads, in turn; empty: wherever the kernel puts them.
    pub cores: Vec<usize>,
    /// Of the random gaps.
    pub seed: u64,
}

impl Plan {
    /// How many of `total` fall to thread `index`.
    #[must_use]
    pub fn share(&self, total: usize, index: usize) -> usize {
        total / self.threads + usize::from(index < total % self.threads)
    }
}
