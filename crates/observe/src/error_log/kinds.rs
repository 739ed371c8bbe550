//! How often each kind of message is logged. A kind is a place in the code.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Metadata;
use tracing::callsite::Identifier;

use super::level::level_name;

/// The interval over which lines of a kind are counted...
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// ...and most lines of a kind in it. A port scan that fails 10,000 handshakes a second writes 10 lines of 150 bytes a
/// second: 130 MB a day, instead of 130 GB.
pub(super) const LINES_MAX: usize = 100;

/// Most bytes of a message that names its kind.
const NAME_BYTES_MAX: usize = 100;

/// Whether an event is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admitted {
    /// It is the first of its kind in an interval.
    First,
    /// It is a further one.
    Further,
}

/// The kinds of messages that were logged. There are as many as places in the code that log, some hundreds.
#[derive(Debug, Default)]
pub(super) struct Kinds(Mutex<HashMap<Identifier, Kind>>);

#[derive(Debug)]
struct Kind {
    since: Instant,
    lines: usize,
    suppressed: u64,
    level: &'static str,
    /// The message of the interval's first event.
    name: String,
}

impl Kinds {
    /// Counts an event; `None` where it is not to be logged. Debugging events have no limit.
    pub(super) fn admit(&self, metadata: &Metadata<'_>, now: Instant) -> Option<Admitted> {
        if *metadata.level() >= tracing::Level::DEBUG {
            return Some(Admitted::Further);
        }
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = kinds.entry(metadata.callsite()).or_insert_with(|| Kind {
            since: now,
            lines: 0,
            suppressed: 0,
            level: level_name(metadata),
            name: String::new(),
        });
        // What was suppressed is reported by the sweep, which then starts the next interval.
        if kind.suppressed == 0 && now.saturating_duration_since(kind.since) >= INTERVAL {
            (kind.since, kind.lines) = (now, 0);
        }
        kind.lines += 1;
        match kind.lines {
            1 => Some(Admitted::First),
            lines if lines <= LINES_MAX => Some(Admitted::Further),
            _ => {
                kind.suppressed += 1;
                None
            }
        }
    }

    /// Names a kind by the message of its first event in an interval.
    pub(super) fn name(&self, metadata: &Metadata<'_>, message: &str) {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = kinds.get_mut(&metadata.callsite()) {
            let end =
                (0..=NAME_BYTES_MAX.min(message.len())).rev().find(|end| message.is_char_boundary(*end));
            kind.name.clear();
            kind.name.push_str(message.get(..end.unwrap_or_default()).unwrap_or_default());
        }
    }

    /// Ends the intervals that are over at `now`, and gives the level and the report of each kind of which messages
    /// were suppressed.
    pub(super) fn sweep(&self, now: Instant, mut report: impl FnMut(&'static str, String)) {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in kinds.values_mut().filter(|kind| kind.suppressed > 0) {
            if now.saturating_duration_since(kind.since) >= INTERVAL {
                let seconds = now.saturating_duration_since(kind.since).as_secs();
                let Kind { suppressed, name, .. } = kind;
                report(
                    kind.level,
                    format!("{suppressed} similar messages suppressed in {seconds} s: {name}"),
                );
                (kind.since, kind.lines, kind.suppressed) = (now, 0, 0);
            }
        }
    }
}
