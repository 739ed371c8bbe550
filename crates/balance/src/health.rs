//! A node's health as lua-resty-healthcheck counts it: pure, so that probes and clients' requests, on whatever thread,
//! feed one state machine.
//!
//! A node starts healthy. Reports that agree with a settled state count nothing; others count up, a success forgets the
//! failures before it and a failure the successes, and the count that reaches its threshold turns the state over.

use std::sync::atomic::{AtomicU64, Ordering};

/// A node's health: its state and the counts since that was last settled. Small enough for one atomic word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// What is thought of the node.
    pub state: State,
    /// Successes in a row.
    pub successes: u8,
    /// Responses with a bad status, since the last success.
    pub http_failures: u8,
    /// Refused or broken connections, since the last success.
    pub tcp_failures: u8,
    /// Timeouts, since the last success.
    pub timeouts: u8,
}

/// What is thought of a node; the names are those of APISIX's control API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum State {
    /// It takes requests, and nothing speaks against it.
    #[default]
    Healthy,
    /// It takes requests, and has failed since it last did well.
    MostlyHealthy,
    /// It takes none, and has done well since it last failed.
    MostlyUnhealthy,
    /// It takes none.
    Unhealthy,
}

/// What a probe or a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A good answer (or, for `tcp` probes, a connection).
    Success,
    /// An answer with a bad status, or with none.
    HttpFailure,
    /// No connection, or one that broke.
    TcpFailure,
    /// No answer in time.
    Timeout,
}

/// How many reports of each kind in a row turn a node over; 0: that kind is not counted. From 0 to 254.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Successes after which a node is healthy.
    pub successes: u8,
    /// Bad statuses after which it is not.
    pub http_failures: u8,
    /// Broken connections after which it is not.
    pub tcp_failures: u8,
    /// Timeouts after which it is not.
    pub timeouts: u8,
}

/// A node's health, shared by all threads that report on it or ask for it.
#[derive(Debug, Default)]
pub struct HealthCell(AtomicU64);

impl State {
    /// Whether the node takes requests.
    #[must_use]
    pub fn usable(self) -> bool {
        matches!(self, Self::Healthy | Self::MostlyHealthy)
    }

    /// The name in the control API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::MostlyHealthy => "mostly_healthy",
            Self::MostlyUnhealthy => "mostly_unhealthy",
            Self::Unhealthy => "unhealthy",
        }
    }

    fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::MostlyHealthy,
            2 => Self::MostlyUnhealthy,
            3 => Self::Unhealthy,
            _ => Self::Healthy,
        }
    }
}

impl Health {
    /// The health after one more report.
    #[must_use]
    pub fn after(self, event: Event, thresholds: &Thresholds) -> Self {
        let settled = match event {
            Event::Success => State::Healthy,
            _ => State::Unhealthy,
        };
        let threshold = match event {
            Event::Success => thresholds.successes,
            Event::HttpFailure => thresholds.http_failures,
            Event::TcpFailure => thresholds.tcp_failures,
            Event::Timeout => thresholds.timeouts,
        };
        if threshold == 0 || self.state == settled {
            return self;
        }
        let mut next = self;
        let count = match event {
            Event::Success => {
                (next.http_failures, next.tcp_failures, next.timeouts) = (0, 0, 0);
                &mut next.successes
            }
            failure => {
                next.successes = 0;
                match failure {
                    Event::HttpFailure => &mut next.http_failures,
                    Event::TcpFailure => &mut next.tcp_failures,
                    _ => &mut next.timeouts,
                }
            }
        };
        *count = count.saturating_add(1);
        next.state = match self.state {
            _ if *count >= threshold => settled,
            State::Healthy => State::MostlyHealthy,
            State::Unhealthy => State::MostlyUnhealthy,
            unsettled => unsettled,
        };
        next
    }

    fn to_bits(self) -> u64 {
        u64::from_le_bytes([
            self.state as u8,
            self.successes,
            self.http_failures,
            self.tcp_failures,
            self.timeouts,
            0,
            0,
            0,
        ])
    }

    fn from_bits(bits: u64) -> Self {
        let [state, successes, http_failures, tcp_failures, timeouts, ..] = bits.to_le_bytes();
        Self { state: State::from_bits(state), successes, http_failures, tcp_failures, timeouts }
    }
}

