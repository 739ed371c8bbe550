//! The error log: what `tracing` reports, one line per event in nginx's form.
//!
//! `2026/11/02 12:00:00 [error] 4321#0: can't reach the store, error: timed out`

use crate::append::append_to;
use crate::local_time::LocalTime;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;

/// nginx's levels, from the most talkative. Events have four: `notice` shows as much as `info`, and from `error` on all
/// is the same.
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
    sink: Arc<Sink>,
    level: reload::Handle<LevelFilter, Registry>,
}

/// Where lines go.
#[derive(Debug)]
struct Sink {
    file: Option<LogFile>,
    stderr: bool,
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    /// Many write at once: in append mode one call is one line. Locked for one alone while the file is replaced.
    open: RwLock<File>,
}

impl ErrorLog {
    /// Opens the file at `path` for appending, its folder made where missing, and makes the subscriber that writes
    /// events of `level` and above there. Lines go to standard error as well where `with_stderr`, and there alone where
    /// the path is `/dev/stderr`.
    ///
    /// # Errors
    /// When the file can't be opened.
    pub fn open(
        path: &Path,
        level: Level,
        with_stderr: bool,
    ) -> io::Result<(Self, impl Subscriber + Send + Sync + 'static)> {
        let is_stderr = path.as_os_str() == "/dev/stderr";
        let file = if is_stderr { None } else { Some(LogFile::open(path)?) };
        let sink = Arc::new(Sink { file, stderr: with_stderr || is_stderr });
        let (filter, level) = reload::Layer::new(level.filter());
        let writer = Arc::clone(&sink);
        let lines = tracing_subscriber::fmt::layer()
            .event_format(Lines { zone: TimeZone::system() })
            .with_writer(move || Line(Arc::clone(&writer)));
        Ok((Self { sink, level }, tracing_subscriber::registry().with(filter).with(lines)))
    }

    /// Shows events of `level` and above from now on.
    pub fn set_level(&self, level: Level) {
        // Fails only where the subscriber is gone, and with it everything that could be shown.
        let _ = self.level.reload(level.filter());
    }

    /// Opens the file anew: what log rotation asks for.
    ///
    /// # Errors
    /// When it can't be opened; the old file stays in use then.
    pub fn reopen(&self) -> io::Result<()> {
        let Some(file) = &self.sink.file else { return Ok(()) };
        let fresh = append_to(&file.path)?;
        *file.open.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), open: RwLock::new(append_to(path)?) })
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

    fn filter(self) -> LevelFilter {
        match self {
            Self::Debug => LevelFilter::DEBUG,
            Self::Info | Self::Notice => LevelFilter::INFO,
            Self::Warn => LevelFilter::WARN,
            Self::Error | Self::Crit | Self::Alert | Self::Emerg => LevelFilter::ERROR,
        }
    }
}

/// One event's way into the log.
struct Line(Arc<Sink>);

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Sink { file, stderr } = &*self.0;
        let written = match file {
            Some(file) => (&*file.open.read().unwrap_or_else(PoisonError::into_inner)).write(line)?,
            None => line.len(),
        };
        if *stderr {
            io::stderr().write_all(line.get(..written).unwrap_or(line))?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The form of a line.
struct Lines {
    zone: TimeZone,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let time = LocalTime::at(Timestamp::now().as_second(), &self.zone).error_log;
        let level = match *event.metadata().level() {
            tracing::Level::ERROR => "error",
            tracing::Level::WARN => "warn",
            tracing::Level::INFO => "info",
            tracing::Level::DEBUG | tracing::Level::TRACE => "debug",
        };
        let mut fields = Fields::default();
        event.record(&mut fields);
        // nginx's second number is the thread; ours have names instead.
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("0");
        let pid = std::process::id();
        writeln!(out, "{time} [{level}] {pid}#{thread}: {}{}", fields.message, fields.rest)
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
    fn levels_go_by_nginx_names() {
        let shown_of_four = [4, 3, 3, 2, 1, 1, 1, 1];
        for ((name, level), shown) in Level::NAMES.into_iter().zip(shown_of_four) {
            let lines = logged(level, |_| {
                tracing::debug!("d");
                tracing::info!("i");
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
            let path = &log.sink.file.as_ref().expect("a file").path;
            std::fs::rename(path, path.with_extension("1")).expect("renamed");
            log.reopen().expect("opens");
            tracing::error!("after");
        });
        assert_eq!(lines.len(), 1);
        assert!(lines[0].ends_with("after"));
    }
}
