//! Names of nodes: resolved at run time, away from the workers, by DNS and `/etc/hosts`.

use discovery::names::Asking;
use hickory_resolver::TokioResolver;
use std::io;
use std::net::IpAddr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Questions that may wait for the resolver; further ones fail at once.
const QUESTIONS_MAX: usize = 1024;

/// An answer is kept this long at least, so that a TTL of 0 does not mean a question per request.
const TTL_MIN: Duration = Duration::from_secs(1);

/// The resolver's thread, as workers see it.
#[derive(Debug, Clone)]
pub(crate) struct Resolver(mpsc::Sender<Question>);

/// A name that a worker wants to know the addresses of.
pub(super) struct Question {
    pub(super) name: String,
    pub(super) answer: oneshot::Sender<Option<Answer>>,
}

/// The addresses of a name; there is one at least.
pub(super) struct Answer {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) ttl: Duration,
}

impl Resolver {
    /// Starts the resolver's thread, which ends when the last handle is gone.
    pub(crate) fn start(asking: &Asking) -> io::Result<(Self, JoinHandle<()>)> {
        let (resolver, questions) = Self::unanswered();
        let asking = asking.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new()
            .name("resolver".to_owned())
            .spawn(move || runtime.block_on(answer_all(questions, asking)))?;
        Ok((resolver, thread))
    }

    /// One whose questions somebody else answers.
    pub(super) fn unanswered() -> (Self, mpsc::Receiver<Question>) {
        let (sender, questions) = mpsc::channel(QUESTIONS_MAX);
        (Self(sender), questions)
    }

    /// The addresses of `name`; none where it can't be resolved.
    pub(crate) async fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let answer = match self.ask(name) {
            Some(receiver) => receiver.await.ok().flatten(),
            None => None,
        };
        answer.map_or_else(Vec::new, |answer| answer.addresses)
    }

    /// Asks for a name; `None` where too many questions wait.
    pub(super) fn ask(&self, name: &str) -> Option<oneshot::Receiver<Option<Answer>>> {
        let (answer, receiver) = oneshot::channel();
        self.0.try_send(Question { name: name.to_owned(), answer }).ok()?;
        Some(receiver)
    }
}

async fn answer_all(mut questions: mpsc::Receiver<Question>, asking: Asking) {
    let resolver = match asking.resolver() {
        Ok(resolver) => resolver,
        Err(error) => {
            tracing::error!(%error, "no name can be resolved: the resolver can't be set up");
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
