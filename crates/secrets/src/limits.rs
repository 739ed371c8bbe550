//! Every bound of this crate in one place, with the sum that justifies it.

use std::time::Duration;

/// Bytes of a secret manager's answer. Secrets are keys and certificates: AWS and Google allow 64 KiB a secret, and
/// base64 and JSON make less than twice that of it; Vault's own request limit is 32 MiB, of which no reference needs
/// more than one secret.
pub(crate) const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// How long one call of a manager may take, connecting included: APISIX's timeout for Vault.
pub(crate) const CALL_TIME_MAX: Duration = Duration::from_secs(5);

/// Threads that ask managers. With calls of 5 ms, four of them learn 800 values a second; they are started by the first
/// reference to a manager.
pub(crate) const ASKING_THREADS: usize = 4;

/// How long the making of a snapshot waits for values not known yet. An Admin API answer waits a second for the
/// snapshot, and most managers answer within milliseconds; what comes later makes a snapshot of its own.
pub(crate) const FIRST_WAIT_MAX: Duration = Duration::from_millis(800);

/// The same for the first snapshot: nothing is served before it, so patience costs nobody a wrong answer.
pub(crate) const START_WAIT_MAX: Duration = Duration::from_secs(5);

/// Depth to which values are searched for references: as deep as the JSON parser goes.
pub(crate) const VALUE_DEPTH_MAX: usize = 128;

/// Names of one AWS secret that are tried: each slash of a reference may begin the field's name. Real names have a few.
pub(crate) const AWS_NAMES_MAX: usize = 16;

/// Access tokens of Google that are kept: one a service account.
pub(crate) const TOKENS_MAX: usize = 64;
