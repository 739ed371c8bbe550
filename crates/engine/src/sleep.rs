//! Requests that plugins hold up, woken to the millisecond: the connections' own sweep is too coarse for a rate of more
//! than ten requests a second.

use crate::sys::Alarm;
use plugin::Sleeper;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stdx::Moment;

/// The longest sleep: a year. No request outlives it.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// What sleeps on one worker. One timer wakes the one that is due first, and is then set to the next.
pub(crate) struct Sleeps(Rc<Waiting>);

struct Waiting {
    alarm: Alarm,
    /// By due time, the serial number telling apart those that are due together.
    wakers: RefCell<BTreeMap<(Moment, u64), Waker>>,
    serial: Cell<u64>,
}

impl Sleeps {
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn new() -> io::Result<Self> {
        let wakers = RefCell::default();
        Ok(Self(Rc::new(Waiting { alarm: Alarm::new()?, wakers, serial: Cell::new(0) })))
    }

    /// Wakes what is due, for ever: a task of its own.
    pub(crate) fn run(&self) -> impl Future<Output = ()> + use<> {
        let waiting = Rc::clone(&self.0);
        async move {
            loop {
                if let Err(error) = waiting.alarm.ring().await {
                    tracing::error!(%error, "sleeping requests can't be woken");
                    return;
                }
                waiting.wake(Moment::now());
            }
        }
    }
}

impl Sleeper for Sleeps {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        let serial = self.0.serial.get();
        self.0.serial.set(serial.wrapping_add(1));
        let due = Moment::now() + time.min(LONGEST);
        Box::pin(Sleep { waiting: Rc::clone(&self.0), place: (due, serial), waits: false })
    }
}

impl fmt::Debug for Sleeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleeps").field("waiting", &self.0.wakers.borrow().len()).finish()
    }
}

impl Waiting {
    fn wake(&self, now: Moment) {
        let due = {
            let mut wakers = self.wakers.borrow_mut();
            let later = wakers.split_off(&(now, u64::MAX));
            std::mem::replace(&mut *wakers, later)
        };
        due.into_values().for_each(Waker::wake);
        self.set(now);
    }

    /// Sets the timer to what is due first.
    fn set(&self, now: Moment) {
        let first = self.wakers.borrow().first_key_value().map(|((due, _), _)| *due);
        if let Some(Err(error)) = first.map(|due| self.alarm.set(due - now)) {
            tracing::error!(%error, "sleeping requests can't be woken");
        }
    }
}

/// One sleep. Dropped before its time it leaves nothing behind.
struct Sleep {
    waiting: Rc<Waiting>,
    place: (Moment, u64),
    waits: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let now = Moment::now();
        if self.place.0 <= now {
            return Poll::Ready(());
        }
        self.waiting.wakers.borrow_mut().insert(self.place, cx.waker().clone());
        let first = self.waiting.wakers.borrow().first_key_value().map(|(place, _)| *place);
        // The connection's own timer may wake it in between: the alarm is set already then.
        if !self.waits && first == Some(self.place) {
            self.waiting.set(now);
        }
        self.waits = true;
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.waits {
            self.waiting.wakers.borrow_mut().remove(&self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::{Builder, LocalOptions};

    #[test]
    fn sleeps_end_in_the_order_of_their_times_and_not_early() {
        let runtime = Builder::new_current_thread().enable_io().build_local(LocalOptions::default());
        runtime.expect("a runtime").block_on(async {
            let sleeps = Sleeps::new().expect("a descriptor");
            tokio::task::spawn_local(sleeps.run());
            let started = Moment::now();
            let ended: Rc<RefCell<Vec<u64>>> = Rc::default();
            let tasks: Vec<_> = [30, 5, 0, 15]
                .map(|millis| {
                    let (sleep, ended) = (sleeps.sleep(Duration::from_millis(millis)), Rc::clone(&ended));
                    tokio::task::spawn_local(async move {
                        sleep.await;
                        assert!(started.elapsed() >= Duration::from_millis(millis));
                        ended.borrow_mut().push(millis);
                    })
                })
                .into();
            // One that nobody waits for any more leaves no waker behind.
            let mut dropped = sleeps.sleep(Duration::from_secs(60));
            assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            drop(dropped);
            for task in tasks {
                task.await.expect("no panic");
            }
            assert_eq!(*ended.borrow(), [0, 5, 15, 30]);
            assert!(sleeps.0.wakers.borrow().is_empty());
        });
    }
}
