//! What a socket has been given and the other side has not acknowledged.

use rustix::ioctl::{Getter, Opcode, ioctl};
use std::ffi::c_int;
use tokio::net::TcpStream;

/// `SIOCOUTQ` of tcp(7): the bytes that are not acknowledged, unsent ones among them.
const SIOCOUTQ: Opcode = 0x5411;

/// So many bytes; `None` where the socket can't say.
#[allow(unsafe_code, reason = "an ioctl's number alone says what it writes")]
pub(crate) fn unacknowledged(stream: &TcpStream) -> Option<u64> {
    // SAFETY: SIOCOUTQ reads nothing and writes one int.
    let count = unsafe { ioctl(stream, Getter::<SIOCOUTQ, c_int>::new()) };
    count.ok().and_then(|count| u64::try_from(count).ok())
}
