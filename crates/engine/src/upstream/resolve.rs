//! Names of nodes: resolved at run time, away from the workers, by DNS and `/etc/hosts`; each worker keeps the answers
//! for as long as their TTL says, and the last good one for as long as no newer can be had.

use crate::error::{ErrorKind, ProxyError, Side};
use crate::timer::Timer;
use hickory_resolver::TokioResolver;
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Questions that may wait for the resolver; further ones fail at once.
const QUESTIONS_MAX: usize = 1024;

/// Names a worker keeps the answers for.
const NAMES_MAX: usize = 4096;

/// An answer is kept this long at least, so that a TTL of 0 does not mean a question per request.
const TTL_MIN: Duration = Duration::from_secs(1);

/// How long the last good answer serves after a failure, before the name is asked for again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The resolver's thread, as workers see it.
#[derive(Debug, Clone)]
pub(crate) struct Resolver(mpsc::Sender<Question>);

struct Question {
    name: String,
    answer: oneshot::Sender<Option<Answer>>,
}

struct Answer {
    addresses: Vec<IpAddr>,
    ttl: Duration,
}

impl Resolver {
    /// Starts the resolver's thread, which ends when the last handle is gone.
    pub(crate) fn start() -> io::Result<(Self, JoinHandle<()>)> {
        let (sender, questions) = mpsc::channel(QUESTIONS_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new()
            .name("resolver".to_owned())
            .spawn(move || runtime.block_on(answer_all(questions)))?;
        Ok((Self(sender), thread))
    }

    /// The addresses of `name`; none where it can't be resolved.
    pub(crate) async fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let answer = match self.ask(name) {
            Some(receiver) => receiver.await.ok().flatten(),
            None => None,
        };
        answer.map_or_else(Vec::new, |answer| answer.addresses)
    }

    fn ask(&self, name: &str) -> Option<oneshot::Receiver<Option<Answer>>> {
        let (answer, receiver) = oneshot::channel();
        self.0.try_send(Question { name: name.to_owned(), answer }).ok()?;
        Some(receiver)
    }
}

async fn answer_all(mut questions: mpsc::Receiver<Question>) {
    let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
    let resolver = match resolver {
        Ok(resolver) => resolver,
        Err(error) => {
            tracing::error!(%error, "no name can be resolved: the system's resolver configuration is unusable");
            return;
        }
    };
    while let Some(Question { name, answer }) = questions.recv().await {
        let resolver = resolver.clone();
        tokio::spawn(async move {
            // The worker may have given up: then nobody listens.
            let _ = answer.send(look_up(&resolver, &name).await);
        });
    }
}

async fn look_up(resolver: &TokioResolver, name: &str) -> Option<Answer> {
    match resolver.lookup_ip(name).await {
        Ok(found) => {
            let ttl = found.valid_until().saturating_duration_since(Instant::now());
            let mut addresses: Vec<IpAddr> = found.iter().collect();
            // APISIX asks for AAAA records only where a name has no A record. What listens on `localhost` listens on
            // 127.0.0.1 more often than on ::1.
            if addresses.iter().any(IpAddr::is_ipv4) {
                addresses.retain(IpAddr::is_ipv4);
            }
            Some(Answer { addresses, ttl: ttl.max(TTL_MIN) })
        }
        Err(error) => {
            tracing::error!(name, %error, "a name can't be resolved");
            None
        }
    }
    .filter(|answer| !answer.addresses.is_empty())
}

/// The names a worker has asked for.
#[derive(Debug)]
pub(crate) struct Names {
    resolver: Resolver,
    known: RefCell<HashMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    addresses: Vec<IpAddr>,
    expires_ms: u64,
    /// Whose turn it is.
    next: usize,
}

impl Names {
    pub(crate) fn new(resolver: Resolver) -> Self {
        Self { resolver, known: RefCell::default() }
    }

    /// An address of `name`, each in turn; `timer` limits the wait for the resolver.
    pub(crate) async fn resolve(&self, name: &str, timer: &Timer, now_ms: u64) -> Result<IpAddr, ProxyError> {
        if let Some(address) = self.next(name, now_ms, false) {
            return Ok(address);
        }
        let answer = match self.resolver.ask(name) {
            Some(receiver) => wait(receiver, timer).await,
            None => None,
        };
        self.keep(name, answer, now_ms);
        self.next(name, now_ms, true).ok_or(
            ProxyError::new(Side::Upstream, ErrorKind::Name, "the node's name can't be resolved").retriable(),
        )
    }

    fn next(&self, name: &str, now_ms: u64, stale: bool) -> Option<IpAddr> {
        let mut known = self.known.borrow_mut();
        let known = known.get_mut(name).filter(|known| stale || now_ms < known.expires_ms)?;
        known.next = known.next.wrapping_add(1);
        known.addresses.get(known.next % known.addresses.len().max(1)).copied()
    }

    fn keep(&self, name: &str, answer: Option<Answer>, now_ms: u64) {
        let after =
            |wait: Duration| now_ms.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let mut all = self.known.borrow_mut();
        match (all.get_mut(name), answer) {
            (Some(known), Some(Answer { addresses, ttl })) => {
                known.addresses = addresses;
                known.expires_ms = after(ttl);
            }
            (Some(known), None) => known.expires_ms = after(RETRY_AFTER),
            (None, Some(Answer { addresses, ttl })) => {
                if all.len() >= NAMES_MAX {
                    all.retain(|_, known| now_ms < known.expires_ms);
                }
                if all.len() < NAMES_MAX {
                    all.insert(name.to_owned(), Known { addresses, expires_ms: after(ttl), next: 0 });
                }
            }
            (None, None) => {}
        }
    }
}

async fn wait(receiver: oneshot::Receiver<Option<Answer>>, timer: &Timer) -> Option<Answer> {
    let mut receiver = pin!(receiver);
    poll_fn(|cx| match receiver.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(answer.ok().flatten()),
        Poll::Pending if timer.expired() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}
