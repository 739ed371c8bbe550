//! Work that goes on beside the exchanges for as long as a configuration is in use.

use crate::{LocalFuture, Services, Task};
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;
use stdx::panics;

/// How long after a panic a task is started again.
const RESTART_PAUSE: Duration = Duration::from_secs(10);

/// A task that a configuration declares by [`crate::Hooks::background`]. It is started with the snapshot that the
/// configuration is in, so one that is only checked starts nothing; later snapshots with the same compiled plugin go on
/// with it, and it ends with the last copy of that: after the last exchange that the configuration serves.
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
    /// On the process's first worker: to fetch what all workers read.
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

    /// Starts the tasks of `place` on the thread of `services`, once for each configuration that is new there. They end
    /// with the configuration, or when the handles are dropped. A task that panics is logged and started again.
    pub fn start(&self, place: Place, services: &Rc<dyn Services>) -> Vec<Task> {
        let of_place = self.declared.iter().filter(|task| task.place == place);
        let start = |task: &Background| {
            services.spawn(self.life.until_end(restarted(task.clone(), Rc::clone(services))))
        };
        of_place.map(start).collect()
    }
}

/// Runs `task`, and runs it again some time after each panic.
fn restarted(task: Background, services: Rc<dyn Services>) -> LocalFuture<()> {
    Box::pin(async move {
        loop {
            // What a task leaves half changed is its own.
            let made = catch_unwind(AssertUnwindSafe(|| (task.make)(Rc::clone(&services))));
            let ended = match made {
                Ok(mut work) => {
                    poll_fn(|cx| {
                        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
                        polled.map_or_else(|panic| Poll::Ready(Err(panic)), |polled| polled.map(Ok))
                    })
                    .await
                }
                Err(panic) => Err(panic),
            };
            let Err(panic) = ended else { return };
            let (name, message) = (task.name, panics::message(&*panic));
            tracing::error!(
                task = name,
                "a plugin's background task panicked: {message}; restarted in {RESTART_PAUSE:?}"
            );
            services.sleep(RESTART_PAUSE).await;
        }
    })
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
