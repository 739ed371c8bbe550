//! One run: what it was told to do, and what it counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Histogram;

/// One run of the load generator against one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its place among all runs of the file, from 0, so that an interleaving (A B B A) can be read from the file.
    pub order: u32,
    /// When it began, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// What it was told to do.
    pub settings: Settings,
    /// How long it measured, in seconds, without the warm-up. Above 0.
    pub duration_s: f64,
    /// Answers that came complete within that time, whatever their status.
    pub requests: u64,
    /// Answers a second: `requests / duration_s` where the generator has no better figure. At least 0.
    pub requests_per_second: f64,
    /// What failed, by kind.
    #[serde(default)]
    pub errors: Errors,
    /// Answers by status.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes read, heads and framing with them, TLS records' framing not.
    #[serde(default)]
    pub bytes_received: u64,
    /// Bytes written, counted alike.
    #[serde(default)]
    pub bytes_sent: u64,
    /// How the open loop kept its schedule; nothing of a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// What the run cost the load generator.
    #[serde(default)]
    pub client: Client,
    /// From the moment a request was really sent to its answer's last byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_time: Option<Histogram>,
    /// From the moment a request was due to its answer's last byte; only an open loop has it. A closed loop sends later
    /// when the server is slow and so is blind to the wait of those who would have come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_time: Option<Histogram>,
}

/// What a run was told to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Threads of the generator.
    pub threads: u32,
    /// Connections, all threads together.
    pub connections: u32,
    /// Requests under way on one connection: the pipeline's depth in HTTP/1.1, streams in HTTP/2.
    pub depth: u32,
    /// The duration asked for, in seconds.
    pub duration_s: f64,
    /// The warm-up before it, in seconds, not measured.
    pub warmup_s: f64,
    /// Closed or open loop.
    pub load: Load,
    /// The request's method.
    pub method: String,
    /// Headers added by the user, as `(name, value)`; secrets are replaced by `***` before they get here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The request body's length in bytes.
    pub body_bytes: u64,
    /// Whether connections are kept between requests.
    pub keep_alive: bool,
    /// A request with no answer after this long failed, in seconds; nothing: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// What else was set, by the flag's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub other: super::Texts,
}

/// How requests are timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "snake_case")]
pub enum Load {
    /// The next request goes when the answer is there.
    #[default]
    Closed,
    /// At even distances, whatever the answers do.
    Constant {
        /// Requests a second, all connections together.
        rate: f64,
    },
    /// At exponentially distributed distances.
    Poisson {
        /// Requests a second on average, all connections together.
        rate: f64,
    },
}

/// What failed, each request or connection counted once under its first reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Errors {
    /// Connections that could not be made, refusals among them.
    pub connect: u64,
    /// TLS handshakes that failed.
    pub tls: u64,
    /// Connections that broke while reading.
    pub read: u64,
    /// Connections that broke while writing.
    pub write: u64,
    /// Connections that the server closed within an answer.
    pub closed: u64,
    /// Requests without an answer in time.
    pub timeout: u64,
    /// Answers that are not HTTP.
    pub protocol: u64,
    /// Answers outside the expected statuses (by default 200 to 399).
    pub status: u64,
    /// Answers whose body was not the expected one, by length or hash.
    pub body: u64,
}

impl Errors {
    /// All kinds together.
    pub fn total(&self) -> u64 {
        self.by_kind().iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Every kind by its name in the file, in its order there.
    pub fn by_kind(&self) -> [(&'static str, u64); 9] {
        [
            ("connect", self.connect),
            ("tls", self.tls),
            ("read", self.read),
            ("write", self.write),
            ("closed", self.closed),
            ("timeout", self.timeout),
            ("protocol", self.protocol),
            ("status", self.status),
            ("body", self.body),
        ]
    }
}

/// How an open loop kept its schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Schedule {
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent, late ones among them.
    pub sent: u64,
    /// Sent after they were due by more than the generator's own precision.
    pub late: u64,
    /// Never sent: the run ended, or its queue was full.
    pub dropped: u64,
}

/// What a run cost the load generator, and whether it was what held the figure down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Client {
    /// CPU time of all its threads, in seconds.
    pub cpu_s: f64,
    /// CPU time over wall time of its busiest thread, 0 to 1.
    pub busiest_thread: f64,
    /// Why the client, not the server, was the limit (`client CPU 99 %`, `sent 97 % of the rate`); nothing if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}
