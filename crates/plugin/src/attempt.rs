//! Hooks that see each try at a node.

use crate::Exchange;
use crate::request::RequestEdits;
use std::net::SocketAddr;

/// Runs before each attempt to send a request to a node. A hook of an earlier phase attaches it
/// ([`Exchange::on_attempt`]), so requests for which nobody does pay nothing.
///
/// What it changes in the request (fields, target, `Host`) is for this attempt: the next one begins with the request as
/// it was before the first. A connection that turns out to be stale is replaced within the attempt.
pub trait OnAttempt {
    /// Decides whether the request goes to the node.
    fn attempt(&mut self, exchange: &mut Exchange<'_>, attempt: &Attempt<'_>) -> AttemptFlow;
}

/// One try at one node.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// Its number, from 1; those that were declined count.
    pub number: u32,
    /// The node as configured: name or address, and port.
    pub node: &'a str,
    /// The address that the request goes to.
    pub address: SocketAddr,
    /// The value of `Host` towards the node, unless the hook sets another.
    pub host: &'a [u8],
}

/// What happens after a hook of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptFlow {
    /// The next hook runs; after the last one the request is sent.
    Next,
    /// The node gets nothing of this request, and another one is picked; this is neither a failure of the node nor one of
    /// the retries. Without another one the client gets 503.
    Decline,
}

/// The hooks of one exchange's attempts: one of its extensions.
#[derive(Default)]
pub(crate) struct Attempts {
    hooks: Vec<Box<dyn OnAttempt>>,
    number: u32,
    /// The request's edits before the first attempt.
    edits: Option<Box<RequestEdits>>,
}

impl Attempts {
    /// How many hooks there are in `exchange`.
    pub(crate) fn count(exchange: &Exchange<'_>) -> usize {
        exchange.extension::<Self>().map_or(0, |attempts| attempts.hooks.len())
    }

    /// Takes those out of `exchange` that were added after the first `count`.
    pub(crate) fn truncate(exchange: &mut Exchange<'_>, count: usize) {
        if Self::count(exchange) > count {
            Self::of(exchange).hooks.truncate(count);
        }
    }

    fn of<'x>(exchange: &'x mut Exchange<'_>) -> &'x mut Self {
        let extensions = exchange.extensions();
        if extensions.get::<Self>().is_none() {
            extensions.insert(Self::default());
        }
        extensions.get_mut().expect("it was just made")
    }
}

impl Exchange<'_> {
    /// Has `hook` run before each attempt, after those that were attached before.
    pub fn on_attempt(&mut self, hook: impl OnAttempt + 'static) {
        Attempts::of(self).hooks.push(Box::new(hook));
    }

    /// Begins an attempt: the request is again what it was before the first one. Returns whether hooks are to run for it.
    #[inline]
    pub fn begin_attempt(&mut self) -> bool {
        self.extras.is_some() && self.reset_for_attempt()
    }

    fn reset_for_attempt(&mut self) -> bool {
        let attempts = self.extras.as_mut().and_then(|extras| extras.extensions.get_mut::<Attempts>());
        let Some(attempts) = attempts.filter(|attempts| !attempts.hooks.is_empty()) else { return false };
        attempts.number += 1;
        if attempts.number == 1 {
            attempts.edits.clone_from(&self.request.edits);
        } else {
            self.request.edits.clone_from(&attempts.edits);
        }
        true
    }

    /// Runs the hooks of the attempt that [`Self::begin_attempt`] began, up to the first that declines. For the engine and
    /// the test kit.
    pub fn run_attempt(&mut self, node: &str, address: SocketAddr, host: &[u8]) -> AttemptFlow {
        // Out of the exchange, which they may change.
        let attempts = Attempts::of(self);
        let (number, mut hooks) = (attempts.number, std::mem::take(&mut attempts.hooks));
        let attempt = Attempt { number, node, address, host };
        let declined = hooks.iter_mut().any(|hook| hook.attempt(self, &attempt) == AttemptFlow::Decline);
        drop(Attempts::of(self).hooks.splice(..0, hooks));
        if declined { AttemptFlow::Decline } else { AttemptFlow::Next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{self, Bench};

    /// Signs each attempt for its node, and declines the port 1.
    struct Signer;

    impl OnAttempt for Signer {
        fn attempt(&mut self, exchange: &mut Exchange<'_>, attempt: &Attempt<'_>) -> AttemptFlow {
            let host = String::from_utf8_lossy(attempt.host);
            let text = format!("{} {} {} {host}", attempt.number, attempt.node, attempt.address);
            exchange.request.edit().headers.append("X-Signed", text);
            if attempt.address.port() == 1 { AttemptFlow::Decline } else { AttemptFlow::Next }
        }
    }

    #[test]
    fn each_attempt_begins_with_the_same_request() {
        let bench = Bench::new("GET /");
        let mut exchange = bench.exchange();
        assert!(!exchange.begin_attempt(), "nobody watches");
        exchange.request.edit().headers.set("X-Kept", "1");
        exchange.on_attempt(Signer);
        let lines =
            |exchange: &Exchange<'_>| testkit::lines(&exchange.request.edits.as_ref().expect("some").headers);
        for (port, number, flow) in [(80, 1, AttemptFlow::Next), (1, 2, AttemptFlow::Decline)] {
            assert!(exchange.begin_attempt());
            assert_eq!(exchange.run_attempt("a.com", ([127, 0, 0, 1], port).into(), b"host"), flow);
            let signed = format!("X-Kept: 1\r\nX-Signed: {number} a.com 127.0.0.1:{port} host\r\n");
            assert_eq!(lines(&exchange), signed);
        }
        assert!(exchange.begin_attempt());
        assert_eq!(lines(&exchange), "X-Kept: 1\r\n");
    }
}
