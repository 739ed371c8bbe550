//! A watch that outlives its connection: it begins anew where it ended, as soon as it can.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::{Centre, Health};
use crate::limits::{RECONNECT_PAUSE_MAX, RECONNECT_PAUSE_MIN};
use crate::{Batch, BoxFuture, Store, StoreError, Watch};

/// A prefix under which nothing is, to ask for the newest revision at no cost.
const NOTHING: &str = "/-/";

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
    /// On a task of its own, so that a caller that asks and goes doesn't begin it again and again.
    connecting: Option<Connecting>,
    retry_at: Option<Instant>,
    pause: Duration,
}

impl Persistent {
    pub(crate) fn new(centre: Arc<Centre>, from: u64, stale: bool) -> Self {
        let pause = RECONNECT_PAUSE_MIN;
        Self { centre, from, stale, watch: None, connecting: None, retry_at: None, pause }
    }

    async fn advance(&mut self) -> Result<Batch, StoreError> {
        loop {
            let Some(watch) = &mut self.watch else {
                self.connect().await?;
                continue;
            };
            match watch.next().await {
                Ok(batch) => {
                    self.from = batch.revision + 1;
                    self.pause = RECONNECT_PAUSE_MIN;
                    self.centre.keeper.apply(&batch);
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
            let (inner, from, stale) = (Arc::clone(&self.centre.inner), self.from, self.stale);
            self.connecting = Some(tokio::spawn(begin(inner, from, stale)));
        }
        let Some(connecting) = &mut self.connecting else { return Ok(()) };
        let begun = connecting.await;
        self.connecting = None;
        match begun.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string()))) {
            Ok(watch) => {
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
    }
}

async fn begin(inner: Arc<dyn Store>, from: u64, stale: bool) -> Result<Box<dyn Watch>, StoreError> {
    let newest = inner.list(NOTHING).await?.revision;
    // A centre that is behind what was seen of it was put back to an earlier state.
    if stale || newest + 1 < from {
        return Err(StoreError::Compacted { oldest: newest + 1 });
    }
    inner.watch(from).await
}
