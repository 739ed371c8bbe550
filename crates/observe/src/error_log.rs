//! The error log: what `tracing` reports, one line per event in nginx's form.
//!
//! `2026/11/02 12:00:00 [error] 4321#0: can't reach the store, error: timed out`
//!
//! Clients can cause events, a failed handshake for instance. So lines are written by a thread of their own with a
//! bounded queue, and each kind of message has a limit of lines per interval.

mod kinds;
mod level;
mod writer;

pub use level::NOTICE;
pub(crate) use level::level_name;

use crate::append::append_to;
use crate::local_time::LocalTime;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use kinds::{Admitted, Kinds};
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;
use writer::Writer as LogWriter;

/// How long [`ErrorLog::flush`] waits: longer than a disk takes for the whole queue.
const FLUSH_WAIT: Duration = Duration::from_secs(2);

/// nginx's levels, from the most talkative. Events have five: from `error` on all is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are nginx's and say it all")]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warn,
    Error,
    Crit,
    Alert,
    Emerg,
}

/// A handle to an open error log: what a reload changes.
#[derive(Debug, Clone)]
pub struct ErrorLog {
    /// `None` where lines go to standard error alone.
    path: Option<PathBuf>,
    writer: Arc<LogWriter>,
    level: reload::Handle<Targets, Registry>,
}

impl ErrorLog {
    /// Opens the file at `path` for appending, its folder made where missing, and makes the subscriber that writes
    /// events of `level` and above there. Lines go to standard error as well where `with_stderr`, and there alone where
    /// the path is `/dev/stderr`. A thread writes them: whoever logs doesn't wait for a disk or a pipe.
    ///
    /// # Errors
    /// When the file can't be opened, or no thread can be started.
    pub fn open(
        path: &Path,
        level: Level,
        with_stderr: bool,
    ) -> io::Result<(Self, impl Subscriber + Send + Sync + 'static)> {
        let is_stderr = path.as_os_str() == "/dev/stderr";
        let path = (!is_stderr).then(|| path.to_owned());
        let file = path.as_deref().map(append_to).transpose()?;
        let stderr: Option<Box<dyn Write + Send>> =
            if with_stderr || is_stderr { Some(Box::new(io::stderr())) } else { None };
        let kinds = Arc::new(Kinds::default());
        let writer = Arc::new(LogWriter::start(file, stderr, Arc::clone(&kinds))?);
        let (filter, level) = reload::Layer::new(level.filter());
        let lines = Arc::clone(&writer);
        let lines = tracing_subscriber::fmt::layer()
            .event_format(Lines { zone: TimeZone::system(), kinds })
            .fmt_fields(SpanFields)
            .with_writer(move || Line(Arc::clone(&lines)));
        Ok((Self { path, writer, level }, tracing_subscriber::registry().with(filter).with(lines)))
    }

    /// Shows events of `level` and above from now on.
    pub fn set_level(&self, level: Level) {
        // Fails only where the subscriber is gone, and with it everything that could be shown.
        let _ = self.level.reload(level.filter());
    }

    /// Opens the file again: what log rotation asks for.
    ///
    /// # Errors
    /// When it can't be opened; the old file stays in use then.
    pub fn reopen(&self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        self.writer.replace(append_to(path)?);
        Ok(())
    }

    /// Waits until the lines logged so far are written, for a bounded time: a stalled pipe doesn't keep the process
    /// from ending.
    pub fn flush(&self) {
        self.writer.flush(FLUSH_WAIT);
    }
}

impl Level {
    /// Every level by nginx's name.
    pub const NAMES: [(&'static str, Self); 8] = [
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("notice", Self::Notice),
        ("warn", Self::Warn),
        ("error", Self::Error),
        ("crit", Self::Crit),
        ("alert", Self::Alert),
        ("emerg", Self::Emerg),
    ];

    fn filter(self) -> Targets {
        let all = |level: LevelFilter| Targets::new().with_default(level);
        match self {
            Self::Debug => all(LevelFilter::DEBUG),
            Self::Info => all(LevelFilter::INFO),
            Self::Notice => all(LevelFilter::WARN).with_target(NOTICE, LevelFilter::INFO),
            Self::Warn => all(LevelFilter::WARN),
            Self::Error | Self::Crit | Self::Alert | Self::Emerg => all(LevelFilter::ERROR),
        }
    }
}

/// One event's way into the log.
struct Line(Arc<LogWriter>);

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.offer(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The form of a line.
struct Lines {
    zone: TimeZone,
    kinds: Arc<Kinds>,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(admitted) = self.kinds.admit(event.metadata(), Instant::now()) else { return Ok(()) };
        let time = LocalTime::at(Timestamp::now().as_second(), &self.zone).error_log;
        let level = level_name(event.metadata());
        let mut fields = Fields::default();
        event.record(&mut fields);
        if admitted == Admitted::First {
            self.kinds.name(event.metadata(), &fields.message);
        }
        // nginx's second number is the thread; ours have names instead.
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("0");
        let pid = std::process::id();
        write!(out, "{time} [{level}] {pid}#{thread}: {}{}", fields.message, fields.rest)?;
        for span in context.event_scope().into_iter().flatten() {
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                write!(out, "{}", fields.fields)?;
            }
        }
        writeln!(out)
    }
}

