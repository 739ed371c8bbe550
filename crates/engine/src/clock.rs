//! The worker's time: coarse, advanced by the tick, and the lines of responses that go with it.

use crate::timer::TICK;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant, SystemTime};

const TICK_MS: u64 = TICK.as_millis() as u64;

/// A worker's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    now_ms: Cell<u64>,
    /// `Server: ...\r\nDate: ...\r\n`, of `date_second`.
    lines: RefCell<Vec<u8>>,
    server: RefCell<String>,
    date_second: Cell<u64>,
    unix_ms: Cell<u64>,
}

impl Clock {
    /// A clock whose lines name `server`.
    pub(crate) fn new(server: &str) -> Self {
        let clock = Self {
            start: Instant::now(),
            now_ms: Cell::new(0),
            lines: RefCell::new(Vec::new()),
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
        self.now_ms.set(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX));
        let wall = SystemTime::now();
        let since_epoch = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.unix_ms.set(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX));
        let second = since_epoch.as_secs();
        if self.date_second.replace(second) != second {
            let date = httpdate::fmt_http_date(wall);
            *self.lines.borrow_mut() =
                format!("Server: {}\r\nDate: {date}\r\n", self.server.borrow()).into_bytes();
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
        // One tick more, because the last one may be almost a tick ago: a deadline may come late, never early. In 64
        // bits, because this runs several times per request: 584 million years are enough.
        let after_ms = after.as_secs().wrapping_mul(1000).wrapping_add(u64::from(after.subsec_millis()));
        self.now_ms.get().wrapping_add(after_ms).wrapping_add(TICK_MS)
    }

    /// Milliseconds since the Unix epoch, as of the last tick.
    #[inline]
    pub(crate) fn unix_ms(&self) -> u64 {
        self.unix_ms.get()
    }

    /// Appends the `Server` and `Date` lines.
    #[inline]
    pub(crate) fn write_lines(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lines.borrow());
    }
}
