//! The worker's time: coarse, advanced by the tick, and the `Date` field that goes with it.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant, SystemTime};

/// A worker's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    now_ms: Cell<u64>,
    /// `Date: ...\r\n`, of `date_second`.
    date: RefCell<Vec<u8>>,
    date_second: Cell<u64>,
    unix_ms: Cell<u64>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let clock = Self {
            start: Instant::now(),
            now_ms: Cell::new(0),
            date: RefCell::new(Vec::new()),
            date_second: Cell::new(u64::MAX),
            unix_ms: Cell::new(0),
        };
        clock.tick();
        clock
    }

    /// Reads the system's clocks.
    pub(crate) fn tick(&self) {
        self.now_ms.set(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX));
        let wall = SystemTime::now();
        let since_epoch = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.unix_ms.set(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX));
        let second = since_epoch.as_secs();
        if self.date_second.replace(second) != second {
            *self.date.borrow_mut() = format!("Date: {}\r\n", httpdate::fmt_http_date(wall)).into_bytes();
        }
    }

    /// Milliseconds since the worker started, as of the last tick.
    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    /// The point `after` the last tick.
    #[inline]
    pub(crate) fn deadline_ms(&self, after: Duration) -> u64 {
        // One tick more, because the last one may be almost a tick ago: a deadline may come late, never early.
        self.now_ms
            .get()
            .saturating_add(u64::try_from(after.as_millis()).unwrap_or(u64::MAX))
            .saturating_add(crate::timer::TICK.as_millis() as u64)
    }

    /// Milliseconds since the Unix epoch, as of the last tick.
    #[inline]
    pub(crate) fn unix_ms(&self) -> u64 {
        self.unix_ms.get()
    }

    /// Appends the `Date` line.
    #[inline]
    pub(crate) fn write_date(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.date.borrow());
    }
}
