//! The names a worker has asked for: answers are kept for as long as their TTL says, and the last good one for as long as
//! no newer can be had.
//!
//! Of all requests that need a name one question is asked. Those that have an answer of before don't wait long for it: a
//! name server that is silent holds up one request for a moment, not all of them for as long as it is.

use super::resolve::{Answer, Resolver};
use crate::error::{ErrorKind, ProxyError, Side};
use crate::timer::{TimeLimit, Timer};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use stdx::Moment;
use tokio::sync::Notify;

/// Names a worker keeps the answers for: 1 MB. Further ones in use cost questions, and no request.
const NAMES_MAX: usize = 4096;

/// After a failure a name is asked for again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long requests wait for a newer answer than the one they have.
const PATIENCE: Duration = Duration::from_millis(300);

/// The names a worker has asked for.
#[derive(Debug)]
pub(crate) struct Names {
    resolver: Resolver,
    known: RefCell<HashMap<String, Rc<Known>>>,
}

/// What is known of a name. No address where it could not be resolved.
#[derive(Debug, Default)]
struct Known {
    addresses: RefCell<Vec<IpAddr>>,
    /// `None` before the first answer.
    expires: Cell<Option<Moment>>,
    /// Whose turn it is.
    next: Cell<usize>,
    asking: Cell<bool>,
    /// Whether the answer has been waited for in vain.
    late: Cell<bool>,
    answered: Notify,
}

impl Names {
    pub(crate) fn new(resolver: Resolver) -> Self {
        Self { resolver, known: RefCell::default() }
    }

    /// An address of `name`, each in turn, one that is not among `tried` if there is any. The
    /// first answer is waited for within `timeout`, a newer one for a moment.
    pub(crate) async fn resolve(
        &self,
        name: &str,
        tried: &[IpAddr],
        timer: &Timer,
        timeout: Duration,
    ) -> Result<IpAddr, ProxyError> {
        let unresolved = || {
            ProxyError::new(Side::Upstream, ErrorKind::Name, "the node's name can't be resolved").retriable()
        };
        let known = self.known(name).ok_or_else(unresolved)?;
        if known.is_outdated() {
            self.ask(name, &known);
            let has_one = !known.addresses.borrow().is_empty();
            let patience = if has_one { PATIENCE } else { timeout };
            if !(has_one && known.late.get()) {
                known.until_answered(timer.within(patience)).await;
            }
        }
        known.turn(tried).ok_or_else(unresolved)
    }

    /// What is known of `name`; `None` where as many are being asked for as are kept.
    fn known(&self, name: &str) -> Option<Rc<Known>> {
        let mut all = self.known.borrow_mut();
        if let Some(known) = all.get(name) {
            return Some(Rc::clone(known));
        }
        if all.len() >= NAMES_MAX {
            all.retain(|_, known| !known.is_outdated() || known.asking.get());
        }
        if all.len() >= NAMES_MAX {
            let spare = all.iter().find(|(_, known)| !known.asking.get()).map(|(name, _)| name.clone())?;
            all.remove(&spare);
        }
        Some(Rc::clone(all.entry(name.to_owned()).or_default()))
    }

    /// Has the name asked for, unless it is already.
    fn ask(&self, name: &str, known: &Rc<Known>) {
        if known.asking.replace(true) {
            return;
        }
        let (receiver, known) = (self.resolver.ask(name), Rc::clone(known));
        // A task of its own: the request that asked may be given up.
        tokio::task::spawn_local(async move {
            let answer = match receiver {
                Some(receiver) => receiver.await.ok().flatten(),
                None => None,
            };
            known.keep(answer);
        });
    }
}

impl Known {
    fn turn(&self, tried: &[IpAddr]) -> Option<IpAddr> {
        let addresses = self.addresses.borrow();
        self.next.set(self.next.get().wrapping_add(1));
        let from_next = || addresses.iter().cycle().skip(self.next.get() % addresses.len().max(1));
        let mut untried = from_next().take(addresses.len()).filter(|address| !tried.contains(address));
        untried.next().or_else(|| from_next().next()).copied()
    }

    fn is_outdated(&self) -> bool {
        self.expires.get().is_none_or(|expires| expires <= Moment::now())
    }

    fn keep(&self, answer: Option<Answer>) {
        let kept = answer.as_ref().map_or(RETRY_AFTER, |answer| answer.ttl);
        self.expires.set(Some(Moment::now() + kept));
        if let Some(answer) = answer {
            *self.addresses.borrow_mut() = answer.addresses;
        }
        self.asking.set(false);
        self.late.set(false);
        self.answered.notify_waiters();
    }

