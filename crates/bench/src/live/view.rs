//! The live view: on a terminal one line that is written anew, elsewhere a plain line now and then.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::load::{Control, Nanos, Plan, now};

/// How often the end of a run is looked for.
const POLL: Duration = Duration::from_millis(20);

/// How often a terminal's line is written anew.
const REDRAW: Duration = Duration::from_millis(200);

/// Elsewhere there are about this many lines a run, and at most one in [`PLAIN_MIN`].
const PLAIN_LINES: u32 = 10;
const PLAIN_MIN: Duration = Duration::from_secs(2);

/// Cells of the bar.
const BAR: usize = 20;

/// Where and how runs are shown.
#[derive(Debug, Clone, Copy)]
pub struct View {
    quiet: bool,
    terminal: bool,
    colour: bool,
}

impl View {
    /// On stderr, so that stdout has the results alone.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let terminal = io::stderr().is_terminal() && !dumb;
        // https://no-color.org: set and not empty.
        let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { quiet, terminal, colour }
    }

    /// Begins to show a run.
    #[must_use]
    pub fn begin(&self, plan: &Plan, label: &str) -> Shown {
        let every = if self.terminal { REDRAW } else { (plan.duration / PLAIN_LINES).max(PLAIN_MIN) };
        Shown {
            view: *self,
            label: label.to_owned(),
            warmup: plan.warmup,
            duration: plan.duration,
            every,
            next: Instant::now() + every,
            last: (0, 0),
        }
    }
}

/// A run that is shown.
#[derive(Debug)]
pub struct Shown {
    view: View,
    label: String,
    warmup: Duration,
    duration: Duration,
    every: Duration,
    next: Instant,
    /// Requests and time at the last line.
    last: (u64, Nanos),
}

impl Shown {
    /// Waits a moment, and shows where the run is if it is time to.
    pub fn tick(&mut self, control: &Control) {
        std::thread::sleep(POLL);
        if self.view.quiet || Instant::now() < self.next {
            return;
        }
        self.next += self.every;
        let Some(line) = self.line(control, now()) else { return };
        let mut stderr = io::stderr().lock();
        // Where stderr is closed there is nobody to show it to.
        let _ = if self.view.terminal {
            write!(stderr, "\r\x1b[2K{line}").and_then(|()| stderr.flush())
        } else {
            writeln!(stderr, "{line}")
        };
    }

    /// Takes the line away.
    pub fn end(&mut self) {
        if self.view.terminal && !self.view.quiet {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }

    fn line(&mut self, control: &Control, at: Nanos) -> Option<String> {
        let sum = |of: fn(&crate::load::Progress) -> u64| control.threads.iter().map(of).sum::<u64>();
        let begun = control.threads.iter().map(|thread| thread.begun.load(Relaxed)).max().unwrap_or_default();
        if begun == 0 {
            return Some(format!("{}connecting", prefix(&self.label)));
        }
        let elapsed = Duration::from_nanos(at.saturating_sub(begun));
        if elapsed < self.warmup {
            return Some(format!("{}warming up", prefix(&self.label)));
        }
        let measured = (elapsed - self.warmup).min(self.duration);
        let requests = sum(|thread| thread.requests.load(Relaxed));
        let errors = sum(|thread| thread.errors.load(Relaxed));
        let (before, then) = std::mem::replace(&mut self.last, (requests, at));
        let since = if then == 0 { measured.as_secs_f64() } else { at.saturating_sub(then) as f64 / 1e9 };
        let rate = requests.saturating_sub(before) as f64 / since.max(1e-3);
        let worst = |of: fn(&crate::load::Progress) -> u64| {
            control.threads.iter().map(of).max().unwrap_or_default() as f64 / 1e6
        };
        let bar = if self.view.terminal { self.bar(measured) } else { String::new() };
        Some(format!(
            "{}{bar}{rate:.0} requests/s, p50 {:.2} ms, p99 {:.2} ms, {errors} errors, {:.0} s left",
            prefix(&self.label),
            worst(|thread| thread.p50_ns.load(Relaxed)),
            worst(|thread| thread.p99_ns.load(Relaxed)),
            (self.duration - measured).as_secs_f64()
        ))
    }

    fn bar(&self, measured: Duration) -> String {
        let share = measured.as_secs_f64() / self.duration.as_secs_f64().max(1e-9);
        let full = ((share * BAR as f64) as usize).min(BAR);
        let (on, off) = if self.view.colour { ("\x1b[36m", "\x1b[0m") } else { ("", "") };
        format!("[{on}{}{off}{}] ", "=".repeat(full), " ".repeat(BAR - full))
    }
}

fn prefix(label: &str) -> String {
    if label.is_empty() { String::new() } else { format!("{label}: ") }
}
