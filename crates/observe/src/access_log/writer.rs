//! The thread that owns the log's file.

use crate::append::append_to;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Batches that may wait: at 16 KiB each, 4 MiB or about 20,000 lines.
const BATCHES_MAX: usize = 256;

/// Lines that were rendered together; an empty batch only wakes the thread.
struct Batch {
    bytes: Vec<u8>,
    lines: u64,
}

/// A handle to the thread. Dropping it waits until everything handed over is written.
pub(super) struct Writer {
    batches: Option<SyncSender<Batch>>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    reopen: AtomicBool,
    lost: AtomicU64,
}

/// Where lines go.
enum Target {
    File(PathBuf, File),
    Stdout,
    Stderr,
}

impl Writer {
    pub(super) fn start(path: &Path) -> io::Result<Self> {
        let target = Target::open(path)?;
        let state = Arc::new(State::default());
        let (batches, incoming) = sync_channel(BATCHES_MAX);
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || run(target, &incoming, &shared))?;
        Ok(Self { batches: Some(batches), state, thread: Some(thread) })
    }

    /// Hands lines over unless too many wait already; false when they are dropped.
    pub(super) fn offer(&self, bytes: Vec<u8>, lines: u64) -> bool {
        self.batches.as_ref().is_some_and(|batches| batches.try_send(Batch { bytes, lines }).is_ok())
    }

    pub(super) fn reopen(&self) {
        self.state.reopen.store(true, Ordering::Release);
        // A full queue wakes the thread as well.
        self.offer(Vec::new(), 0);
    }

    /// Lines that could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread ends when the last sender is gone and the queue is empty.
        self.batches = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the access log's thread ended in a panic; lines may be missing");
        }
    }
}

fn run(mut target: Target, incoming: &Receiver<Batch>, state: &State) {
    let mut failing = false;
    while let Ok(batch) = incoming.recv() {
        if state.reopen.swap(false, Ordering::AcqRel)
            && let Err(error) = target.reopen()
        {
            tracing::error!(%error, "can't open the access log anew; going on with the old file");
        }
        match target.write(&batch.bytes) {
            Ok(()) => failing = false,
            Err(error) => {
                state.lost.fetch_add(batch.lines, Ordering::Relaxed);
                // Once per disturbance: a full disk must not fill the error log too.
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(%error, "can't write the access log; lines are lost until it works again");
                }
            }
        }
    }
}

impl Target {
    fn open(path: &Path) -> io::Result<Self> {
        match path.to_str() {
            Some("/dev/stdout") => Ok(Self::Stdout),
            Some("/dev/stderr") => Ok(Self::Stderr),
            _ => append_to(path).map(|file| Self::File(path.to_owned(), file)),
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let Self::File(path, file) = self {
            *file = append_to(path)?;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(_, file) => file.write_all(bytes),
            Self::Stdout => io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()),
            Self::Stderr => io::stderr().write_all(bytes),
        }
    }
}
