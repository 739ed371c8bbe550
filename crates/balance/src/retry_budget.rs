//! How many requests may be sent again, so that retries can't bring down an upstream that is sick already: where every
//! request fails, each retry is one more request to nodes that can't serve those they have.

/// What one request adds to the budget, in thousandths of a retry: 200 allow 20 retries for 100 requests.
const PER_REQUEST: u64 = 200;

/// What one second adds, in thousandths: 10 retries a second for upstreams with few requests, whose retries harm
/// nobody.
const PER_SECOND: u64 = 10_000;

/// What one retry takes, in thousandths.
const PER_RETRY: u64 = 1_000;

/// What may be saved up, in thousandths: 100 retries, those of ten seconds without a request. It covers the requests
/// that are under way on the connections to a node when that node dies, which all fail at once.
const SAVED_MAX: u64 = 100_000;

/// The retries that an upstream's requests may have, for one worker. Nothing is done for a request that needs none.
#[derive(Debug, Clone)]
pub struct RetryBudget {
    /// In thousandths of a retry; at most [`SAVED_MAX`].
    saved: u64,
    /// When it was last looked at, in milliseconds.
    at_ms: u64,
    /// The requests counted by then.
    requests: u64,
}

impl Default for RetryBudget {
    /// A full budget.
    fn default() -> Self {
        Self { saved: SAVED_MAX, at_ms: 0, requests: 0 }
    }
}

impl RetryBudget {
    /// Takes one retry; whether there was one. `requests` counts the clients' requests so far, `now_ms` milliseconds
    /// since any instant that stays the same.
    pub fn retry(&mut self, requests: u64, now_ms: u64) -> bool {
        let (passed_ms, made) = (now_ms.saturating_sub(self.at_ms), requests.saturating_sub(self.requests));
        (self.at_ms, self.requests) = (self.at_ms.max(now_ms), self.requests.max(requests));
        // A thousandth of what a second adds for each millisecond.
        let earned =
            passed_ms.saturating_mul(PER_SECOND / 1_000).saturating_add(made.saturating_mul(PER_REQUEST));
        self.saved = self.saved.saturating_add(earned).min(SAVED_MAX);
        match self.saved.checked_sub(PER_RETRY) {
            Some(left) => {
                self.saved = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many retries are left at `now_ms`, after so many requests.
    fn left(budget: &mut RetryBudget, requests: u64, now_ms: u64) -> u32 {
        let mut count = 0;
        while budget.retry(requests, now_ms) {
            count += 1;
        }
        count
    }

    #[test]
    fn time_and_requests_add_to_it() {
        let mut budget = RetryBudget::default();
        for (requests, now_ms, expected) in [
            (0, 5_000, 100),
            (0, 6_000, 10),
            (0, 6_100, 1),
            // A clock that goes back adds nothing.
            (0, 5_000, 0),
            (100, 6_100, 20),
            (100, 6_100, 0),
            (200, 7_100, 30),
            // What is saved up is bounded.
            (1_000_000, 7_100, 100),
            (1_000_000, u64::MAX, 100),
            (u64::MAX, u64::MAX, 100),
        ] {
            assert_eq!(left(&mut budget, requests, now_ms), expected, "{requests} {now_ms}");
        }
    }

    /// Where all requests fail, those to the nodes are at most 120 % of those of the clients, and 10 a second.
    #[test]
    fn retries_of_a_sick_upstream_are_a_fifth_of_its_requests() {
        let mut budget = RetryBudget::default();
        left(&mut budget, 0, 0);
        // 1,000 requests a second, for ten seconds.
        let retries = (1..=10_000).filter(|&number| budget.retry(number, number)).count();
        assert!((2_000..=2_100).contains(&retries), "{retries}");
    }
}