impl HealthCell {
    /// A cell that begins with `health`.
    #[must_use]
    pub fn new(health: Health) -> Self {
        Self(AtomicU64::new(health.to_bits()))
    }

    /// The health now.
    #[must_use]
    #[inline]
    pub fn get(&self) -> Health {
        Health::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Counts one report. The health before and after it, where it changed anything.
    ///
    /// Orderings are relaxed: the word is all there is to see, and a reader that sees it late sends one more request.
    pub fn report(&self, event: Event, thresholds: &Thresholds) -> Option<(Health, Health)> {
        let step = |bits| {
            let next = Health::from_bits(bits).after(event, thresholds).to_bits();
            (next != bits).then_some(next)
        };
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok()?;
        let before = Health::from_bits(before);
        Some((before, before.after(event, thresholds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Event::{HttpFailure, Success, TcpFailure, Timeout};
    use State::{Healthy, MostlyHealthy, MostlyUnhealthy, Unhealthy};
    use proptest::prelude::*;

    const T: Thresholds = Thresholds { successes: 2, http_failures: 3, tcp_failures: 2, timeouts: 3 };

    #[test]
    fn reports_in_a_row_turn_a_node_over_and_back() {
        let cases: &[(&[Event], State)] = &[
            (&[], Healthy),
            (&[Success], Healthy),
            (&[HttpFailure], MostlyHealthy),
            (&[HttpFailure, HttpFailure], MostlyHealthy),
            (&[HttpFailure, HttpFailure, HttpFailure], Unhealthy),
            (&[TcpFailure, TcpFailure], Unhealthy),
            (&[Timeout, Timeout], MostlyHealthy),
            (&[Timeout, Timeout, Timeout], Unhealthy),
            // Each kind of failure counts for itself.
            (&[HttpFailure, TcpFailure, Timeout, HttpFailure, Timeout], MostlyHealthy),
            // A success forgets the failures; it is settled only when successes reach their threshold.
            (&[HttpFailure, HttpFailure, Success], MostlyHealthy),
            (&[HttpFailure, HttpFailure, Success, HttpFailure, HttpFailure], MostlyHealthy),
            (&[HttpFailure, Success, Success], Healthy),
            (&[TcpFailure, TcpFailure, Success], MostlyUnhealthy),
            (&[TcpFailure, TcpFailure, Success, TcpFailure], MostlyUnhealthy),
            (&[TcpFailure, TcpFailure, Success, TcpFailure, Success], MostlyUnhealthy),
            (&[TcpFailure, TcpFailure, Success, Success], Healthy),
        ];
        for (events, expected) in cases {
            let health = events.iter().fold(Health::default(), |health, event| health.after(*event, &T));
            assert_eq!(health.state, *expected, "{events:?}");
        }
    }

    #[test]
    fn what_has_no_threshold_counts_nothing() {
        let none = Thresholds { successes: 0, http_failures: 0, tcp_failures: 0, timeouts: 0 };
        for event in [Success, HttpFailure, TcpFailure, Timeout] {
            assert_eq!(Health::default().after(event, &none), Health::default());
        }
    }

    #[test]
    fn a_cell_tells_what_a_report_changed() {
        let cell = HealthCell::default();
        assert_eq!(cell.report(Success, &T), None, "it is healthy already");
        let (before, after) = cell.report(TcpFailure, &T).unwrap();
        assert_eq!((before.state, after.state), (Healthy, MostlyHealthy));
        let (_, after) = cell.report(TcpFailure, &T).unwrap();
        assert!(!after.state.usable());
        assert_eq!(cell.get(), after);
        assert_eq!(cell.report(Timeout, &T), None, "it is unhealthy already");
    }

    proptest! {
        #[test]
        fn every_health_survives_its_word(events in prop::collection::vec(0_u8..4, 0..40)) {
            let mut health = Health::default();
            for event in events {
                health = health.after([Success, HttpFailure, TcpFailure, Timeout][usize::from(event)], &T);
                prop_assert_eq!(Health::from_bits(health.to_bits()), health);
                prop_assert_eq!(HealthCell::new(health).get(), health);
            }
        }
    }
}
