//! Limits that Redis counts, and how clients are told what counting came to.

use super::delayed::Delayed;
use super::headers::{HeaderNames, Headers};
use super::outcome::Outcome;
use super::shared_windows::{Asked, SharedWindows};
use crate::amount::{Amount, AmountConfig};
use crate::limit_key::Key;
use crate::redis_policy::{Client, Fault, Redis};
use plugin::{Exchange, Flow, Reply};
use std::sync::Arc;

/// One number per window.
pub(super) struct Rule {
    pub(super) key: Key,
    pub(super) count: Amount,
    pub(super) window_s: Amount,
    headers: Headers,
}

/// How requests are answered.
#[derive(Clone)]
pub(super) struct Answers {
    pub(super) show_headers: bool,
    pub(super) rejected_code: u16,
    pub(super) rejected_msg: Option<String>,
}

/// The limits of one configuration that Redis counts.
pub(super) struct Remote {
    pub(super) redis: Redis,
    pub(super) windows: Arc<SharedWindows>,
    /// How Redis is told of requests that are counted here.
    pub(super) delayed: Option<Arc<Delayed>>,
    pub(super) rules: Vec<Rule>,
    /// Whether each rule applies only where its key has a value.
    pub(super) by_rules: bool,
    pub(super) answers: Answers,
    pub(super) allow_degradation: bool,
}

/// What each rule came to, in their order; the last one may be a fault.
type Counted = Vec<(usize, u64, Result<Outcome, Fault>)>;

impl Rule {
    pub(super) fn new(
        key: Key,
        count: &AmountConfig,
        time_window: &AmountConfig,
        names: HeaderNames,
    ) -> Self {
        let count = Amount::compile(count, 1);
        let headers = Headers::new(names, count.fixed());
        Self { key, count, window_s: Amount::compile(time_window, 1), headers }
    }
}

impl Answers {
    /// Tells the client in headers where it stands, and rejects it where it is not admitted.
    #[inline(always)]
    pub(super) fn answer(
        &self,
        rule: &Rule,
        count: u64,
        outcome: Outcome,
        exchange: &mut Exchange<'_>,
    ) -> Flow {
        if self.show_headers {
            rule.headers.write(count, outcome.remaining, outcome.reset, exchange.reply_headers);
        }
        if outcome.admitted { Flow::Next } else { self.reject() }
    }

    #[cold]
    fn reject(&self) -> Flow {
        Flow::reply(match &self.rejected_msg {
            Some(message) => Reply::error(self.rejected_code, message),
            None => Reply::status(self.rejected_code),
        })
    }
}

impl Remote {
    /// Counts `cost` for the rules that apply, one after the other until one rejects; `None` where none applies, or where
    /// one gives no usable number.
    pub(super) fn access(self: &Arc<Self>, exchange: &Exchange<'_>, cost: u64) -> Option<Flow> {
        let applying = self.applying(exchange)?;
        let (remote, client) = (Arc::clone(self), self.redis.client(exchange));
        let this = Arc::clone(self);
        Some(Flow::wait(
            async move { remote.count(&client, applying, cost).await },
            move |counted, exchange| this.answer(counted, exchange),
        ))
    }

    /// What is asked for each rule that applies, with the rule's place.
    fn applying(&self, exchange: &Exchange<'_>) -> Option<Vec<(usize, Asked)>> {
        let mut applying = Vec::with_capacity(self.rules.len());
        for (at, rule) in self.rules.iter().enumerate() {
            let key = if self.by_rules {
                let Some(mut key) = rule.key.resolved(exchange) else { continue };
                // Rules whose keys come out equal are still different limits.
                key.extend_from_slice(format!("#{}", at + 1).as_bytes());
                key
            } else {
                rule.key.or_remote_addr(exchange, &exchange.client.ip_text).into_owned()
            };
            let (count, window_s) = (rule.count.of(exchange)?, rule.window_s.of(exchange)?);
            applying.push((at, Asked { key, count, window_s }));
        }
        (!applying.is_empty()).then_some(applying)
    }

    async fn count(&self, client: &Client, applying: Vec<(usize, Asked)>, cost: u64) -> Counted {
        let mut counted = Vec::with_capacity(applying.len());
        for (at, asked) in applying {
            let outcome = match self.delayed.as_ref().filter(|delayed| delayed.suits(asked.window_s)) {
                Some(delayed) => Ok(delayed.count(&self.windows, client, &asked, cost).await),
                None => self.windows.count(client, &asked, cost).await,
            };
            let goes_on = outcome.as_ref().map_or(self.allow_degradation, |outcome| outcome.admitted);
            counted.push((at, asked.count, outcome));
            if !goes_on {
                break;
            }
        }
        counted
    }

    fn answer(&self, counted: Counted, exchange: &mut Exchange<'_>) -> Flow {
        for (at, count, outcome) in counted {
            let flow = match outcome {
                Ok(outcome) => self.answers.answer(&self.rules[at], count, outcome, exchange),
                Err(fault) => {
                    let route = exchange.route.map_or("", |route| &route.id);
                    tracing::error!(route, "failed to limit count: {fault}");
                    if self.allow_degradation {
                        continue;
                    }
                    Flow::reply(Reply::error(500, "failed to limit count"))
                }
            };
            if !matches!(flow, Flow::Next) {
                return flow;
            }
        }
        Flow::Next
    }
}
