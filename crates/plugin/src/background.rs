//! Work that goes on beside the exchanges for as long as a configuration is in use.

use crate::{LocalFuture, Services};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// A task that a configuration declares by [`crate::Hooks::background`]. It is started with the snapshot that the
/// configuration is in, so one that is only checked starts nothing, and ends with the last copy of the compiled plugin.
#[derive(Clone)]
pub struct Background {
    /// Its name, for the log.
    pub name: &'static str,
    /// Where it runs.
    pub place: Place,
    make: Arc<dyn Fn(Rc<dyn Services>) -> LocalFuture<()> + Send + Sync>,
}

/// Where a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On one thread of the process: to fetch what all workers read.
    Process,
    /// On each worker: to keep connections that the worker's requests use.
    EachWorker,
}

impl Background {
    /// A task that `make` makes on the thread where it runs.
    pub fn new(
        name: &'static str,
        place: Place,
        make: impl Fn(Rc<dyn Services>) -> LocalFuture<()> + Send + Sync + 'static,
    ) -> Self {
        Self { name, place, make: Arc::new(make) }
    }

    /// A task that runs what `tick` makes at once, and again `period` after each end of it: slow work doesn't pile up.
    pub fn every(
        name: &'static str,
        place: Place,
        period: Duration,
        tick: impl Fn(Rc<dyn Services>) -> LocalFuture<()> + Send + Sync + 'static,
    ) -> Self {
        let tick = Arc::new(tick);
        Self::new(name, place, move |services| {
            let tick = Arc::clone(&tick);
            Box::pin(async move {
                loop {
                    tick(Rc::clone(&services)).await;
                    services.sleep(period).await;
                }
            })
        })
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.name, self.place)
    }
}

/// The tasks of one compiled configuration. The copies of the configuration share it; the last one that is dropped ends
/// them, on whatever thread it is.
#[derive(Debug)]
pub struct BackgroundTasks {
    declared: Vec<Background>,
    life: Arc<Life>,
}

/// Whether the configuration is in use, and the tasks that wait to hear of its end.
#[derive(Debug, Default)]
struct Life(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    ended: bool,
    /// One for each task that was started: at most one for each declared task and thread.
    waiting: Vec<Option<Waker>>,
}

impl BackgroundTasks {
    /// The tasks that `declared` names; none runs yet. `None` where there are none.
    pub(crate) fn new(declared: Vec<Background>) -> Option<Arc<Self>> {
        (!declared.is_empty()).then(|| Arc::new(Self { declared, life: Arc::default() }))
    }

    /// The tasks that were declared.
    #[must_use]
    pub fn declared(&self) -> &[Background] {
        &self.declared
    }

    /// Starts the tasks of `place` on the thread of `services`. For whoever puts a snapshot into use there, once for each
    /// configuration that is new to the thread.
    pub fn start(&self, place: Place, services: &Rc<dyn Services>) {
        for task in self.declared.iter().filter(|task| task.place == place) {
            let work = (task.make)(Rc::clone(services));
            services.spawn(self.life.until_end(work)).detach();
        }
    }
}

impl Drop for BackgroundTasks {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.life.lock();
            state.ended = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

impl Life {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `work`, dropped on its own thread as soon as the configuration is.
    fn until_end(self: &Arc<Self>, work: LocalFuture<()>) -> LocalFuture<()> {
        let place = {
            let mut state = self.lock();
            state.waiting.push(None);
            state.waiting.len() - 1
        };
        let life = Arc::clone(self);
        let mut work = Some(work);
        Box::pin(poll_fn(move |cx| {
            {
                let mut state = life.lock();
                if state.ended {
                    work = None;
                } else if !state.waiting[place].as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    state.waiting[place] = Some(cx.waker().clone());
                }
            }
            let Some(running) = &mut work else { return Poll::Ready(()) };
            let polled = running.as_mut().poll(cx);
            if polled.is_ready() {
                work = None;
            }
            polled
        }))
    }
}
