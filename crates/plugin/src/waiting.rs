//! Hooks that wait.

use crate::{Exchange, Flow, LocalFuture, Reply};
use std::future::Future;
use std::time::Duration;

impl Exchange<'_> {
    /// Returns a future that is ready once `time` has passed.
    #[must_use]
    pub fn sleep(&self, time: Duration) -> LocalFuture<()> {
        self.services.sleep(time)
    }

    /// Lets `time` pass, then goes on with `flow`.
    #[must_use]
    pub fn after(&self, time: Duration, flow: Flow) -> Flow {
        let sleep = self.sleep(time);
        Flow::wait(sleep, move |(), _| flow)
    }
}

impl Flow {
    /// Waits for `future`; `resume` then decides with its result.
    #[must_use]
    pub fn wait<T: 'static>(
        future: impl Future<Output = T> + 'static,
        resume: impl FnOnce(T, &mut Exchange<'_>) -> Self + 'static,
    ) -> Self {
        Self::Wait(Box::pin(async move {
            let result = future.await;
            let resume: crate::Resume = Box::new(move |exchange| resume(result, exchange));
            resume
        }))
    }

    /// Answers with what `work` makes, on a thread where nobody waits for a worker. For what takes longer than a
    /// request may hold others up; the runtime has a bounded number of such threads.
    #[must_use]
    pub fn elsewhere(work: impl FnOnce() -> Reply + Send + 'static) -> Self {
        Self::Wait(Box::pin(async move {
            let reply = tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Reply::status(500));
            let resume: crate::Resume = Box::new(move |_| Self::reply(reply));
            resume
        }))
    }
}
