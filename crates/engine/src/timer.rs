//! Timeouts without a timer per operation: an operation that has to wait computes its own deadline, and one coarse sweep
//! per worker wakes the tasks whose earliest deadline has passed.
//!
//! A [`Timer`] is the wake-up of one task and nothing else. Whether time is up is for each operation to decide, by its own
//! [`TimeLimit`]: several operations of a task may wait at once, each with a deadline of its own, and an operation that
//! is ready at once costs no timer work at all.

use crate::clock::{Now, TICK_MS, millis};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A point in worker time that never comes.
const NEVER: u64 = BEGINS - 1;

/// Marks a limit whose operation has not had to wait yet.
const BEGINS: u64 = 1 << 63;

/// The wake-up of one task.
pub(crate) struct Timer {
    now: Now,
    /// The earliest deadline of the task's pending operations, in worker time. It may belong to an operation that has
    /// ended meanwhile: the task is then woken for nothing, once.
    wake_at_ms: Cell<u64>,
    rest: Cell<Rest>,
    waker: Cell<Option<Waker>>,
}

/// What a task does, as far as it may be ended before its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Something that is not broken off.
    Busy,
    /// Waits for the first bytes of a connection: they are still served when the worker drains, but make room for others.
    First,
    /// Something that is broken off when the worker drains.
    Drains,
    /// Waits for what may never come: ends when the worker drains, or when others need the room.
    Idle,
    /// Has been told to make room.
    Evicted,
}

impl Timer {
    /// Sets the task to wake. Called once, when the task starts: a task's waker stays the same.
    pub(crate) fn attach(&self, cx: &Context<'_>) {
        self.waker.set(Some(cx.waker().clone()));
    }

    /// A limit that begins when its operation first has to wait.
    #[inline]
    pub(crate) fn within(&self, timeout: Duration) -> TimeLimit<'_> {
        TimeLimit { timer: self, ms: BEGINS | millis(timeout).min(NEVER) }
    }

    /// A limit at a point in worker time, for operations that share one budget.
    #[inline]
    pub(crate) fn by(&self, deadline_ms: u64) -> TimeLimit<'_> {
        TimeLimit { timer: self, ms: deadline_ms.min(NEVER) }
    }

    /// No limit, for operations that are limited by their caller.
    pub(crate) fn unlimited(&self) -> TimeLimit<'_> {
        self.by(NEVER)
    }

    /// Wakes the task no later than with the first sweep at or after `at_ms`.
    #[inline]
    pub(crate) fn wake_by(&self, at_ms: u64) {
        if at_ms < self.wake_at_ms.get() {
            self.wake_at_ms.set(at_ms);
        }
    }

    /// Drops what has been registered. Only for a task that has no pending operation: it saves the wake-ups that ended
    /// operations have left behind.
    #[inline]
    pub(crate) fn clear(&self) {
        self.wake_at_ms.set(NEVER);
    }

    /// Sets for what the task is woken before its deadline, to end by itself.
    #[inline]
    pub(crate) fn set_rest(&self, rest: Rest) {
        self.rest.set(rest);
    }

    /// Whether the task is woken when the worker drains.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.rest.get(), Rest::Drains | Rest::Idle | Rest::Evicted)
    }

    /// Whether the task is to make room.
    pub(crate) fn is_evicted(&self) -> bool {
        self.rest.get() == Rest::Evicted
    }

    fn wake(&self) {
        self.wake_at_ms.set(NEVER);
        if let Some(waker) = self.waker.take() {
            waker.wake_by_ref();
            self.waker.set(Some(waker));
        }
    }
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timer").field("wake_at_ms", &self.wake_at_ms.get()).finish_non_exhaustive()
    }
}

/// How long one operation may wait. The operation asks each time it is pending. Two words, because it is part of every
/// future that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimit<'t> {
    timer: &'t Timer,
    /// The deadline in worker time; with `BEGINS` set the timeout, until the operation first has to wait.
    ms: u64,
}

impl TimeLimit<'_> {
    /// Whether the time is up. If not, the task is woken when it is. To be called by an operation that is pending.
    pub(crate) fn is_over(&mut self) -> bool {
        let now_ms = self.timer.now.ms();
        if self.ms & BEGINS != 0 {
            self.ms = now_ms.saturating_add(self.ms ^ BEGINS).saturating_add(TICK_MS).min(NEVER);
        }
        if now_ms >= self.ms {
            return true;
        }
        self.timer.wake_by(self.ms);
        false
    }

    /// A limit of one tick instead; `None` for a point in time.
    #[inline]
    pub(crate) fn one_tick(&self) -> Option<Self> {
        (self.ms & BEGINS != 0).then_some(Self { timer: self.timer, ms: BEGINS })
    }

    /// The result of a pending operation.
    #[inline]
    pub(crate) fn pending<T>(&mut self) -> Poll<io::Result<T>> {
        if self.is_over() { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending }
    }
}

/// The wake-ups of a worker's tasks.
#[derive(Debug)]
pub(crate) struct Timers {
    now: Now,
    slots: RefCell<Vec<Option<Rc<Timer>>>>,
    free: RefCell<Vec<usize>>,
}

/// A task's place among the timers, given back when dropped.
#[derive(Debug)]
pub(crate) struct Registration<'t> {
    timers: &'t Timers,
    slot: usize,
    /// The task's wake-up.
    pub(crate) timer: Rc<Timer>,
}

