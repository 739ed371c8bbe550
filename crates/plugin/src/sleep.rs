//! Time that a hook lets pass.

use crate::{Exchange, Flow};
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Who wakes what sleeps: the worker's timers.
pub trait Sleeper: Debug {
    /// A future that is done when `time` has passed, counted from now, to the millisecond.
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// For exchanges whose plugins don't run: time passes at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sleepless;

impl Sleeper for Sleepless {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::ready(()))
    }
}

impl Exchange<'_> {
    /// A future that is done when `time` has passed.
    #[must_use]
    pub fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        self.sleeper.sleep(time)
    }

    /// Lets `time` pass, then goes on with `flow`.
    #[must_use]
    pub fn after(&self, time: Duration, flow: Flow) -> Flow {
        let sleep = self.sleep(time);
        Flow::Wait(Box::pin(async move {
            sleep.await;
            let resume: crate::Resume = Box::new(|_| flow);
            resume
        }))
    }
}
