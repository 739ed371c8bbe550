//! How many control frames the other side of an HTTP/2 connection may send.
//!
//! Each frame that is neither a request or response nor data costs the gateway work and brings no exchange forward:
//! SETTINGS, PING, PRIORITY, WINDOW_UPDATE, RST_STREAM, CONTINUATION, empty DATA and frames of unknown types. The `h2` crate
//! answers or ignores them without a limit (CVE-2019-9512, CVE-2019-9515), so they are counted here, from the bytes of
//! the connection. Progress earns the right to send them: a client that downloads sends WINDOW_UPDATE frames, and
//! gRPC's libraries measure the round trip with PING while data flows.

use super::limits::{CONTROL_BURST, CONTROL_MAX, CONTROL_PER_HEADERS, CONTROL_PER_SECOND, CONTROL_PER_SENT};
use std::io::IoSlice;
use wire::http2::{FrameHead, FrameScanner, PREFACE};

/// The control frames that one peer may still send.
#[derive(Debug)]
pub(crate) struct ControlBudget {
    received: FrameScanner,
    sent: FrameScanner,
    left: u32,
    /// When `left` last grew with time, in worker time.
    refilled_ms: u64,
    exhausted: bool,
}

impl ControlBudget {
    /// The budget of a client, whose bytes begin with the preface.
    pub(crate) fn of_client(now_ms: u64) -> Self {
        Self::new(FrameScanner::new(PREFACE), FrameScanner::new(0), now_ms)
    }

    /// The budget of an upstream, to which the gateway sends the preface.
    pub(crate) fn of_upstream(now_ms: u64) -> Self {
        Self::new(FrameScanner::new(0), FrameScanner::new(PREFACE), now_ms)
    }

    fn new(received: FrameScanner, sent: FrameScanner, now_ms: u64) -> Self {
        Self { received, sent, left: CONTROL_BURST, refilled_ms: now_ms, exhausted: false }
    }

    /// Counts the frames in bytes that the peer sent. Returns whether one of them brings an exchange forward.
    pub(crate) fn receive(&mut self, bytes: &[u8], now_ms: u64) -> bool {
        let (mut earned, mut spent, mut progress) = (0, 0, false);
        self.received.scan(bytes, |frame| match frame.kind {
            FrameHead::HEADERS => {
                earned += CONTROL_PER_HEADERS;
                progress = true;
            }
            _ if frame.has_data() => progress = true,
            _ => spent += 1,
        });
        self.earn(earned);
        if spent > 0 {
            self.spend(spent, now_ms);
        }
        progress
    }

    /// Counts the frames in the first `count` bytes of `slices`, which were sent to the peer.
    pub(crate) fn send(&mut self, slices: &[IoSlice<'_>], count: usize) {
        let (mut earned, mut rest) = (0, count);
        for slice in slices {
            let sent = &slice[..slice.len().min(rest)];
            rest -= sent.len();
            self.sent.scan(sent, |frame| {
                if frame.kind == FrameHead::HEADERS || frame.has_data() {
                    earned += CONTROL_PER_SENT;
                }
            });
        }
        self.earn(earned);
    }

    /// Returns whether the peer has sent more than it may.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    fn earn(&mut self, count: u32) {
        self.left = self.left.saturating_add(count).min(CONTROL_MAX);
    }

    fn spend(&mut self, count: u32, now_ms: u64) {
        if self.left < CONTROL_BURST {
            let elapsed_ms = now_ms.saturating_sub(self.refilled_ms);
            let grown = elapsed_ms.saturating_mul(u64::from(CONTROL_PER_SECOND)) / 1000;
            if grown > 0 {
                let room = CONTROL_BURST - self.left;
                self.left += u32::try_from(grown).unwrap_or(u32::MAX).min(room);
                self.refilled_ms = now_ms;
            }
        } else {
            self.refilled_ms = now_ms;
        }
        match self.left.checked_sub(count) {
            Some(left) => self.left = left,
            None => self.exhausted = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn frame(length: usize, kind: u8) -> Vec<u8> {
        let [high, middle, low] = [length >> 16, length >> 8, length].map(|part| part as u8);
        [&[high, middle, low, kind, 0, 0, 0, 0, 1], &vec![0; length][..]].concat()
    }

    fn client() -> ControlBudget {
        let mut budget = ControlBudget::of_client(0);
        budget.receive(&[0; PREFACE], 0);
        budget
    }

    #[test]
    fn control_frames_beyond_the_burst_exhaust_a_budget() {
        for kind in [2, 3, 4, PING, WINDOW_UPDATE, 9, 0xfa, FrameHead::DATA] {
            let (mut budget, frame) = (client(), frame(0, kind));
            for _ in 0..CONTROL_BURST {
                budget.receive(&frame, 0);
            }
            assert!(!budget.is_exhausted(), "type {kind}");
            budget.receive(&frame, 0);
            assert!(budget.is_exhausted(), "type {kind}");
        }
    }

    #[test]
    fn a_budget_grows_with_time_up_to_the_burst() {
        let (mut budget, ping) = (client(), frame(8, PING));
        // As often as allowed, for an hour.
        for number in 0..u64::from(CONTROL_PER_SECOND) * 3600 {
            budget.receive(&ping, number * 1000 / u64::from(CONTROL_PER_SECOND));
        }
        assert!(!budget.is_exhausted());
        budget.receive(&ping.repeat(CONTROL_BURST as usize), 10_000_000);
        assert!(!budget.is_exhausted(), "after a rest");
        budget.receive(&ping.repeat(2), 10_000_000);
        assert!(budget.is_exhausted());
    }

    /// A client that opens both windows again with each frame, and pings with each, as grpc-go may, all of it a round
    /// trip late.
    #[test]
    fn a_download_earns_the_frames_that_it_takes() {
        let mut budget = client();
        let data = frame(16_384 - 9, FrameHead::DATA);
        let answer = [frame(4, WINDOW_UPDATE), frame(4, WINDOW_UPDATE), frame(8, PING)].concat();
        for _ in 0..10 {
            // 128 MiB under way.
            for _ in 0..8192 {
                budget.send(&[IoSlice::new(&data[..9]), IoSlice::new(&data[9..])], data.len());
            }
            for _ in 0..8192 {
                budget.receive(&answer, 0);
            }
        }
        assert!(!budget.is_exhausted());
    }

    #[test]
    fn frames_of_data_that_are_received_cost_nothing() {
        let (mut budget, data) = (client(), frame(1, FrameHead::DATA));
        for _ in 0..1_000_000 {
            budget.receive(&data, 0);
        }
        assert!(!budget.is_exhausted());
    }

    /// The gateway's own answers to PING and SETTINGS are no progress.
    #[test]
    fn acknowledgements_earn_nothing() {
        let (mut budget, ping) = (client(), frame(8, PING));
        for _ in 0..=CONTROL_BURST {
            budget.receive(&ping, 0);
            budget.send(&[IoSlice::new(&ping)], ping.len());
        }
        assert!(budget.is_exhausted());
    }
}
