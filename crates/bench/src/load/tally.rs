//! What one thread counts.

use hdrhistogram::Histogram;

use super::clock::Nanos;

/// The longest latency that is told apart from longer ones, in nanoseconds: an hour.
pub const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// Significant decimal digits of a recorded latency: 0.1 %.
const DIGITS: u8 = 3;

/// An open loop's send this much after its intended start is late: more than the kernel's timers account for.
const LATE_NS: Nanos = 1_000_000;

/// Statuses from 100 to 599.
const STATUSES: usize = 500;

/// A histogram of latencies in nanoseconds, from 1 to [`LATENCY_MAX_NS`].
#[must_use]
pub fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, DIGITS).expect("the bounds are constants that it accepts")
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// No connection could be made.
    Connect,
    /// No TLS session could be made on a connection.
    Tls,
    /// The connection broke while a response was waited for or read.
    Read,
    /// The request could not be sent.
    Write,
    /// The server closed the connection before an answer was complete.
    Closed,
    /// No complete answer came in time.
    Timeout,
    /// What came was no proper HTTP.
    Protocol,
    /// The status was 400 or above.
    Status,
    /// The body was not the expected one.
    Body,
}

impl ErrorKind {
    /// All of them, in the order of their positions in a tally.
    pub const ALL: [Self; 9] = [
        Self::Connect,
        Self::Tls,
        Self::Read,
        Self::Write,
        Self::Closed,
        Self::Timeout,
        Self::Protocol,
        Self::Status,
        Self::Body,
    ];

    /// Its name in result files and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Read => "read",
            Self::Write => "write",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
            Self::Status => "status",
            Self::Body => "body",
        }
    }
}

/// A failure with the words for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What it counts as.
    pub kind: ErrorKind,
    /// One sentence, without a full stop.
    pub message: String,
}

impl Fault {
    /// A fault.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// What TLS agreed upon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFacts {
    /// The protocol's version, such as `TLSv1_3`.
    pub version: String,
    /// The cipher suite.
    pub suite: String,
    /// The group of the key exchange; empty where a session was resumed without one.
    pub group: String,
}

/// Counts and latencies of one thread.
#[derive(Debug, Clone)]
pub struct Tally {
    /// From the intended start (open loop) or the send (closed loop) to the last byte of the answer.
    pub response: Histogram<u64>,
    /// From the send to the last byte of the answer; only in an open loop, where the two differ.
    pub service: Option<Histogram<u64>>,
    /// Answers that were complete within the measured time.
    pub requests: u64,
    /// Answers that came after it, to requests sent within it. Their latencies are recorded too.
    pub drained: u64,
    /// Requests sent.
    pub sent: u64,
    /// Sends more than a millisecond after their intended start.
    pub late: u64,
    /// Of these, the ones for which a connection had been free: the generator was late, not the server.
    pub late_by_client: u64,
    /// Intended starts for which no request was sent before the time was over.
    pub dropped: u64,
    /// Requests under way when the run ended, whose answers were not waited for.
    pub unanswered: u64,
    /// Connections made.
    pub connects: u64,
    /// Bytes received in answers, heads and framing included, after decryption.
    pub bytes: u64,
    /// Answers by status, from 100 at 0 to 599.
    pub statuses: Vec<u64>,
    /// Failed requests, in the order of [`ErrorKind::ALL`].
    pub errors: [u64; ErrorKind::ALL.len()],
    /// The first failure's words, by kind.
    pub examples: [Option<String>; ErrorKind::ALL.len()],
    /// What TLS agreed upon on the first connection.
    pub tls: Option<TlsFacts>,
    /// The server's name for itself, from the first answer.
    pub server: Option<String>,
}

impl Tally {
    /// An empty one; an open loop has both latencies.
    #[must_use]
    pub fn new(open_loop: bool) -> Self {
        Self {
            response: empty_histogram(),
            service: open_loop.then(empty_histogram),
            requests: 0,
            drained: 0,
            sent: 0,
            late: 0,
            late_by_client: 0,
            dropped: 0,
            unanswered: 0,
            connects: 0,
            bytes: 0,
            statuses: vec![0; STATUSES],
            errors: [0; ErrorKind::ALL.len()],
            examples: Default::default(),
            tls: None,
            server: None,
        }
    }

    /// Begins anew after the warm-up; what was learned about the server stays.
    pub fn restart(&mut self) {
        let fresh = Self::new(self.service.is_some());
        let old = std::mem::replace(self, fresh);
        self.tls = old.tls;
        self.server = old.server;
    }

