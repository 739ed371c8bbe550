//! The error log: nginx's line format and levels, on `tracing`.
//!
//! A line is made in memory and written with one call to a file in append mode, so workers need no lock between them
//! and lines never mix.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::writer::MakeWriterExt;
use tracing_subscriber::fmt::{FmtContext, SubscriberBuilder};
use tracing_subscriber::registry::LookupSpan;

use crate::config::Settings;
use crate::config::settings::LogLevel;
use crate::launch::Launch;

/// Opens the log and sends everything that is traced there. In the foreground stderr gets the lines as well, unless the
/// configuration names an error log.
pub fn open(settings: &Settings, launch: &Launch) -> anyhow::Result<()> {
    let path = launch.resolve(&settings.logs.error_log);
    let file = Arc::new(append(&path)?);
    let builder = SubscriberBuilder::default()
        .with_max_level(filter(settings.logs.level))
        .with_ansi(false)
        .event_format(NginxLine);
    let installed = if launch.detached || settings.logs.error_log_named {
        tracing::subscriber::set_global_default(builder.with_writer(file).finish())
    } else {
        tracing::subscriber::set_global_default(builder.with_writer(file.and(io::stderr)).finish())
    };
    installed.context("the error log was opened twice")
}

/// Opens a log for appending, with the directories above it.
pub fn append(path: &Path) -> anyhow::Result<File> {
    let fail = || format!("the log {} can't be written", path.display());
    if let Some(above) = path.parent() {
        fs::create_dir_all(above).with_context(fail)?;
    }
    OpenOptions::new().create(true).append(true).open(path).with_context(fail)
}

/// nginx has eight levels and tracing five: notice is told with info, and what is worse than an error with errors.
fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info | LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error | LogLevel::Crit | LogLevel::Alert | LogLevel::Emerg => LevelFilter::ERROR,
    }
}

/// `2026/11/30 12:00:00 [warn] 4711: message key=value`, in local time.
struct NginxLine;

impl<S, N> FormatEvent<S, N> for NginxLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let now = date_time(Timestamp::now(), TimeZone::system());
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG | Level::TRACE => "debug",
        };
        write!(writer, "{now} [{level}] {}: ", std::process::id())?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Date and time as nginx writes them.
fn date_time(now: Timestamp, zone: TimeZone) -> String {
    now.to_zoned(zone).strftime("%Y/%m/%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_in_the_zone() {
        let at = Timestamp::from_second(951_782_399).unwrap();
        assert_eq!(date_time(at, TimeZone::UTC), "2000/02/28 23:59:59");
        assert_eq!(date_time(at, TimeZone::fixed(jiff::tz::offset(2))), "2000/02/29 01:59:59");
    }

    #[test]
    fn a_line_is_nginxs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/error.log");
        let builder = SubscriberBuilder::default().with_max_level(filter(LogLevel::Warn)).with_ansi(false);
        let subscriber =
            builder.event_format(NginxLine).with_writer(Arc::new(append(&path).unwrap())).finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(upstream = "127.0.0.1:1980", "connect failed");
            tracing::info!("not shown");
        });
        let text = fs::read_to_string(path).unwrap();
        let expected =
            format!(" [warn] {}: connect failed upstream=\"127.0.0.1:1980\"\n", std::process::id());
        assert!(text.ends_with(&expected) && text.lines().count() == 1, "{text}");
    }
}
