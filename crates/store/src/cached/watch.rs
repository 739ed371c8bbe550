//! A watch that outlives its connection: it begins anew where it ended, as soon as it can.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::rejection::{NOTHING, remembers};
use super::{Centre, Health};
use crate::limits::{RECONNECT_PAUSE_MAX, RECONNECT_PAUSE_MIN};
use crate::{Batch, BoxFuture, StoreError, Watch};

/// What a connection in the making comes to.
type Connecting = JoinHandle<Result<Box<dyn Watch>, StoreError>>;

/// A watch of a centre that may go away.
pub(crate) struct Persistent {
    centre: Arc<Centre>,
    /// The first revision not yet seen.
    from: u64,
    /// Whether what was loaded came from the disk: then there is no telling what has happened since.
    stale: bool,
    watch: Option<Box<dyn Watch>>,
    /// The cluster that is watched.
    cluster: u64,
    /// On a task of its own, so that a caller that asks and goes doesn't begin it again and again.
    connecting: Option<Connecting>,
    /// While the source is rejected: ends when it may be followed.
    rejected: Option<JoinHandle<()>>,
    retry_at: Option<Instant>,
    pause: Duration,
}

impl Persistent {
    pub(crate) fn new(centre: Arc<Centre>, from: u64, stale: bool) -> Self {
        let pause = RECONNECT_PAUSE_MIN;
        let is_rejected = matches!(&*centre.health.borrow(), Health::Rejected(_));
        let rejected = is_rejected.then(|| tokio::spawn(Arc::clone(&centre).wait_until_acceptable()));
        Self {
            centre,
            from,
            stale,
            watch: None,
            cluster: 0,
            connecting: None,
            rejected,
            retry_at: None,
            pause,
        }
    }

    async fn advance(&mut self) -> Result<Batch, StoreError> {
        if let Some(rejected) = &mut self.rejected {
            // However it ended, what the source holds is listed and judged again.
            let _ = rejected.await;
            self.rejected = None;
            return Err(StoreError::Compacted { oldest: self.from });
        }
        loop {
            let Some(watch) = &mut self.watch else {
                self.connect().await?;
                continue;
            };
            match watch.next().await {
                // A revision that was seen before comes from a store that was put back.
                Ok(batch) if batch.revision < self.from => {
                    return Err(StoreError::Compacted { oldest: self.from });
                }
                Ok(batch) => {
                    self.from = batch.revision + 1;
                    self.pause = RECONNECT_PAUSE_MIN;
                    self.centre.keeper.apply(&batch);
                    self.centre.inner.expect_at_least(self.cluster, batch.revision);
                    return Ok(batch);
                }
                Err(error @ StoreError::Compacted { .. }) => return Err(error),
                Err(error) => {
                    self.watch = None;
                    self.lost(&error);
                }
            }
        }
    }

    /// Tries once to have a watch.
    async fn connect(&mut self) -> Result<(), StoreError> {
        if let Some(at) = self.retry_at {
            sleep_until(at).await;
            self.retry_at = None;
        }
        if self.connecting.is_none() {
            let (centre, from, stale) = (Arc::clone(&self.centre), self.from, self.stale);
            self.connecting = Some(tokio::spawn(async move { begin(&centre, from, stale).await }));
        }
        let Some(connecting) = &mut self.connecting else { return Ok(()) };
        let begun = connecting.await;
        self.connecting = None;
        match begun.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string()))) {
            Ok(watch) => {
                self.cluster = watch.cluster();
                self.watch = Some(watch);
                self.centre.set(Health::Following);
                Ok(())
            }
            Err(error @ StoreError::Compacted { .. }) => Err(error),
            Err(error) => {
                self.lost(&error);
                Ok(())
            }
        }
    }

    fn lost(&mut self, error: &StoreError) {
        self.centre.lost(error);
        // Spread over half of the pause, so that a fleet doesn't come back at one moment.
        let spread = crate::etcd::random() % 512;
        let pause = self.pause / 2 + (self.pause / 1024) * u32::try_from(spread).unwrap_or(0);
        self.retry_at = Some(Instant::now() + pause);
        self.pause = RECONNECT_PAUSE_MAX.min(self.pause * 2);
    }
}

impl Watch for Persistent {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, StoreError>> {
        Box::pin(self.advance())
    }
}

impl Drop for Persistent {
    fn drop(&mut self) {
        if let Some(connecting) = &self.connecting {
            connecting.abort();
        }
        if let Some(rejected) = &self.rejected {
            rejected.abort();
        }
    }
}

/// A watch from `from` on, of a store that has the history before it. Any other is to be listed and judged.
async fn begin(centre: &Centre, from: u64, stale: bool) -> Result<Box<dyn Watch>, StoreError> {
    let now = centre.inner.list(NOTHING).await?;
    let anchor = centre.keeper.anchor();
    let is_other = |cluster: u64| cluster != 0 && anchor.cluster != 0 && cluster != anchor.cluster;
    if stale || now.revision + 1 < from || is_other(now.cluster) {
        return Err(StoreError::Compacted { oldest: now.revision + 1 });
    }
    if !remembers(&*centre.inner, &anchor).await? {
        return Err(StoreError::Compacted { oldest: from });
    }
    let watch = centre.inner.watch(from).await?;
    // Members that were asked one after the other need not be of one cluster.
    if is_other(watch.cluster()) {
        return Err(StoreError::Compacted { oldest: from });
    }
    Ok(watch)
}
