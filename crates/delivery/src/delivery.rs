//! The event loop and the threads that batches are gathered and sent by. They are started with the first entry.

use crate::limits::SENDERS_MAX;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// The process's deliveries.
#[derive(Debug, Default)]
pub struct Delivery {
    /// `None` in it where no event loop could be had.
    running: OnceLock<Option<Running>>,
    reopened: AtomicU64,
    /// Where relative paths of files begin.
    folder: PathBuf,
}

#[derive(Debug)]
struct Running {
    runtime: Option<Runtime>,
    closing: watch::Sender<bool>,
    /// Each task holds a copy of the sender: when all are gone, nothing is left to be done.
    alive: Mutex<(Option<Sender<()>>, Receiver<()>)>,
}

impl Delivery {
    /// Deliveries whose files are below `folder`, unless their paths are absolute.
    #[must_use]
    pub fn below(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..Self::default() }
    }

    /// Where a file is.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    /// Sends what there is without waiting for more, and takes nothing any more. Returns when all is sent, or given up,
    /// or `patience` has passed.
    pub fn finish(&self, patience: Duration) {
        let Some(Some(running)) = self.running.get() else { return };
        running.closing.send_replace(true);
        let mut alive = running.alive.lock().unwrap_or_else(PoisonError::into_inner);
        alive.0 = None;
        if alive.1.recv_timeout(patience) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            tracing::error!("log entries are left behind: their collectors did not take them in time");
        }
    }

    /// Has log files opened anew before the next write.
    pub fn reopen_files(&self) {
        self.reopened.fetch_add(1, Ordering::Relaxed);
    }

    /// How often [`Self::reopen_files`] was asked for.
    pub(crate) fn reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }

    /// Runs what `task` makes of the signal to come to an end. Whether it will.
    pub(crate) fn run<T: Future<Output = ()> + Send + 'static>(
        &self,
        task: impl FnOnce(watch::Receiver<bool>) -> T,
    ) -> bool {
        let Some(Running { runtime: Some(runtime), closing, alive }) =
            self.running.get_or_init(Running::start)
        else {
            return false;
        };
        let alive = alive.lock().unwrap_or_else(PoisonError::into_inner).0.clone();
        let Some(alive) = alive else { return false };
        let task = task(closing.subscribe());
        runtime.spawn(async move {
            task.await;
            drop(alive);
        });
        true
    }
}

impl Running {
    fn start() -> Option<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(SENDERS_MAX).thread_name("delivery").enable_time();
        builder.on_thread_start(|| {
            // Where it is refused, the threads have the workers' priority.
            let _ = stdx::priority::stand_back();
        });
        let runtime = builder.build();
        let runtime =
            runtime.inspect_err(|error| tracing::error!(%error, "no event loop for loggers can be had")).ok();
        let (sender, receiver) = channel();
        runtime.map(|runtime| Self {
            runtime: Some(runtime),
            closing: watch::Sender::new(false),
            alive: Mutex::new((Some(sender), receiver)),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Waits for nobody, and so may be done anywhere.
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}
