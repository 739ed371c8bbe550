//! Every bound of the store in one place, with the sum that justifies it.

use std::time::Duration;

/// Longest key in bytes. The deepest APISIX key is `/consumers/NAME/credentials/ID`, with ids of at most 64 bytes.
pub const KEY_BYTES_MAX: usize = 512;

/// Largest value in bytes: 1.5 MiB, the body limit of APISIX's Admin API and etcd's default request limit.
pub const VALUE_BYTES_MAX: usize = 1_572_864;

/// Most preconditions, and most operations, of one transaction: etcd's default `--max-txn-ops`.
pub const TXN_OPS_MAX: usize = 128;

/// Most bytes of keys and values that one transaction writes: two of the largest values and room for the rest.
pub const TXN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most preconditions, and most operations, of one transaction of the embedded store, which shares no limit with etcd:
/// a whole configuration of ten thousand routes with what they refer to is replaced in one revision.
pub const EMBEDDED_TXN_OPS_MAX: usize = 16_384;

/// Most bytes that one transaction of the embedded store writes: 16,384 resources of 1 KiB, which is their usual size.
/// The Admin API runs such transactions one at a time, so that the queue never holds several of them.
pub const EMBEDDED_TXN_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Longest name of an actor in bytes.
pub const ACTOR_BYTES_MAX: usize = 256;

/// Transactions waiting for the writer; one more waits in its caller. 64 x [`TXN_BYTES_MAX`] = 256 MiB at the very
/// worst, and 64 routes of 1 KiB = 64 KiB in practice.
pub const QUEUE_MAX: usize = 64;

/// Revisions kept unless configured otherwise: ten thousand changes are months of a person's work, and a few
/// minutes of a controller that never stops; a watch that falls further behind lists anew.
pub const HISTORY_REVISIONS: u64 = 10_000;

/// Bytes of replaced values kept, unless configured otherwise, so that ten thousand large values don't fill a disk.
pub const HISTORY_BYTES: u64 = 64 * 1024 * 1024;

/// Most revisions that one call of `history` answers.
pub const HISTORY_PAGE_MAX: usize = 1_000;

/// Revisions that a watch reads at once; a watch has no queue of its own, so this bounds its memory...
pub const WATCH_REVISIONS_MAX: usize = 256;

/// ...together with this: it stops reading ahead after so many bytes of values (and at least one revision).
pub const WATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How late an entry may outlive its time to live. etcd counts leases in seconds; half of one is finer than that.
pub const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// How often an idle embedded store looks whether its file is still there. Each write looks as well.
pub const PRESENCE_INTERVAL: Duration = Duration::from_secs(1);

/// Expired keys deleted in one revision; more of them take further revisions of the same commit.
pub const SWEEP_KEYS_MAX: usize = TXN_OPS_MAX;

/// Longest time to live: ten years; what should last longer has none.
pub const TTL_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Pages of the file kept in memory by the embedded backend. Reads beyond it come from the kernel's page cache.
pub const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// How long a start waits for the centre's first answer while it could go on with what the disk has.
pub const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// Pause before a centre that was lost is asked again...
pub const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(100);

/// ...and at most, each failure doubling it: a fleet of 100 nodes asks 50 to 100 times a second.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Least time between two writes of the configuration in force to the disk: 100,000 routes are 100 MB, and a fleet's
/// changes may come without end.
pub const SAVE_PAUSE: Duration = Duration::from_secs(5);

/// Pause between two looks at a rejected config source: one read of its revision each.
pub const RECHECK_PAUSE: Duration = Duration::from_secs(1);

/// Least time between two full listings of a rejected config source whose revision rises: 100 MB each for 100,000 routes.
pub const RELIST_PAUSE: Duration = Duration::from_secs(10);

/// Pause between two log lines that say that the config source is rejected.
pub const REJECTED_LOG_PAUSE: Duration = Duration::from_secs(60);

/// How long an acceptance waits until the accepted configuration is loaded: a listing of 100,000 routes takes a second.
pub const ACCEPT_WAIT: Duration = Duration::from_secs(15);
