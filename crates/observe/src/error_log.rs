//! The error log: what `tracing` reports, one line per event in nginx's form.
//!
//! `2026/11/02 12:00:00 [error] 4321#0: can't reach the store, error: timed out`

use crate::access_log::append_to;
use crate::local_time::LocalTime;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

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

/// An open error log.
#[derive(Debug, Clone)]
pub struct ErrorLog {
    sink: Arc<Sink>,
}

#[derive(Debug)]
struct Sink {
    /// `None` for standard error.
    path: Option<PathBuf>,
    file: Mutex<Option<File>>,
}

impl ErrorLog {
    /// Opens the file at `path` for appending, its folder made where missing; standard error for `None` and for
    /// `/dev/stderr`.
    ///
    /// # Errors
    /// When the file can't be opened.
    pub fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let path = path.filter(|path| path.as_os_str() != "/dev/stderr");
        let file = path.as_deref().map(append_to).transpose()?;
        Ok(Self { sink: Arc::new(Sink { path, file: Mutex::new(file) }) })
    }

    /// A subscriber that writes events of `level` and above here.
    #[must_use]
    pub fn subscriber(&self, level: Level) -> impl Subscriber + Send + Sync + 'static {
        let sink = Arc::clone(&self.sink);
        tracing_subscriber::fmt()
            .with_max_level(level.filter())
            .event_format(Lines { zone: TimeZone::system() })
            .with_writer(move || Line(Arc::clone(&sink)))
            .finish()
    }

    /// Makes this the process's error log.
    ///
    /// # Errors
    /// When the process has one already.
    pub fn install(&self, level: Level) -> Result<(), tracing::subscriber::SetGlobalDefaultError> {
        tracing::subscriber::set_global_default(self.subscriber(level))
    }

    /// Opens the file anew: what log rotation asks for.
    ///
    /// # Errors
    /// When it can't be opened; the old file stays in use then.
    pub fn reopen(&self) -> io::Result<()> {
        let Some(path) = &self.sink.path else { return Ok(()) };
        let fresh = append_to(path)?;
        *self.sink.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
        Ok(())
    }
}

impl Level {
    fn filter(self) -> tracing::level_filters::LevelFilter {
        use tracing::level_filters::LevelFilter;
        match self {
            Self::Debug => LevelFilter::DEBUG,
            Self::Info | Self::Notice => LevelFilter::INFO,
            Self::Warn => LevelFilter::WARN,
            Self::Error | Self::Crit | Self::Alert | Self::Emerg => LevelFilter::ERROR,
        }
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "debug" => Self::Debug,
            "info" => Self::Info,
            "notice" => Self::Notice,
            "warn" => Self::Warn,
            "error" => Self::Error,
            "crit" => Self::Crit,
            "alert" => Self::Alert,
            "emerg" => Self::Emerg,
            _ => {
                return Err(format!(
                    "unknown log level `{name}`: one of debug, info, notice, warn, error, crit, alert, emerg"
                ));
            }
        })
    }
}

/// One event's way into the log.
struct Line(Arc<Sink>);

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match &mut *self.0.file.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => file.write(line),
            None => io::stderr().write(line),
        }
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
        let log = ErrorLog::open(Some(path.clone())).expect("opens");
        tracing::subscriber::with_default(log.subscriber(level), || events(&log));
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
        for (name, shown) in
            [("debug", 4), ("info", 3), ("notice", 3), ("warn", 2), ("error", 1), ("emerg", 1)]
        {
            let level = name.parse().expect("a level");
            let lines = logged(level, |_| {
                tracing::debug!("d");
                tracing::info!("i");
                tracing::warn!("w");
                tracing::error!("e");
            });
            assert_eq!(lines.len(), shown, "{name}");
        }
        assert!("loud".parse::<Level>().is_err());
    }

    #[test]
    fn after_rotation_events_go_to_the_new_file() {
        let lines = logged(Level::Error, |log| {
            tracing::error!("before");
            let path = log.sink.path.as_deref().expect("a file");
            std::fs::rename(path, path.with_extension("1")).expect("renamed");
            log.reopen().expect("opens");
            tracing::error!("after");
        });
        assert_eq!(lines.len(), 1);
        assert!(lines[0].ends_with("after"));
    }
}