    /// Waits for the answer, or until `limit` is over.
    async fn until_answered(&self, mut limit: TimeLimit<'_>) {
        let mut answered = pin!(self.answered.notified());
        poll_fn(|cx| match answered.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending if limit.is_over() => {
                self.late.set(true);
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::resolve::Question;
    use tokio::runtime::{Builder, LocalOptions};
    use tokio::sync::mpsc;

    /// Names whose questions the test answers.
    struct Asked {
        names: Rc<Names>,
        questions: mpsc::Receiver<Question>,
        timer: Rc<Timer>,
    }

    impl Asked {
        fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
            let runtime = Builder::new_current_thread().build_local(LocalOptions::default()).unwrap();
            runtime.block_on(async {
                let (resolver, questions) = Resolver::unanswered();
                let timers = crate::timer::Timers::new(crate::clock::Now::default());
                let timer = Rc::clone(&timers.register().timer);
                test(Self { names: Rc::new(Names::new(resolver)), questions, timer }).await;
            });
        }

        /// Resolves in the background.
        fn resolve(&self, name: &'static str) -> tokio::task::JoinHandle<Option<IpAddr>> {
            let (names, timer) = (Rc::clone(&self.names), Rc::clone(&self.timer));
            tokio::task::spawn_local(async move {
                names.resolve(name, &[], &timer, Duration::from_secs(6)).await.ok()
            })
        }

        async fn answer(&mut self, name: &str, addresses: &[&str], ttl_ms: u64) {
            let question = self.questions.recv().await.unwrap();
            assert_eq!(question.name, name);
            let addresses: Vec<IpAddr> = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
            let answer = Answer { addresses, ttl: Duration::from_millis(ttl_ms) };
            assert!(question.answer.send(Some(answer).filter(|answer| !answer.addresses.is_empty())).is_ok());
        }
    }

    fn ip(text: &str) -> Option<IpAddr> {
        text.parse().ok()
    }

    #[test]
    fn one_question_is_asked_for_all_and_the_addresses_take_turns() {
        Asked::run(async |mut asked| {
            let (first, second) = (asked.resolve("a"), asked.resolve("a"));
            asked.answer("a", &["10.0.0.1", "10.0.0.2"], 60_000).await;
            let both = [first.await.unwrap(), second.await.unwrap()];
            assert!(both.contains(&ip("10.0.0.1")) && both.contains(&ip("10.0.0.2")), "{both:?}");
            asked.resolve("a").await.unwrap();
            assert!(asked.questions.try_recv().is_err(), "the TTL is not over");
        });
    }

    #[test]
    fn what_was_tried_is_tried_last() {
        let known = Known::default();
        let ips: Vec<IpAddr> =
            ["10.0.0.1", "10.0.0.2", "10.0.0.3"].iter().map(|ip| ip.parse().unwrap()).collect();
        assert_eq!(known.turn(&[]), None);
        known.addresses.borrow_mut().clone_from(&ips);
        for _ in 0..4 {
            assert_eq!(known.turn(&ips[..2]), Some(ips[2]));
        }
        assert!(known.turn(&ips).is_some());
    }

    #[test]
    fn the_last_good_answer_outlives_failures() {
        Asked::run(async |mut asked| {
            let first = asked.resolve("a");
            asked.answer("a", &["10.0.0.1"], 0).await;
            assert_eq!(first.await.unwrap(), ip("10.0.0.1"));
            let second = asked.resolve("a");
            asked.answer("a", &[], 0).await;
            assert_eq!(second.await.unwrap(), ip("10.0.0.1"));
            assert_eq!(asked.resolve("a").await.unwrap(), ip("10.0.0.1"), "and is not asked for at once");
            assert!(asked.questions.try_recv().is_err());
        });
    }

    #[test]
    fn more_names_than_are_kept_are_resolved_all_the_same() {
        Asked::run(async |mut asked| {
            for number in 0..NAMES_MAX {
                let addresses = vec![ip("10.0.0.1").unwrap()];
                let answer = Answer { addresses, ttl: Duration::from_secs(60) };
                asked.names.known(&number.to_string()).unwrap().keep(Some(answer));
            }
            let further = asked.resolve("a");
            asked.answer("a", &["10.0.0.2"], 60_000).await;
            assert_eq!(further.await.unwrap(), ip("10.0.0.2"));
            assert_eq!(asked.names.known.borrow().len(), NAMES_MAX);
        });
    }

    #[test]
    fn a_bad_name_disturbs_no_other() {
        Asked::run(async |mut asked| {
            let bad = asked.resolve("bad");
            let waiting = asked.questions.recv().await.unwrap();
            let good = asked.resolve("good");
            asked.answer("good", &["10.0.0.1"], 60_000).await;
            assert_eq!(good.await.unwrap(), ip("10.0.0.1"));
            assert!(waiting.answer.send(None).is_ok());
            assert_eq!(bad.await.unwrap(), None);
            assert_eq!(asked.resolve("bad").await.unwrap(), None, "known to be bad for a while");
            assert!(asked.questions.try_recv().is_err());
        });
    }

    #[test]
    fn a_silent_name_server_holds_up_nobody_who_has_an_answer() {
        Asked::run(async |mut asked| {
            let first = asked.resolve("a");
            asked.answer("a", &["10.0.0.1"], 0).await;
            first.await.unwrap();
            let known = asked.names.known("a").unwrap();
            known.late.set(true);
            assert_eq!(asked.resolve("a").await.unwrap(), ip("10.0.0.1"));
            let late = asked.questions.recv().await.unwrap();
            assert!(asked.questions.try_recv().is_err(), "nor is it asked twice");
            let answer = Answer { addresses: vec![ip("10.0.0.2").unwrap()], ttl: Duration::from_secs(60) };
            assert!(late.answer.send(Some(answer)).is_ok());
            while known.asking.get() {
                tokio::task::yield_now().await;
            }
            assert_eq!(asked.resolve("a").await.unwrap(), ip("10.0.0.2"));
        });
    }
}
