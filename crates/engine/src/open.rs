//! Open connections, counted; and the wait for a tick.

use crate::timer::Registration;
use crate::worker::Worker;
use observe::metrics::State;
use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

/// Counts an open connection, in the state it is in, for as long as it lives.
pub(crate) struct Open<'w> {
    worker: &'w Worker,
    state: Cell<State>,
}

impl<'w> Open<'w> {
    pub(crate) fn new(worker: &'w Worker) -> Self {
        worker.open.set(worker.open.get() + 1);
        worker.context.metrics.connections.opened(&worker.token, State::Reading);
        Self { worker, state: Cell::new(State::Reading) }
    }

    /// Takes note of the state.
    pub(crate) fn is(&self, state: State) {
        let before = self.state.replace(state);
        self.worker.context.metrics.connections.moved(&self.worker.token, before, state);
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.worker.open.set(self.worker.open.get().saturating_sub(1));
        self.worker.context.metrics.connections.closed(&self.worker.token, self.state.get());
    }
}

/// A wait for the worker's next tick, for tasks that are no connection.
pub(crate) struct Pause<'w> {
    worker: &'w Worker,
    registration: Registration<'w>,
}

impl<'w> Pause<'w> {
    pub(crate) fn new(worker: &'w Worker) -> Self {
        Self { worker, registration: worker.timers.register() }
    }

    pub(crate) async fn one_tick(&mut self) {
        let timer = &self.registration.timer;
        let mut limit = timer.by(self.worker.clock.now_ms() + 1);
        poll_fn(|cx| {
            timer.attach(cx);
            if limit.is_over() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
