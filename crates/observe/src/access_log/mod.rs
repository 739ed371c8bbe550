//! The access log: one line per request, written off the request path.
//!
//! A worker renders lines into its own buffer and hands full buffers to the log's thread. When that thread can't keep
//! up, lines are dropped and counted: a slow disk must not slow down requests.

mod escape;
mod format;
mod line;
mod render;
mod source;
mod writer;

use render::{Renderer, Scratch};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use stdx::{PerWorker, WorkerToken};
use writer::Writer;

pub use escape::Escape;
pub use source::{LogHeader, LogSource, UpstreamFields};

/// APISIX's default `access_log_format`.
pub const DEFAULT_FORMAT: &str = concat!(
    r#"$remote_addr - $remote_user [$time_local] $http_host "$request" $status $body_bytes_sent $request_time "#,
    r#""$http_referer" "$http_user_agent" $upstream_addr $upstream_status $upstream_response_time "#,
    r#""$upstream_scheme://$upstream_host$upstream_uri" "$apisix_request_id""#
);

/// Returns the names of a format's variables that are none of those which every request has: a plugin may set them, or they
/// are misspelt.
#[must_use]
pub fn custom_variables(format: &str) -> Vec<String> {
    format::custom_variables(format)
}

/// Bytes after which a worker hands its buffer over: APISIX's `access_log_buffer`, about 80 lines.
pub const BUFFER_DEFAULT: usize = 16 * 1024;

/// Room beyond a buffer's size for the line that fills it.
const LINE_USUAL: usize = 4 * 1024;

/// The longest line there may be: every byte of a 64 KiB head shown four times, each escaped to four. A longer one is
/// dropped.
const LINE_MAX: usize = 1024 * 1024;

/// What the access log is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLogConfig {
    /// The file; `/dev/stdout` and `/dev/stderr` are the process's own.
    pub path: PathBuf,
    /// nginx's `log_format`: text with variables in it.
    pub format: String,
    /// How values are escaped.
    pub escape: Escape,
    /// Bytes after which a worker hands its buffer over.
    pub buffer: usize,
}

/// An open access log. Dropping it writes what was handed over and closes the file.
pub struct AccessLog {
    renderer: Renderer,
    workers: PerWorker<Pending>,
    writer: Writer,
    buffer: usize,
    dropped: AtomicU64,
}

/// What a worker has not handed over yet.
#[derive(Default)]
struct Pending {
    /// All of it room to write to, of which `used` is written.
    bytes: Vec<u8>,
    used: usize,
    lines: u64,
    scratch: Scratch,
}

impl AccessLog {
    /// Opens the log's file for appending, its folder made where missing, and starts its thread.
    ///
    /// # Errors
    /// When the file can't be opened or the thread can't be started.
    pub fn open(config: &AccessLogConfig) -> io::Result<Self> {
        Ok(Self {
            renderer: Renderer::new(&config.format, config.escape),
            workers: PerWorker::default(),
            writer: Writer::start(&config.path)?,
            buffer: config.buffer,
            dropped: AtomicU64::new(0),
        })
    }

    /// Writes the line of a request that ended at `now_unix_ms`, milliseconds since the Unix epoch.
    #[inline]
    pub fn record<S: LogSource>(&self, worker: &WorkerToken, source: &S, now_unix_ms: u64) {
        self.workers.with(worker, |pending| {
            loop {
                let room = pending.bytes.get_mut(pending.used..).unwrap_or_default();
                if let Some(length) = self.renderer.line(source, now_unix_ms, &mut pending.scratch, room) {
                    pending.used += length;
                    pending.lines += 1;
                    break;
                }
                if !self.make_room(pending) {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    break;
                }
            }
            if pending.used >= self.buffer {
                self.hand_over(pending);
            }
        });
    }

    /// Hands over what the worker has written since. To be called by each worker every second or more often, so that
    /// lines of a quiet gateway show up, and before the worker ends.
    pub fn tick(&self, worker: &WorkerToken) {
        self.workers.with(worker, |pending| {
            if pending.used > 0 {
                self.hand_over(pending);
            }
        });
    }

    /// Opens the file anew before the next write: what log rotation asks for. Returns at once.
    pub fn reopen(&self) {
        self.writer.reopen();
    }

    /// Lines lost since the start, because the log's thread was behind or the file could not be written.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed) + self.writer.lost()
    }

    /// Makes room for a line that didn't fit; false where it is longer than any may be.
    #[cold]
    fn make_room(&self, pending: &mut Pending) -> bool {
        let (size, size_max) = (pending.bytes.len(), self.buffer + LINE_MAX);
        if pending.used > 0 {
            self.hand_over(pending);
        } else if size < size_max {
            pending.bytes.resize((size * 2).clamp(self.buffer + LINE_USUAL, size_max), 0);
        } else {
            return false;
        }
        true
    }

    #[cold]
    fn hand_over(&self, pending: &mut Pending) {
        // The next buffer gets room for the line that will fill it, too.
        let mut bytes = std::mem::replace(&mut pending.bytes, vec![0; self.buffer + LINE_USUAL]);
        bytes.truncate(std::mem::take(&mut pending.used));
        let lines = std::mem::take(&mut pending.lines);
        if !self.writer.offer(bytes, lines) {
            self.dropped.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

impl Default for AccessLogConfig {
    fn default() -> Self {
        Self {
            path: PathBuf::from("logs/access.log"),
            format: DEFAULT_FORMAT.to_owned(),
            escape: Escape::Default,
            buffer: BUFFER_DEFAULT,
        }
    }
}

impl std::fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessLog").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