impl Timers {
    /// Timers by the worker time `now`.
    pub(crate) fn new(now: Now) -> Self {
        Self { now, slots: RefCell::default(), free: RefCell::default() }
    }

    /// A place for one more task.
    pub(crate) fn register(&self) -> Registration<'_> {
        let timer = Rc::new(Timer {
            now: self.now.clone(),
            wake_at_ms: Cell::new(NEVER),
            rest: Cell::new(Rest::Busy),
            waker: Cell::new(None),
        });
        let mut slots = self.slots.borrow_mut();
        let slot = self.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(None);
            slots.len() - 1
        });
        slots[slot] = Some(Rc::clone(&timer));
        Registration { timers: self, slot, timer }
    }

    /// Wakes the tasks whose earliest deadline has passed.
    pub(crate) fn sweep(&self) {
        let now_ms = self.now.ms();
        for timer in self.slots.borrow().iter().flatten() {
            if timer.wake_at_ms.get() <= now_ms {
                timer.wake();
            }
        }
    }

    /// Wakes the idle tasks, so that they see that the worker drains.
    pub(crate) fn wake_idle(&self) {
        for timer in self.slots.borrow().iter().flatten() {
            if timer.is_idle() {
                timer.wake();
            }
        }
    }

    /// Wakes up to `most` tasks that may make room, those with the nearest deadlines, and returns how many.
    pub(crate) fn evict(&self, most: usize) -> usize {
        let slots = self.slots.borrow();
        let resting =
            slots.iter().flatten().filter(|timer| matches!(timer.rest.get(), Rest::First | Rest::Idle));
        let mut resting: Vec<&Rc<Timer>> = resting.collect();
        let most = most.min(resting.len());
        if most < resting.len() {
            resting.select_nth_unstable_by_key(most, |timer| timer.wake_at_ms.get());
        }
        for timer in &resting[..most] {
            timer.rest.set(Rest::Evicted);
            timer.wake();
        }
        most
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.timers.slots.borrow_mut()[self.slot] = None;
        self.timers.free.borrow_mut().push(self.slot);
    }
}

/// Has the timer wake the task that this runs in.
pub(crate) async fn attach(timer: &Timer) {
    poll_fn(|cx| {
        timer.attach(cx);
        Poll::Ready(())
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_operation_of_a_task_has_a_deadline_of_its_own() {
        let now = Now::default();
        let timers = Timers::new(now.clone());
        let registered = timers.register();
        let timer = &registered.timer;
        let count = Arc::new(Count::default());
        timer.attach(&Context::from_waker(&Waker::from(Arc::clone(&count))));
        let woken = |at_ms: u64| {
            now.set(at_ms);
            timers.sweep();
            count.0.swap(0, Ordering::Relaxed)
        };
        let (mut short, mut long) =
            (timer.within(Duration::from_secs(1)), timer.within(Duration::from_secs(30)));
        assert_eq!(woken(5000), 0, "a limit begins when its operation first waits");
        assert!(!long.is_over() && !short.is_over());
        // One tick more, because the clock may be a tick behind.
        assert_eq!([woken(6099), woken(6100), woken(6200)], [0, 1, 0], "once, by the earlier deadline");
        assert!(short.is_over() && !long.is_over());
        assert_eq!([woken(35_099), woken(35_100)], [0, 1], "and then by the later one");
        assert!(long.is_over());
        let mut fixed = timer.by(40_000);
        assert!(!fixed.is_over());
        assert_eq!([woken(39_999), woken(40_000)], [0, 1], "a point in time has no tick more");
        assert!(fixed.is_over());
        assert!(!timer.within(Duration::MAX).is_over());
        timer.clear();
        assert_eq!([woken(100_000), usize::from(timer.unlimited().is_over())], [0, 0]);
    }

    #[test]
    fn idle_tasks_alone_are_woken_when_the_worker_drains() {
        let timers = Timers::new(Now::default());
        let (busy, idle) = (timers.register(), timers.register());
        let counts = [&busy, &idle].map(|registered| {
            let count = Arc::new(Count::default());
            registered.timer.attach(&Context::from_waker(&Waker::from(Arc::clone(&count))));
            count
        });
        idle.timer.set_rest(Rest::Idle);
        timers.wake_idle();
        assert_eq!(counts.map(|count| count.0.load(Ordering::Relaxed)), [0, 1]);
    }

    #[test]
    fn those_with_the_nearest_deadlines_make_room() {
        let timers = Timers::new(Now::default());
        let rests = [
            (Rest::Idle, 300),
            (Rest::Busy, 10),
            (Rest::First, 100),
            (Rest::Drains, 20),
            (Rest::Idle, 200),
            (Rest::Evicted, 30),
        ];
        let registered = rests.map(|(rest, at_ms)| {
            let registered = timers.register();
            registered.timer.set_rest(rest);
            registered.timer.wake_by(at_ms);
            registered
        });
        let evicted = || registered.each_ref().map(|registered| registered.timer.is_evicted());
        assert_eq!(timers.evict(2), 2);
        assert_eq!(evicted(), [false, false, true, false, true, true]);
        assert_eq!((timers.evict(9), timers.evict(9)), (1, 0));
        assert_eq!(evicted(), [true, false, true, false, true, true]);
    }
}
