//! A descriptor that becomes readable once per period: the worker's only timer.

use rustix::io::read;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A periodic timer in the event loop.
#[derive(Debug)]
pub(crate) struct Ticker(AsyncFd<OwnedFd>);

impl Ticker {
    /// Ticks every `period`, below one second, from now on.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn start(period: Duration) -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let every = Timespec { tv_sec: 0, tv_nsec: period.subsec_nanos().into() };
        let spec = Itimerspec { it_interval: every, it_value: every };
        timerfd_settime(&fd, TimerfdTimerFlags::empty(), &spec)?;
        // SAFETY: an OwnedFd owns its descriptor: it stays open, and the same one, until the AsyncFd drops it.
        #[allow(unsafe_code, reason = "tokio asks for this promise about the descriptor")]
        let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        Ok(Self(registered?))
    }

    /// Waits for the next tick. Ticks that nobody waited for count as one.
    pub(crate) async fn tick(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let count = ready.try_io(|fd| Ok(read(fd.get_ref(), &mut [0u8; 8])?));
            if let Ok(read) = count {
                return read.map(|_| ());
            }
        }
    }
}
