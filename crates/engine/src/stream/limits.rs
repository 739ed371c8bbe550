//! Every bound of sessions in one place, with the sum that justifies it. How many there are at once is bounded by
//! `worker_connections`, together with HTTP's connections.

use std::time::Duration;

/// Bytes of a TCP session that hooks may look at before its upstream is chosen: nginx's `preread_buffer_size`.
pub(super) const PREREAD_MAX: usize = 16 * 1024;

/// How long a client may take to send what hooks wait for, and before that a PROXY protocol header: nginx's
/// `preread_timeout` and `proxy_protocol_timeout`, and their default.
pub(super) const PREREAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest datagram: what a UDP length field can say.
pub(super) const DATAGRAM_MAX: usize = 64 * 1024;

/// Datagrams that wait while their session's node is being reached; further ones are lost, as in any full queue of the
/// network. With 10,620 sessions of 16 datagrams of 1,472 bytes that is 250 MB at the very worst.
pub(super) const WAITING_MAX: usize = 16;
