//! The worker's time: coarse, advanced by the tick, and the lines of responses that go with it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use wire::{FieldLines, FieldSink};

/// The period of the sweep, and so the resolution of deadlines. Ten sweeps a second over 10,000 connections are 100,000
/// loads.
pub(crate) const TICK: Duration = Duration::from_millis(100);

pub(crate) const TICK_MS: u64 = TICK.as_millis() as u64;

/// The worker time, in milliseconds since the worker started, as of the last tick. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Now(Rc<Cell<u64>>);

impl Now {
    #[inline]
    pub(crate) fn ms(&self) -> u64 {
        self.0.get()
    }

    pub(crate) fn set(&self, ms: u64) {
        self.0.set(ms);
    }
}

/// The point `after` a moment of the worker time. One tick more, because the last one may be almost a tick ago: a deadline
/// may come late, never early.
#[inline]
pub(crate) fn after_ms(now_ms: u64, after: Duration) -> u64 {
    now_ms.saturating_add(millis(after)).saturating_add(TICK_MS)
}

/// A duration in milliseconds. In 64 bits, because this runs several times per request.
#[inline]
pub(crate) fn millis(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1000).saturating_add(u64::from(time.subsec_millis()))
}

/// A worker's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    now: Now,
    /// `Server: ...\r\nDate: ...\r\n`, of `date_second`.
    lines: RefCell<FieldLines>,
    server: RefCell<String>,
    date_second: Cell<u64>,
    unix_ms: Cell<u64>,
}

impl Clock {
    /// A clock whose lines name `server`.
    pub(crate) fn new(server: &str) -> Self {
        let clock = Self {
            start: Instant::now(),
            now: Now::default(),
            lines: RefCell::default(),
            server: RefCell::new(server.to_owned()),
            date_second: Cell::new(u64::MAX),
            unix_ms: Cell::new(0),
        };
        clock.tick();
        clock
    }

    /// Names another `server` in the lines from now on.
    pub(crate) fn set_server(&self, server: &str) {
        server.clone_into(&mut self.server.borrow_mut());
        self.date_second.set(u64::MAX);
        self.tick();
    }

    /// Reads the system's clocks.
    pub(crate) fn tick(&self) {
        self.now.set(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX));
        let wall = SystemTime::now();
        let since_epoch = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.unix_ms.set(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX));
        let second = since_epoch.as_secs();
        if self.date_second.replace(second) != second {
            let date = httpdate::fmt_http_date(wall);
            let mut lines = self.lines.borrow_mut();
            lines.clear();
            lines.push("Server", self.server.borrow().as_bytes());
            lines.push("Date", date.as_bytes());
        }
    }

    /// Milliseconds since the worker started, as of the last tick.
    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        self.now.ms()
    }

    /// The worker time, for those that read it by themselves.
    pub(crate) fn now(&self) -> Now {
        self.now.clone()
    }

    /// The point `after` the last tick.
    #[inline]
    pub(crate) fn deadline_ms(&self, after: Duration) -> u64 {
        after_ms(self.now_ms(), after)
    }

    /// Milliseconds since the Unix epoch, as of the last tick.
    #[inline]
    pub(crate) fn unix_ms(&self) -> u64 {
        self.unix_ms.get()
    }

    /// Appends the `Server` and `Date` lines.
    #[inline]
    pub(crate) fn write_lines(&self, out: &mut impl FieldSink) {
        out.lines(self.lines.borrow().all());
    }
}
