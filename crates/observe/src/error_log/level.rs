//! The levels of the error log.

use tracing::Metadata;

/// The target of events that nginx calls notices: those of a normal life, such as "ready" or a reload. Events at INFO
/// with this target are shown at `notice` too.
pub const NOTICE: &str = "notice";

/// The name of an event's level.
pub(crate) fn level_name(metadata: &Metadata<'_>) -> &'static str {
    match *metadata.level() {
        tracing::Level::ERROR => "error",
        tracing::Level::WARN => "warn",
        tracing::Level::INFO if metadata.target() == NOTICE => "notice",
        tracing::Level::INFO => "info",
        tracing::Level::DEBUG | tracing::Level::TRACE => "debug",
    }
}