    /// Notes a send: when it was meant to be, when it was, and since when a connection had been free for it.
    #[inline]
    pub fn note_send(&mut self, intended: Nanos, sent: Nanos, free_since: Nanos) {
        self.sent += 1;
        if sent.saturating_sub(intended) > LATE_NS {
            self.late += 1;
            self.late_by_client += u64::from(sent.saturating_sub(free_since.max(intended)) > LATE_NS);
        }
    }

    /// Notes a complete answer; `in_time` where it came before the end of the measured time.
    #[inline]
    pub fn note_answer(&mut self, intended: Nanos, sent: Nanos, at: Nanos, status: u16, in_time: bool) {
        self.response.saturating_record(at.saturating_sub(intended).max(1));
        if let Some(service) = &mut self.service {
            service.saturating_record(at.saturating_sub(sent).max(1));
        }
        self.requests += u64::from(in_time);
        self.drained += u64::from(!in_time);
        if let Some(count) = self.statuses.get_mut(usize::from(status).wrapping_sub(100)) {
            *count += 1;
        }
        if status >= 400 {
            self.note_fault(1, ErrorKind::Status, || format!("the server answered with status {status}"));
        }
    }

    /// Notes `count` failures of one kind; the words are asked for once.
    pub fn note_fault(&mut self, count: u64, kind: ErrorKind, message: impl FnOnce() -> String) {
        let at = kind as usize;
        self.errors[at] += count;
        if self.examples[at].is_none() && count > 0 {
            self.examples[at] = Some(message());
        }
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so nothing can be out of range.
        let _ = self.response.add(&other.response);
        if let (Some(ours), Some(theirs)) = (&mut self.service, &other.service) {
            let _ = ours.add(theirs);
        }
        for (ours, theirs) in [
            (&mut self.requests, other.requests),
            (&mut self.drained, other.drained),
            (&mut self.sent, other.sent),
            (&mut self.late, other.late),
            (&mut self.late_by_client, other.late_by_client),
            (&mut self.dropped, other.dropped),
            (&mut self.unanswered, other.unanswered),
            (&mut self.connects, other.connects),
            (&mut self.bytes, other.bytes),
        ] {
            *ours += theirs;
        }
        self.statuses.iter_mut().zip(&other.statuses).for_each(|(ours, theirs)| *ours += theirs);
        self.errors.iter_mut().zip(other.errors).for_each(|(ours, theirs)| *ours += theirs);
        for (ours, theirs) in self.examples.iter_mut().zip(&other.examples) {
            if ours.is_none() {
                ours.clone_from(theirs);
            }
        }
        if self.tls.is_none() {
            self.tls.clone_from(&other.tls);
        }
        if self.server.is_none() {
            self.server.clone_from(&other.server);
        }
    }

    /// Failed requests of all kinds.
    #[must_use]
    pub fn errors_total(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// The failures that there were: kind, count, the first one's words.
    pub fn faults(&self) -> impl Iterator<Item = (ErrorKind, u64, &str)> {
        ErrorKind::ALL
            .into_iter()
            .zip(self.errors)
            .zip(&self.examples)
            .filter(|((_, count), _)| *count > 0)
            .map(|((kind, count), words)| (kind, count, words.as_deref().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_at_their_positions() {
        for (at, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
    }

    #[test]
    fn a_late_send_is_the_clients_fault_only_where_a_connection_was_free() {
        let mut tally = Tally::new(true);
        tally.note_send(0, 500_000, 0);
        tally.note_send(0, 2_000_000, 1_900_000);
        tally.note_send(0, 2_000_000, 0);
        assert_eq!((tally.sent, tally.late, tally.late_by_client), (3, 2, 1));
    }

    #[test]
    fn threads_add_up_and_latencies_keep_their_digits() {
        let mut sum = Tally::new(true);
        for thread in 0..2u64 {
            let mut tally = Tally::new(true);
            for i in 1..=1_000u64 {
                tally.note_answer(0, i * 500, i * 1_000, if i == 7 { 503 } else { 200 }, thread == 0);
            }
            sum.merge(&tally);
        }
        assert_eq!((sum.requests, sum.drained), (1_000, 1_000));
        assert_eq!((sum.errors_total(), sum.statuses[100], sum.statuses[403]), (2, 1_998, 2));
        let (p99, service) =
            (sum.response.value_at_quantile(0.99), sum.service.expect("open").value_at_quantile(0.99));
        assert!((989_000..=991_000).contains(&p99), "{p99}");
        assert!((494_000..=496_000).contains(&service), "{service}");
    }
}
