//! Deadlines without a timer per request: each connection has one, a coarse sweep looks at all of them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

/// How often deadlines are looked at: their resolution. Ten sweeps a second over 10,000 connections are 100,000 loads.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// One connection's deadline.
#[derive(Debug)]
pub(crate) struct Timer {
    /// Worker time in ms at which to wake the connection; `u64::MAX` for never.
    deadline_ms: Cell<u64>,
    expired: Cell<bool>,
    /// Whether the connection waits for its next request, so that a draining worker may close it.
    idle: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Timer {
    /// Whose task to wake. Called once, when the connection's task starts: a task's waker stays the same.
    pub(crate) fn attach(&self, cx: &Context<'_>) {
        *self.waker.borrow_mut() = Some(cx.waker().clone());
    }

    /// Sets the deadline, in worker time.
    #[inline]
    pub(crate) fn arm(&self, deadline_ms: u64) {
        self.deadline_ms.set(deadline_ms);
        self.expired.set(false);
    }

    /// No deadline.
    #[inline]
    pub(crate) fn disarm(&self) {
        self.arm(u64::MAX);
    }

    /// Whether the deadline has passed.
    #[inline]
    pub(crate) fn expired(&self) -> bool {
        self.expired.get()
    }

    /// Says whether the connection waits for its next request.
    #[inline]
    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.set(idle);
    }

    fn expire(&self) {
        self.deadline_ms.set(u64::MAX);
        self.expired.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// The deadlines of a worker's connections.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    slots: RefCell<Vec<Option<Rc<Timer>>>>,
    free: RefCell<Vec<usize>>,
}

/// A connection's place among the deadlines, given back when dropped.
#[derive(Debug)]
pub(crate) struct Registration<'t> {
    timers: &'t Timers,
    slot: usize,
    /// The deadline.
    pub(crate) timer: Rc<Timer>,
}

impl Timers {
    /// A place for one more connection.
    pub(crate) fn register(&self) -> Registration<'_> {
        let timer = Rc::new(Timer {
            deadline_ms: Cell::new(u64::MAX),
            expired: Cell::new(false),
            idle: Cell::new(false),
            waker: RefCell::new(None),
        });
        let mut slots = self.slots.borrow_mut();
        let slot = self.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(None);
            slots.len() - 1
        });
        slots[slot] = Some(Rc::clone(&timer));
        Registration { timers: self, slot, timer }
    }

    /// Wakes the connections whose deadline has passed.
    pub(crate) fn sweep(&self, now_ms: u64) {
        for timer in self.slots.borrow().iter().flatten() {
            if timer.deadline_ms.get() <= now_ms {
                timer.expire();
            }
        }
    }

    /// Wakes the connections that wait for their next request, as if their time were up; all, where `all` says so.
    pub(crate) fn expire_idle(&self, all: bool) {
        for timer in self.slots.borrow().iter().flatten() {
            if all || timer.idle.get() {
                timer.expire();
            }
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.timers.slots.borrow_mut()[self.slot] = None;
        self.timers.free.borrow_mut().push(self.slot);
    }
}
