//! Gathers entries in batches and sees to it that they are sent.

use crate::{Backlog, Delivery, Destination};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// When a batch is sent, and how often.
#[derive(Debug, Clone)]
pub struct Gathering {
    /// Whose it is, for the error log.
    pub name: String,
    /// Entries of a batch; at least 1.
    pub batch_max_size: usize,
    /// It is sent when no entry came for so long; with zero, with what there is at the moment.
    pub inactive_timeout: Duration,
    /// It is sent when its first entry is so old.
    pub buffer_duration: Duration,
    /// Further tries after the first.
    pub max_retry_count: u32,
    /// Before each of them.
    pub retry_delay: Duration,
    /// Entries that may wait, those of all configurations on the same backlog together.
    pub max_pending_entries: usize,
}

/// The entries of one configuration. Dropping it sends what is left.
pub struct Batches {
    delivery: Arc<Delivery>,
    work: Arc<Work>,
    /// There with the first entry: a configuration that is only checked has no task.
    queue: OnceLock<UnboundedSender<Vec<u8>>>,
}

struct Work {
    gathering: Gathering,
    backlog: Arc<Backlog>,
    destination: Arc<dyn Destination>,
}

impl Batches {
    /// Nothing yet, to be sent to `destination`.
    pub fn new(
        delivery: Arc<Delivery>,
        backlog: Arc<Backlog>,
        gathering: Gathering,
        destination: impl Destination,
    ) -> Self {
        let work = Arc::new(Work { gathering, backlog, destination: Arc::new(destination) });
        Self { delivery, work, queue: OnceLock::new() }
    }

    /// Takes an entry, or drops it where too many wait.
    pub fn push(&self, entry: Vec<u8>) {
        let Work { backlog, gathering, .. } = &*self.work;
        let bytes = entry.len();
        if !backlog.take(bytes, gathering.max_pending_entries) {
            return backlog.drop_entries(&gathering.name, 1);
        }
        let queue = self.queue.get_or_init(|| {
            let (queue, incoming) = unbounded_channel();
            let work = Arc::clone(&self.work);
            self.delivery.run(|closing| work.gather(incoming, closing));
            queue
        });
        // Refused where nobody gathers any more: the process ends.
        if queue.send(entry).is_err() {
            backlog.release(1, bytes);
            backlog.drop_entries(&gathering.name, 1);
        }
    }
}

impl Work {
    async fn gather(
        self: Arc<Self>,
        mut incoming: UnboundedReceiver<Vec<u8>>,
        mut closing: watch::Receiver<bool>,
    ) {
        let at_once = self.destination.at_once();
        let turns = Arc::new(Semaphore::new(at_once));
        loop {
            let first = tokio::select! {
                biased;
                entry = incoming.recv() => entry,
                _ = closing.wait_for(|closing| *closing) => incoming.try_recv().ok(),
            };
            let Some(first) = first else { break };
            let batch = self.fill(first, &mut incoming, &mut closing).await;
            let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { break };
            let (work, closing) = (Arc::clone(&self), closing.clone());
            tokio::spawn(async move {
                work.deliver(batch, closing).await;
                drop(turn);
            });
        }
        // All that is under way is done when every turn is back.
        let _ = turns.acquire_many(u32::try_from(at_once).unwrap_or(u32::MAX)).await;
    }

    /// The batch that begins with `first`.
    async fn fill(
        &self,
        first: Vec<u8>,
        incoming: &mut UnboundedReceiver<Vec<u8>>,
        closing: &mut watch::Receiver<bool>,
    ) -> Vec<Vec<u8>> {
        let Gathering { batch_max_size, inactive_timeout, buffer_duration, .. } = self.gathering;
        let mut batch = vec![first];
        let mut last = Instant::now();
        let full = last + buffer_duration;
        while batch.len() < batch_max_size {
            let entry = tokio::select! {
                biased;
                entry = incoming.recv() => entry,
                () = tokio::time::sleep_until(full.min(last + inactive_timeout)) => None,
                _ = closing.wait_for(|closing| *closing) => incoming.try_recv().ok(),
            };
            let Some(entry) = entry else { break };
            batch.push(entry);
            last = Instant::now();
        }
        batch
    }

