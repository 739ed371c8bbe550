//! A watch on the file: it has no queue of its own, but reads the history from where it stands.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::read;
use super::shared::Shared;
use crate::{Batch, BoxFuture, StoreError, Watch};

/// A place in the history. A slow watch costs nothing but the risk that the history it stands in is pruned, and then
/// it says so.
pub(crate) struct Follow {
    /// Weak, so that a forgotten watch keeps no file open.
    shared: Weak<Shared>,
    newest: watch::Receiver<u64>,
    /// The first revision not yet read.
    from: u64,
    /// Read ahead, not yet handed out.
    ready: VecDeque<Batch>,
}

impl Follow {
    /// A watch from revision `from` on, with its beginning read, so that a compacted `from` is an error here.
    pub(crate) async fn start(shared: &Arc<Shared>, from: u64) -> Result<Self, StoreError> {
        let mut follow = Self {
            shared: Arc::downgrade(shared),
            newest: shared.newest(),
            from: from.max(1),
            ready: VecDeque::new(),
        };
        follow.read_ahead().await?;
        Ok(follow)
    }

    /// Changes `self` only after the last await, so that it can be dropped at any of them.
    async fn read_ahead(&mut self) -> Result<(), StoreError> {
        let from = self.from;
        let shared = self.shared.upgrade().ok_or_else(closed)?;
        let batches = shared.read_aside(move |txn| read::changes(&txn, from)).await?;
        if let Some(last) = batches.last() {
            self.from = last.revision + 1;
        }
        self.ready.extend(batches);
        Ok(())
    }

    async fn advance(&mut self) -> Result<Batch, StoreError> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(batch);
            }
            let from = self.from;
            self.newest.wait_for(|newest| *newest >= from).await.map_err(|_| closed())?;
            self.read_ahead().await?;
        }
    }
}

impl Watch for Follow {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, StoreError>> {
        Box::pin(self.advance())
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("it has been closed".to_owned())
}