/// The form of a span's fields: as an event's own, behind these.
struct SpanFields;

impl<'w> FormatFields<'w> for SpanFields {
    fn format_fields<R: RecordFields>(&self, mut out: Writer<'w>, span: R) -> fmt::Result {
        let mut fields = Fields::default();
        span.record(&mut fields);
        write!(out, "{}", fields.rest)
    }
}

/// An event's message and its other fields, line breaks escaped: an event is one line, whatever a client sent.
#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = OneLine(format!("{value:?}"));
        let written = if field.name() == "message" {
            write!(self.message, "{text}")
        } else {
            write!(self.rest, ", {}: {text}", field.name())
        };
        debug_assert!(written.is_ok(), "a String takes everything");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

struct OneLine(String);

impl fmt::Display for OneLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the log holds after `events` ran under `level`.
    fn logged(level: Level, events: impl FnOnce(&ErrorLog)) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("logs/error.log");
        let (log, subscriber) = ErrorLog::open(&path, level, false).expect("opens");
        tracing::subscriber::with_default(subscriber, || events(&log));
        log.flush();
        std::fs::read_to_string(path).expect("written").lines().map(str::to_owned).collect()
    }

    #[test]
    fn an_event_is_one_line_with_time_level_message_and_fields() {
        let lines = logged(Level::Warn, |_| {
            tracing::warn!(path = "/a\r\nb", count = 3, "odd\nrequest");
            tracing::info!("not shown");
            tracing::error!(error = %io::Error::other("broken"), "can't read");
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        let (time, rest) = lines[0].split_once(" [warn] ").expect("a level");
        assert_eq!(time.len(), "2026/11/02 12:00:00".len());
        let (_, message) = rest.split_once(": ").expect("a message");
        assert_eq!(message, r"odd\nrequest, path: /a\r\nb, count: 3");
        assert!(lines[1].ends_with(": can't read, error: broken"), "{}", lines[1]);
    }

    #[test]
    fn a_line_says_what_its_span_is_about() {
        let lines = logged(Level::Warn, |_| {
            let span =
                tracing::error_span!("exchange", client = "::1\n", route = None::<&str>, upstream = "a:80");
            span.in_scope(|| tracing::warn!(tries = 2, "timed out"));
            tracing::warn!("nothing");
        });
        assert!(lines[0].ends_with(r": timed out, tries: 2, client: ::1\n, upstream: a:80"), "{}", lines[0]);
        assert!(lines[1].ends_with(": nothing"), "{}", lines[1]);
    }

    #[test]
    fn levels_go_by_nginx_names() {
        let shown_of_five = [5, 4, 3, 2, 1, 1, 1, 1];
        for ((name, level), shown) in Level::NAMES.into_iter().zip(shown_of_five) {
            let lines = logged(level, |_| {
                tracing::debug!("d");
                tracing::info!("i");
                tracing::info!(target: NOTICE, "n");
                tracing::warn!("w");
                tracing::error!("e");
            });
            assert_eq!(lines.len(), shown, "{name}");
        }
    }

    #[test]
    fn a_changed_level_holds_for_the_next_event() {
        let lines = logged(Level::Warn, |log| {
            for level in [Level::Warn, Level::Info, Level::Error] {
                log.set_level(level);
                tracing::info!("shown at {level:?}");
            }
        });
        assert_eq!(lines.len(), 1);
        assert!(lines[0].ends_with("shown at Info"));
    }

    #[test]
    fn after_rotation_events_go_to_the_new_file() {
        let lines = logged(Level::Error, |log| {
            tracing::error!("before");
            log.flush();
            let path = log.path.as_ref().expect("a file");
            std::fs::rename(path, path.with_extension("1")).expect("renamed");
            log.reopen().expect("opens");
            tracing::error!("after");
        });
        assert_eq!(lines.len(), 1);
        assert!(lines[0].ends_with("after"));
    }

    #[test]
    fn a_kind_of_message_that_comes_too_often_is_counted_instead() {
        let lines = logged(Level::Warn, |_| {
            for n in 0..1000 {
                tracing::error!(n, "handshake failed");
            }
            tracing::error!("something else");
        });
        assert_eq!(lines.len(), kinds::LINES_MAX + 1, "{:?}", lines.last());
        assert!(lines.last().expect("a line").ends_with(": something else"));
    }
}
