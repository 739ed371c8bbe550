//! The thread that writes the log, and its queue.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::kinds::{INTERVAL, Kinds};
use crate::local_time::LocalTime;

/// Lines that may wait. Lines of 200 bytes take 400 KB; the longest ones 32 MiB.
const LINES_MAX: usize = 2048;

/// Longest line in bytes; a longer one is cut.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// How often suppressed messages are reported, and a flush that waits for a full queue looks again.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    /// The file from here on.
    File(File),
    /// Answered when everything before it is written.
    Flush(SyncSender<()>),
}

/// A handle to the thread, which ends when the last handle is gone.
#[derive(Debug)]
pub(super) struct Writer {
    messages: SyncSender<Message>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Lines that found the queue full.
    dropped: AtomicU64,
    /// A new file that found the queue full.
    file: Mutex<Option<File>>,
}

impl Writer {
    pub(super) fn start(
        file: Option<File>,
        stderr: Option<Box<dyn Write + Send>>,
        kinds: Arc<Kinds>,
    ) -> std::io::Result<Self> {
        let (messages, incoming) = sync_channel(LINES_MAX);
        let shared = Arc::new(Shared::default());
        let thread =
            Thread { file, stderr, lost: 0, kinds, shared: Arc::clone(&shared), zone: TimeZone::system() };
        std::thread::Builder::new().name("error-log".to_owned()).spawn(move || thread.run(&incoming))?;
        Ok(Self { messages, shared })
    }

    /// Hands a line over; it is dropped and counted where too many wait.
    pub(super) fn offer(&self, line: &[u8]) {
        let mut kept = line.get(..LINE_BYTES_MAX).unwrap_or(line).to_vec();
        if kept.len() < line.len() {
            kept.extend_from_slice(b"...\n");
        }
        if self.messages.try_send(Message::Line(kept)).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes to `file` what is logged from here on.
    pub(super) fn replace(&self, file: File) {
        if let Err(TrySendError::Full(Message::File(file))) = self.messages.try_send(Message::File(file)) {
            *self.shared.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        }
    }

    /// Waits until everything before is written, for at most `wait`.
    pub(super) fn flush(&self, wait: Duration) {
        let (done, answer) = sync_channel(1);
        let deadline = Instant::now() + wait;
        let mut message = Message::Flush(done);
        while let Err(TrySendError::Full(refused)) = self.messages.try_send(message) {
            if Instant::now() >= deadline {
                return;
            }
            message = refused;
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = answer.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

struct Thread {
    file: Option<File>,
    stderr: Option<Box<dyn Write + Send>>,
    /// Lines that the file did not take.
    lost: u64,
    kinds: Arc<Kinds>,
    shared: Arc<Shared>,
    zone: TimeZone,
}

impl Thread {
    fn run(mut self, incoming: &Receiver<Message>) {
        let mut swept = Instant::now();
        let mut last_line = None;
        loop {
            // Nothing can be suppressed or dropped long after the last line: an idle process is not woken.
            let busy = last_line.is_some_and(|last: Instant| last.elapsed() < INTERVAL + 2 * SWEEP_INTERVAL);
            let message = if busy {
                incoming.recv_timeout(SWEEP_INTERVAL)
            } else {
                incoming.recv().map_err(RecvTimeoutError::from)
            };
            if let Some(file) = self.shared.file.lock().unwrap_or_else(PoisonError::into_inner).take() {
                self.file = Some(file);
            }
            match message {
                Ok(Message::Line(line)) => {
                    last_line = Some(Instant::now());
                    self.write(&line);
                }
                Ok(Message::File(file)) => self.file = Some(file),
                // Whoever asked may have stopped waiting.
                Ok(Message::Flush(done)) => {
                    let _ = done.try_send(());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            if now.saturating_duration_since(swept) >= SWEEP_INTERVAL {
                swept = now;
                self.report(now);
            }
        }
    }

    /// Writes what was suppressed and dropped.
    fn report(&mut self, now: Instant) {
        let mut reports = Vec::new();
        self.kinds.sweep(now, |level, report| reports.push((level, report)));
        let dropped = self.shared.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            reports.push((
                "error",
                format!("{dropped} lines of the error log were dropped: it was written too slowly"),
            ));
        }
        let time = LocalTime::at(Timestamp::now().as_second(), &self.zone).error_log;
        for (level, report) in reports {
            let line = format!("{time} [{level}] {}#error-log: {report}\n", std::process::id());
            self.write(line.as_bytes());
        }
    }

    fn write(&mut self, line: &[u8]) {
        if let Some(file) = &mut self.file {
            if self.lost > 0 {
                let time = LocalTime::at(Timestamp::now().as_second(), &self.zone).error_log;
                let lost = self.lost;
                let pid = std::process::id();
                let report = format!(
                    "{time} [error] {pid}#error-log: {lost} lines could not be written to this file\n"
                );
                if file.write_all(report.as_bytes()).is_ok() {
                    self.lost = 0;
                }
            }
            if file.write_all(line).is_err() {
                self.lost += 1;
            }
        }
        if let Some(stderr) = &mut self.stderr {
            // Nobody is left to be told of a failure.
            let _ = stderr.write_all(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::channel;

    use super::*;

    /// A pipe whose reader has stopped until `go` is sent.
    struct Stalled(Receiver<()>);

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stalled_stderr_blocks_nobody_and_what_was_dropped_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("error.log");
        let file = File::create(&path).unwrap();
        let (go, stalled) = channel();
        let writer = Writer::start(Some(file), Some(Box::new(Stalled(stalled))), Arc::default()).unwrap();
        // One line is being written, and the queue takes the others.
        for _ in 0..2 * LINES_MAX {
            writer.offer(b"line\n");
        }
        let dropped = writer.shared.dropped.load(Ordering::Relaxed);
        assert!(dropped >= LINES_MAX as u64 - 1, "{dropped}");
        writer.flush(Duration::from_millis(1));
        // The reader goes on for good.
        drop(go);
        writer.flush(Duration::from_secs(20));
        let written = std::fs::read_to_string(&path).unwrap();
        let lines = written.lines().filter(|line| *line == "line").count() as u64;
        assert_eq!(lines + dropped, 2 * LINES_MAX as u64);
    }
}
