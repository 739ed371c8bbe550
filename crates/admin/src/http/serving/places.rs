//! The places of a server's connections. When all are taken, the connection that has waited for its client longest gives
//! its place to a newcomer, as nginx reuses idle connections: half-open ones can't keep a scraper out.

use super::deadlines::Busy;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How often to look again for a connection to evict while all of them are being answered.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// The places of one server.
#[derive(Debug)]
pub(super) struct Places {
    max: u32,
    free: Arc<Semaphore>,
    taken: Mutex<HashMap<u64, Occupant>>,
    next: AtomicU64,
}

#[derive(Debug, Clone)]
struct Occupant {
    busy: Busy,
    eviction: Arc<Notify>,
}

/// A connection's place, free again when dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    occupant: Occupant,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub(super) fn new(max: usize) -> Arc<Self> {
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        let free = Arc::new(Semaphore::new(max as usize));
        Arc::new(Self { max, free, taken: Mutex::default(), next: AtomicU64::new(0) })
    }

    /// How many there are.
    pub(super) fn max(&self) -> u32 {
        self.max
    }

    /// Whether none is free.
    pub(super) fn are_taken(&self) -> bool {
        self.free.available_permits() == 0
    }

    /// A place, as soon as there is one: a free one, or that of the connection that has waited longest.
    pub(super) async fn take(self: &Arc<Self>) -> Place {
        let permit = loop {
            let free = Arc::clone(&self.free);
            if self.are_taken() {
                self.evict();
            }
            if let Ok(permit) = timeout(LOOK_PAUSE, free.acquire_owned()).await {
                // Never closed.
                break permit.ok();
            }
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let occupant = Occupant { busy: Busy::default(), eviction: Arc::default() };
        self.taken().insert(number, occupant.clone());
        Place { places: Arc::clone(self), number, occupant, _permit: permit }
    }

    /// Returns once no place is taken.
    pub(super) async fn all_free(&self) {
        // Never closed, so this only waits.
        let _ = self.free.acquire_many(self.max).await;
    }

    /// Tells the connection that has waited for its client longest to end. A look at each of at most 1,024 places, where
    /// the kernel's share of a connection costs ten times as much.
    fn evict(&self) {
        let taken = self.taken();
        let waiting = taken.values().filter_map(|occupant| Some((occupant.busy.waits_since()?, occupant)));
        if let Some((_, oldest)) = waiting.min_by_key(|(since, _)| *since) {
            oldest.eviction.notify_one();
        }
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<u64, Occupant>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// What the connection says of itself.
    pub(super) fn busy(&self) -> Busy {
        self.occupant.busy.clone()
    }

    /// Returns when the connection is to end, which it never is while it is being answered.
    pub(super) async fn evicted(&self) {
        loop {
            self.occupant.eviction.notified().await;
            if self.occupant.busy.waits_since().is_some() {
                return;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the connection has been told to end.
    async fn is_evicted(place: &Place) -> bool {
        timeout(Duration::from_millis(1), place.evicted()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_waited_longest_makes_room() {
        let places = Places::new(3);
        let (first, second, third) = (places.take().await, places.take().await, places.take().await);
        // Answered in between: now it has waited the shortest time. The second is being answered.
        first.busy().set(true);
        first.busy().set(false);
        second.busy().set(true);
        assert!(places.are_taken());
        let newcomer = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.take().await }
        });
        third.evicted().await;
        assert!(!newcomer.is_finished(), "the place is not free yet");
        drop(third);
        let fourth = newcomer.await.unwrap();
        assert!(!is_evicted(&first).await && !is_evicted(&second).await && !is_evicted(&fourth).await);
        // All are being answered: a newcomer waits until one of them waits for its client again.
        first.busy().set(true);
        fourth.busy().set(true);
        assert!(timeout(Duration::from_secs(60), places.take()).await.is_err());
        second.busy().set(false);
        let newcomer = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.take().await }
        });
        second.evicted().await;
        drop(second);
        drop((newcomer.await.unwrap(), first, fourth));
        places.all_free().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_comes_first_is_answered() {
        let places = Places::new(1);
        let place = places.take().await;
        let waiting = timeout(Duration::from_millis(250), places.take());
        let (begun, newcomer) = tokio::join!(
            async {
                tokio::task::yield_now().await;
                // Told to end, but a request was read meanwhile.
                place.busy().set(true);
                is_evicted(&place).await
            },
            waiting
        );
        assert!(!begun && newcomer.is_err());
    }
}