    async fn deliver(&self, batch: Vec<Vec<u8>>, mut closing: watch::Receiver<bool>) {
        let Gathering { name, max_retry_count, retry_delay, .. } = &self.gathering;
        let (count, bytes) = (batch.len(), batch.iter().map(Vec::len).sum());
        let batch = Arc::new(batch);
        for retried in 0..=*max_retry_count {
            let (destination, sent) = (Arc::clone(&self.destination), Arc::clone(&batch));
            let sent = tokio::task::spawn_blocking(move || destination.send(&sent)).await;
            match sent.unwrap_or_else(|panic| Err(panic.to_string())) {
                Ok(()) => {
                    tracing::debug!("{name}: a batch of {count} log entries sent");
                    return self.backlog.release(count, bytes);
                }
                Err(error) => {
                    tracing::error!("{name}: a batch of {count} log entries could not be sent: {error}");
                }
            }
            if retried < *max_retry_count {
                tokio::select! {
                    () = tokio::time::sleep(*retry_delay) => {}
                    _ = closing.wait_for(|closing| *closing) => {}
                }
            }
        }
        self.backlog.release(count, bytes);
        self.backlog.drop_entries(name, count);
    }
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Batches").field(&self.work.gathering).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    const PATIENCE: Duration = Duration::from_secs(10);
    const LONG: Duration = Duration::from_secs(3600);

    /// Tells what it gets, and fails as often as it is told to.
    struct Told(Sender<Vec<Vec<u8>>>, Mutex<u32>);

    impl Destination for Told {
        fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
            let mut failures = self.1.lock().unwrap();
            self.0.send(entries.to_vec()).unwrap();
            if *failures == 0 {
                return Ok(());
            }
            *failures -= 1;
            Err("not now".to_owned())
        }
    }

    fn gathering(batch_max_size: usize, inactive_timeout: Duration) -> Gathering {
        Gathering {
            name: "test".to_owned(),
            batch_max_size,
            inactive_timeout,
            buffer_duration: LONG,
            max_retry_count: 1,
            retry_delay: Duration::ZERO,
            max_pending_entries: 4,
        }
    }

    fn batches(gathering: Gathering, failures: u32) -> (Batches, Receiver<Vec<Vec<u8>>>) {
        let (told, sent) = channel();
        let destination = Told(told, Mutex::new(failures));
        (Batches::new(Arc::default(), Arc::default(), gathering, destination), sent)
    }

    #[test]
    fn a_full_batch_is_sent_at_once_and_the_rest_at_the_end() {
        let (batches, sent) = batches(gathering(2, LONG), 0);
        for entry in [b"1", b"2", b"3"] {
            batches.push(entry.to_vec());
        }
        assert_eq!(sent.recv_timeout(PATIENCE), Ok(vec![b"1".to_vec(), b"2".to_vec()]));
        assert!(sent.try_recv().is_err());
        batches.delivery.finish(PATIENCE);
        assert_eq!(sent.try_recv(), Ok(vec![b"3".to_vec()]), "sent before the end");
        batches.push(b"4".to_vec());
        assert_eq!(batches.work.backlog.dropped(), 1, "nothing is taken after the end");
    }

    #[test]
    fn a_batch_is_sent_when_nothing_more_comes_or_its_owner_is_gone() {
        let (idle, sent) = batches(gathering(100, Duration::ZERO), 0);
        idle.push(b"1".to_vec());
        assert_eq!(sent.recv_timeout(PATIENCE), Ok(vec![b"1".to_vec()]));
        let (batches, sent) = batches(gathering(100, LONG), 0);
        batches.push(b"1".to_vec());
        let delivery = Arc::clone(&batches.delivery);
        drop(batches);
        assert_eq!(sent.recv_timeout(PATIENCE), Ok(vec![b"1".to_vec()]));
        delivery.finish(PATIENCE);
    }

    #[test]
    fn what_fails_is_tried_again_and_then_dropped() {
        for (failures, dropped) in [(1, 0), (2, 1)] {
            let (batches, sent) = batches(gathering(1, LONG), failures);
            batches.push(b"1".to_vec());
            assert!((0..2).all(|_| sent.recv_timeout(PATIENCE).is_ok()), "tried twice");
            batches.delivery.finish(PATIENCE);
            assert_eq!(batches.work.backlog.dropped(), dropped);
            assert!(batches.work.backlog.take(1, 1), "nothing waits");
        }
    }

    #[test]
    fn too_many_waiting_entries_are_dropped() {
        let (batches, sent) = batches(gathering(100, LONG), 0);
        (0..6).for_each(|_| batches.push(b"1".to_vec()));
        assert_eq!(batches.work.backlog.dropped(), 2);
        batches.delivery.finish(PATIENCE);
        assert_eq!(sent.try_iter().map(|batch| batch.len()).sum::<usize>(), 4);
    }
}
