//! One fetch for all who miss the same entry at the same time.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Something that happens once, and who waits for it. Waiters may be of other threads than who makes it happen.
#[derive(Debug, Default)]
pub(crate) struct Signal(Mutex<(bool, Vec<Waker>)>);

impl Signal {
    /// It has happened.
    pub(crate) fn raise(&self) {
        let wakers = {
            let mut state = locked(&self.0);
            state.0 = true;
            std::mem::take(&mut state.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Done when what was waited for has happened.
#[derive(Debug)]
pub struct Landing(pub(crate) Arc<Signal>);

impl Future for Landing {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = locked(&self.0.0);
        if state.0 {
            return Poll::Ready(());
        }
        if !state.1.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.1.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// The fetches under way, by key.
#[derive(Debug, Default)]
pub(crate) struct Fetches(Mutex<HashMap<Box<[u8]>, Arc<Signal>>>);

impl Fetches {
    /// The right to fetch what `key` names; or, where somebody has it, what to wait for.
    pub(crate) fn begin(self: &Arc<Self>, key: &[u8]) -> Result<Fetch, Landing> {
        let mut under_way = locked(&self.0);
        if let Some(signal) = under_way.get(key) {
            return Err(Landing(Arc::clone(signal)));
        }
        let signal = Arc::default();
        under_way.insert(key.into(), Arc::clone(&signal));
        Ok(Fetch { fetches: Arc::clone(self), key: key.into(), signal })
    }
}

/// The right to fetch. Whatever becomes of it, those who wait go on when it is dropped.
#[derive(Debug)]
pub struct Fetch {
    fetches: Arc<Fetches>,
    key: Box<[u8]>,
    signal: Arc<Signal>,
}

impl Drop for Fetch {
    fn drop(&mut self) {
        locked(&self.fetches.0).remove(&self.key);
        self.signal.raise();
    }
}

/// A lock whose state is whole even where a thread died with it: each change is one step.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(landing: &mut Landing) -> bool {
        Pin::new(landing).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn one_fetches_and_the_others_wait() {
        let fetches = Arc::new(Fetches::default());
        let first = fetches.begin(b"a").unwrap();
        let mut second = fetches.begin(b"a").unwrap_err();
        assert!(fetches.begin(b"b").is_ok(), "another key");
        assert!(!poll(&mut second));
        drop(first);
        assert!(poll(&mut second) && poll(&mut second));
        assert!(fetches.begin(b"a").is_ok());
    }
}
