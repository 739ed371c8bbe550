//! The thread that builds snapshots: building one takes as long as it takes, and nobody else waits for it.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::time::{Duration, Instant};
use stdx::panics::{self, Panics};
use tokio::runtime::Runtime;
use tokio::task::{JoinError, JoinHandle};

/// How long the end of the gateway waits for a snapshot that is being built.
const END_WAIT: Duration = Duration::from_secs(1);

/// The thread, and the panics of what ran there.
#[derive(Debug)]
pub struct BuilderThread {
    runtime: Runtime,
    task: Option<JoinHandle<Infallible>>,
    panics: Panics,
}

impl BuilderThread {
    /// The thread of `runtime`.
    #[must_use]
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime, task: None, panics: Panics::default() }
    }

    /// Runs `follow` there, which builds snapshots from now on.
    pub fn run(&mut self, follow: impl Future<Output = Infallible> + Send + 'static) {
        self.task = Some(self.runtime.spawn(follow));
    }

    /// Waits until what runs there panics: with what words.
    pub async fn panicked(&mut self) -> String {
        let ended = match &mut self.task {
            Some(task) => task.await.map_err(JoinError::try_into_panic),
            None => pending().await,
        };
        self.task = None;
        match ended {
            Err(Ok(panic)) => panics::message(&*panic),
            _ => pending().await,
        }
    }

    /// Counts a panic. Returns whether something may run there again.
    pub fn may_restart(&mut self) -> bool {
        self.panics.may_restart(Instant::now())
    }

    /// Ends what runs there.
    pub fn end(self) {
        self.runtime.shutdown_timeout(END_WAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::panics::PANICS_MAX;

    #[test]
    fn a_panic_is_noticed_at_once_and_something_may_run_again() {
        let runtime =
            || tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let (mut thread, waiting) = (BuilderThread::new(runtime()), runtime());
        for number in 0..=PANICS_MAX {
            thread.run(async move { panic!("reason {number}") });
            assert_eq!(waiting.block_on(thread.panicked()), format!("reason {number}"));
            assert_eq!(thread.may_restart(), number < PANICS_MAX);
        }
        thread.end();
    }
}
