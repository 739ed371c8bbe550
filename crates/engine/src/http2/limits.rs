//! What a client's HTTP/2 connection may ask for, and when it asks for too much.

use h2::Reason;
use h2::server::Builder;
use std::time::Duration;

/// Requests under way on a connection; nginx's `http2_max_concurrent_streams`. Each has 40 KiB for its head and up to 64
/// KiB of its body or response: 128 x (40 + 64 + 64) KiB = 21 MiB at worst.
const STREAMS_MAX: u32 = 128;

/// The fields of a request, names and values with 32 bytes each (RFC 9113 section 6.5.2): as much as an HTTP/1.1 head
/// may have. Longer ones are answered with 431, endless ones end the connection.
const HEADER_LIST_MAX: u32 = wire::http1::HEAD_MAX as u32;

/// What a client may send of one body before it is taken: 256 KiB per round trip, 100 Mbit/s at 20 ms.
const STREAM_WINDOW: u32 = 256 * 1024;

/// And of all bodies of a connection: what an upload that nobody takes can hold of the gateway's memory.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Bytes of one response that wait for the connection.
const SEND_BUFFER: usize = 64 * 1024;

/// Requests that were reset before their turn came (CVE-2023-44487). They cost no more than their frames, and a browser
/// that leaves a page resets those it has begun: as many as may be under way.
const RESET_EARLY_MAX: usize = STREAMS_MAX as usize;

/// Streams that the gateway itself has to reset because of what came on them.
const RESET_BY_US_MAX: usize = 128;

/// Requests after which a connection's habits are looked at: four times as many as may be under way.
const LOOK_AFTER: u64 = 4 * STREAMS_MAX as u64;

/// Control frames that a peer may send at once, without an exchange that asks for them: see
/// [`super::budget::ControlBudget`]. Browsers begin with less than ten; 1,000 cost less than a millisecond.
pub(super) const CONTROL_BURST: u32 = 1000;

/// Control frames that it may send per second for as long as it likes: pings of an impatient client. 100 per second cost
/// 0.01 % of a core.
pub(super) const CONTROL_PER_SECOND: u32 = 100;

/// Control frames that each request (or an upstream's response) entitles to: PRIORITY, WINDOW_UPDATE, RST_STREAM, and two
/// CONTINUATION, which is all that [`HEADER_LIST_MAX`] takes, leave some to spare.
pub(super) const CONTROL_PER_HEADERS: u32 = 8;

/// Control frames that each HEADERS or DATA frame sent to the peer entitles to: a WINDOW_UPDATE for the stream, one for
/// the connection, a PING, and one to spare.
pub(super) const CONTROL_PER_SENT: u32 = 4;

/// Control frames that may be earned ahead: for 16,384 frames under way, 256 MiB in full ones, which is 20 Gbit/s at 100 ms.
pub(super) const CONTROL_MAX: u32 = 16 * 1024 * CONTROL_PER_SENT;

/// How long a connection that was told to end may still take to hang up.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// A connection's settings.
pub(super) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_LIST_MAX)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_pending_accept_reset_streams(RESET_EARLY_MAX)
        .max_local_error_reset_streams(Some(RESET_BY_US_MAX));
    builder
}

/// Whether a client that has sent `requests` and taken `cut` of them back before they were answered does little else.
pub(super) fn is_rapid(requests: u64, cut: u64) -> bool {
    requests >= LOOK_AFTER && cut > requests / 2
}

/// A reason as the metric's label has it (RFC 9113 section 7).
pub(super) fn name(reason: Reason) -> &'static str {
    match reason {
        Reason::PROTOCOL_ERROR => "protocol_error",
        Reason::FLOW_CONTROL_ERROR => "flow_control_error",
        Reason::FRAME_SIZE_ERROR => "frame_size_error",
        Reason::COMPRESSION_ERROR => "compression_error",
        Reason::STREAM_CLOSED => "stream_closed",
        Reason::ENHANCE_YOUR_CALM => "enhance_your_calm",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_most_requests_back_is_told_to_calm_down() {
        for (requests, cut, rapid) in
            [(10, 10, false), (511, 511, false), (512, 256, false), (512, 257, true), (10_000, 4_000, false)]
        {
            assert_eq!(is_rapid(requests, cut), rapid, "{cut} of {requests}");
        }
    }
}
