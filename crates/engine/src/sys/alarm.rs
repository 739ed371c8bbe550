//! A descriptor that becomes readable once, after a time that may be set anew: what sleeping requests are woken by.

use rustix::io::read;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A timer in the event loop that rings once.
#[derive(Debug)]
pub(crate) struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    /// One that is not set.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn new() -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // SAFETY: an OwnedFd owns its descriptor: it stays open, and the same one, until the AsyncFd drops it.
        #[allow(unsafe_code, reason = "tokio asks for this promise about the descriptor")]
        let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        Ok(Self(registered?))
    }

    /// Has it ring once, `time` from now, and not at the time it was set to before.
    ///
    /// # Errors
    /// None that the system documents for such a timer.
    pub(crate) fn set(&self, time: Duration) -> io::Result<()> {
        // A time of zero would unset it.
        let time = time.max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &spec)?;
        Ok(())
    }

    /// Waits until it rings.
    ///
    /// # Errors
    /// When the event loop ends.
    pub(crate) async fn ring(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let count = ready.try_io(|fd| Ok(read(fd.get_ref(), &mut [0u8; 8])?));
            if let Ok(read) = count {
                return read.map(|_| ());
            }
        }
    }
}
