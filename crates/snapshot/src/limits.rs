//! Every bound of this crate in one place, with the sum that justifies it.

use std::time::Duration;

/// Changes that are taken together into one snapshot. A burst is published at once, and an endless stream of changes
/// still is every so often: at some 20 us a route, 4096 of them are 80 ms.
pub(crate) const COALESCED_CHANGES_MAX: usize = 4096;

/// Pause before the store is asked again after the first failure...
pub(crate) const RETRY_PAUSE_MIN: Duration = Duration::from_millis(100);

/// ...and at most, after failures in a row, each doubling it. Requests are served from the last snapshot meanwhile.
pub(crate) const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// How often replaced snapshots are looked at while some worker may still hold one. A worker without requests lets go
/// of its snapshot with its next request only, so there is nothing to gain from looking more often.
pub(crate) const SWEEP_PAUSE: Duration = Duration::from_secs(1);
