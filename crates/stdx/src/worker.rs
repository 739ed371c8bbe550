//! State that each worker owns alone: no lock, no atomic, no false sharing on the request path.
//!
//! A [`WorkerToken`] proves which worker the running thread is. Tokens are unique per index and can't leave their
//! thread, so a [`PerWorker`] cell indexed by a token is reached by one thread only.

use std::cell::{OnceCell, RefCell, RefMut};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many workers one process may have: more cores than any machine the studies name, and small enough that a
/// [`PerWorker`] of it is a short array.
pub const WORKERS_MAX: usize = 256;

/// Which indices are taken by a living token.
static TAKEN: [AtomicBool; WORKERS_MAX] = [const { AtomicBool::new(false) }; WORKERS_MAX];

/// Proof that the holder runs on the thread of worker [`WorkerToken::index`]. Neither `Send` nor `Clone`.
#[derive(Debug)]
pub struct WorkerToken {
    index: usize,
    /// Keeps the token on the thread that claimed it.
    not_send: PhantomData<*const ()>,
}

impl WorkerToken {
    /// Claims the lowest free index for this thread; `None` when [`WORKERS_MAX`] tokens live.
    #[must_use]
    pub fn claim() -> Option<Self> {
        (0..WORKERS_MAX)
            .find(|&index| {
                TAKEN[index].compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            })
            .map(|index| Self { index, not_send: PhantomData })
    }

    /// The worker's number, below [`WORKERS_MAX`].
    #[must_use]
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }
}

impl Drop for WorkerToken {
    fn drop(&mut self) {
        TAKEN[self.index].store(false, Ordering::Release);
    }
}

/// One `T` per worker, reached without synchronisation by the worker that owns it.
pub struct PerWorker<T> {
    cells: Box<[Cell<T>]>,
}

/// Two cache lines (the adjacent-line prefetcher pairs them), so that workers don't share one.
#[repr(align(128))]
struct Cell<T>(RefCell<T>);

// SAFETY: a cell is only reached through `with` and `borrow`, which take the one living token of its index and hold it for as
// long as the cell is borrowed; tokens and borrows can't change threads, and handing an index from one thread to the next
// goes through the Acquire/Release pair on `TAKEN`.
// `T: Send` because the value is made on one thread and used, then dropped, on others.
#[allow(unsafe_code, reason = "the crate's purpose: worker-owned state behind a shared reference")]
unsafe impl<T: Send> Sync for PerWorker<T> {}

impl<T> PerWorker<T> {
    /// Makes one value for each possible worker.
    pub fn new(mut init: impl FnMut() -> T) -> Self {
        Self { cells: (0..WORKERS_MAX).map(|_| Cell(RefCell::new(init()))).collect() }
    }

    /// Runs `f` on the value of the worker that holds `token`.
    ///
    /// # Panics
    /// When `f` calls `with` on the same cell again.
    #[inline(always)]
    pub fn with<R>(&self, token: &WorkerToken, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.borrow(token))
    }

    /// The value of the worker that holds `token`, as [`Self::with`] gives it to a closure: for code that is to stand in its
    /// caller as a whole.
    ///
    /// # Panics
    /// When it is borrowed already.
    #[inline(always)]
    pub fn borrow<'b>(&'b self, token: &'b WorkerToken) -> RefMut<'b, T> {
        self.cells[token.index].0.borrow_mut()
    }
}

/// As [`PerWorker`], for state that there is one of for each configuration: a worker's value is made when the worker first
/// asks for it, so a configuration that no request meets takes 2 KiB, and one that is only checked not much longer. Each
/// look costs one load more.
pub struct LazyPerWorker<T> {
    cells: Box<[OnceCell<Box<Cell<T>>>]>,
    init: Box<dyn Fn(usize) -> T + Send + Sync>,
}

// SAFETY: as for `PerWorker`: a cell is only reached through `with`, by the one living token of its index, and so is made
// only there. `init` is shared and `Sync`.
#[allow(unsafe_code, reason = "the crate's purpose: worker-owned state behind a shared reference")]
unsafe impl<T: Send> Sync for LazyPerWorker<T> {}

impl<T> LazyPerWorker<T> {
    /// Values that `init` makes from a worker's index.
    pub fn new(init: impl Fn(usize) -> T + Send + Sync + 'static) -> Self {
        Self { cells: (0..WORKERS_MAX).map(|_| OnceCell::new()).collect(), init: Box::new(init) }
    }

    /// Runs `f` on the value of the worker that holds `token`.
    ///
    /// # Panics
    /// When `f` calls `with` on the same cell again.
    #[inline]
    pub fn with<R>(&self, token: &WorkerToken, f: impl FnOnce(&mut T) -> R) -> R {
        let make = || Box::new(Cell(RefCell::new((self.init)(token.index))));
        f(&mut self.cells[token.index].get_or_init(make).0.borrow_mut())
    }
}

impl<T> std::fmt::Debug for LazyPerWorker<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LazyPerWorker").finish_non_exhaustive()
    }
}

impl<T: Default> Default for PerWorker<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T> std::fmt::Debug for PerWorker<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerWorker").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lazy_state_is_made_by_the_worker_that_asks() {
        let made = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let noted = std::sync::Arc::clone(&made);
        let cells = LazyPerWorker::new(move |index| {
            noted.lock().expect("no panic").push(index);
            0_u64
        });
        assert!(made.lock().expect("no panic").is_empty());
        let token = WorkerToken::claim().expect("one of 256");
        let other = std::thread::scope(|scope| {
            let counted = scope.spawn(|| {
                let token = WorkerToken::claim().expect("one of 256");
                (token.index(), [(); 3].map(|()| cells.with(&token, |n| (*n += 1, *n).1)))
            });
            counted.join().expect("no panic")
        });
        assert_eq!(other.1, [1, 2, 3]);
        assert_eq!(cells.with(&token, |n| *n), 0, "the other worker's count is not seen");
        assert_eq!(*made.lock().expect("no panic"), [other.0, token.index()]);
    }

    #[test]
    fn tokens_of_living_threads_differ_and_state_stays_apart() {
        let cells = PerWorker::<u64>::default();
        let sums: Vec<(usize, u64)> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let token = WorkerToken::claim().expect("four of 256");
                        for _ in 0..1000 {
                            cells.with(&token, |n| *n += 1);
                        }
                        (token.index(), cells.with(&token, |n| *n))
                    })
                })
                .collect();
            workers.into_iter().map(|w| w.join().expect("no panic")).collect()
        });
        // An index may be reused by a later thread, which then finds the former's count.
        assert!(sums.iter().all(|(_, n)| n % 1000 == 0 && *n >= 1000));
    }
}
