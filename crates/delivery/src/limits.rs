//! The bounds of everything here.

use std::time::Duration;

/// Bytes of entries that wait, for each kind of logger: 8,192 entries, APISIX's bound, of 8 KiB. Entries with bodies may
/// have a megabyte, so their number alone bounds nothing.
pub(crate) const PENDING_BYTES_MAX: usize = 64 << 20;

/// Threads that send. A collector that doesn't answer holds [`IN_FLIGHT_MAX`] of them for as long as its timeout says.
pub(crate) const SENDERS_MAX: usize = 32;

/// Batches of one configuration that are sent at the same time: what one slow answer holds up is not everything.
pub(crate) const IN_FLIGHT_MAX: usize = 4;

/// Bytes of a collector's answer that are looked at, for the error log.
pub(crate) const ANSWER_BYTES_MAX: u64 = 1 << 10;

/// How often at most drops are told.
pub(crate) const DROPS_TOLD_EVERY: Duration = Duration::from_secs(1);
