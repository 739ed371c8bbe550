//! The cluster as one: calls go to one member and move on to the next when it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prost::Message;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::EtcdConfig;
use super::failure::Failure;
use super::grpc::{Channel, Stream};
use super::message::{AuthenticateRequest, AuthenticateResponse, RangeRequest, RangeResponse};

/// How long a member may take to accept a connection; on a network that works it takes milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause before a passing refusal (an election) is asked about again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How long one member may keep a call from the others. An election takes a second or two.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether a call may be made twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Twice is as good as once.
    Freely,
    /// Only if it is certain that the first was not done.
    IfUndone,
}

/// The cluster's members and the connection in use.
#[derive(Debug)]
pub(crate) struct Members {
    config: EtcdConfig,
    state: Mutex<State>,
    /// What a member must have before it takes a write.
    floor: Floor,
}

/// The cluster and the revision of the configuration in use; 0 where nothing is expected.
#[derive(Debug, Default)]
struct Floor {
    cluster: AtomicU64,
    revision: AtomicU64,
}

#[derive(Debug)]
struct State {
    channel: Option<Arc<Channel>>,
    /// The member to try next.
    next: usize,
    token: Option<Arc<str>>,
}

impl Members {
    pub(crate) fn new(config: EtcdConfig) -> Self {
        // Nodes that start together don't all lean on the first member.
        let next = usize::try_from(random()).unwrap_or(0) % config.endpoints.len().max(1);
        let state = State { channel: None, next, token: None };
        Self { config, state: Mutex::new(state), floor: Floor::default() }
    }

    /// One request, one answer, from whichever member gives it, within the configured time.
    pub(crate) async fn call<Q: Message, A: Message + Default>(
        &self,
        path: &str,
        request: &Q,
        repeat: Repeat,
    ) -> Result<A, Failure> {
        let deadline = Instant::now() + self.config.timeout;
        let (mut failures, mut last) = (0, None);
        let mut authenticated_again = false;
        loop {
            let failure = match timeout_at(deadline, self.ready()).await {
                Ok(Ok((channel, token))) => {
                    let limit = deadline.min(Instant::now() + self.member_timeout());
                    let call = async {
                        if repeat == Repeat::IfUndone {
                            self.verify(&channel, token.as_deref()).await?;
                        }
                        channel.call(path, request, token.as_deref()).await
                    };
                    let failure = match timeout_at(limit, call).await {
                        Ok(Ok(answer)) => return Ok(answer),
                        Ok(Err(failure)) => failure,
                        Err(_) => Failure::Lost(format!("{}: no answer in time", channel.endpoint())),
                    };
                    if failure.is_stale_token() && self.config.user.is_some() && !authenticated_again {
                        authenticated_again = true;
                        self.state.lock().await.token = None;
                        continue;
                    }
                    if !failure.is_passing() {
                        return Err(failure);
                    }
                    self.leave(&channel).await;
                    failure
                }
                Ok(Err(failure)) if failure.is_passing() => failure,
                // All members keep the same accounts.
                Ok(Err(failure)) => return Err(failure),
                Err(_) => {
                    return Err(last.unwrap_or_else(|| Failure::Unsent("no member in time".to_owned())));
                }
            };
            failures += 1;
            let again = repeat == Repeat::Freely || failure.is_undone();
            // Where every member refuses the connection nobody is there; an election is waited for.
            let nobody = failures >= self.config.endpoints.len() && matches!(failure, Failure::Unsent(_));
            if !again || nobody || Instant::now() + RETRY_PAUSE >= deadline {
                return Err(failure);
            }
            last = Some(failure);
            if failures >= self.config.endpoints.len() {
                sleep(RETRY_PAUSE).await;
            }
        }
    }

    /// Has writes refused by members of another cluster, or of an earlier revision.
    pub(crate) fn expect_at_least(&self, cluster: u64, revision: u64) {
        self.floor.cluster.store(cluster, Ordering::Relaxed);
        self.floor.revision.store(revision, Ordering::Relaxed);
    }

    /// Checks a connection before its first write: between two connections, etcd may have been emptied or restored, and
    /// a write on top of that would be lost or would hide it. A connection stays with one process, so one check will do.
    async fn verify(&self, channel: &Channel, token: Option<&str>) -> Result<(), Failure> {
        let cluster = self.floor.cluster.load(Ordering::Relaxed);
        let revision = self.floor.revision.load(Ordering::Relaxed);
        if revision == 0 || channel.verified.load(Ordering::Relaxed) {
            return Ok(());
        }
        let key = format!("{}/", self.config.prefix.trim_end_matches('/')).into_bytes();
        let request = RangeRequest { key, count_only: true, ..RangeRequest::default() };
        let answer: Result<RangeResponse, Failure> =
            channel.call("/etcdserverpb.KV/Range", &request, token).await;
        let header = answer.map_err(Failure::before_write)?.header.unwrap_or_default();
        let found = super::keys::revision(header.revision);
        if (cluster != 0 && header.cluster_id != cluster) || found < revision {
            return Err(Failure::RolledBack { found, expected: revision });
        }
        channel.verified.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A request that is answered again and again, by one member. The caller begins anew when that fails.
    pub(crate) async fn stream<Q: Message>(&self, path: &str, request: &Q) -> Result<Stream, Failure> {
        let (channel, token) = self.ready().await?;
        let begun = timeout(self.member_timeout(), channel.stream(path, request, token.as_deref())).await;
        let failure = match begun {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::Lost(format!("{}: no answer in time", channel.endpoint())),
        };
        self.forget(&channel, &failure).await;
        Err(failure)
    }

    /// Has the next call go elsewhere, after a stream failed.
    pub(crate) async fn turn_away(&self, failure: &Failure) {
        let channel = self.state.lock().await.channel.clone();
        if let Some(channel) = channel {
            self.forget(&channel, failure).await;
        }
    }

    async fn forget(&self, channel: &Arc<Channel>, failure: &Failure) {
        if failure.is_stale_token() {
            self.state.lock().await.token = None;
        } else {
            self.leave(channel).await;
        }
    }

    /// How long one member may take: all of the configured time where it is the only one.
    fn member_timeout(&self) -> Duration {
        match self.config.endpoints.len() {
            0 | 1 => self.config.timeout,
            _ => self.config.timeout.min(MEMBER_TIMEOUT),
        }
    }

    /// A connection, and the token to use on it.
    async fn ready(&self) -> Result<(Arc<Channel>, Option<Arc<str>>), Failure> {
        let mut state = self.state.lock().await;
        let channel = match state.channel.take().filter(|channel| channel.is_open()) {
            Some(channel) => channel,
            None => self.connect(&mut state).await?,
        };
        state.channel = Some(Arc::clone(&channel));
        if state.token.is_none()
            && let Some((name, password)) = &self.config.user
        {
            let request = AuthenticateRequest { name: name.clone(), password: password.clone() };
            let call = channel.call("/etcdserverpb.Auth/Authenticate", &request, None);
            let answer: Result<AuthenticateResponse, Failure> = timeout(self.member_timeout(), call)
                .await
                .unwrap_or_else(|_| Err(Failure::Lost(format!("{}: no answer in time", channel.endpoint()))));
            match answer {
                Ok(answer) => state.token = Some(answer.token.into()),
                // It keeps no accounts, so it asks for no token.
                Err(Failure::Refused { message, .. })
                    if message.contains("authentication is not enabled") =>
                {
                    tracing::warn!(
                        "etcd keeps no accounts (auth is not enabled); user and password have no use"
                    );
                    state.token = Some("".into());
                }
                Err(failure) => {
                    state.channel = None;
                    state.next += 1;
                    // A token asked for twice harms nobody.
                    return Err(match failure {
                        Failure::Lost(detail) => Failure::Unsent(detail),
                        failure => failure,
                    });
                }
            }
        }
        Ok((channel, state.token.clone().filter(|token| !token.is_empty())))
    }

    /// Connects to the next member.
    async fn connect(&self, state: &mut State) -> Result<Arc<Channel>, Failure> {
        let count = self.config.endpoints.len().max(1);
        let Some(endpoint) = self.config.endpoints.get(state.next % count) else {
            return Err(Failure::Unsent("no member is configured".to_owned()));
        };
        let limit = self.config.timeout.min(CONNECT_TIMEOUT);
        let connected = timeout(limit, Channel::connect(endpoint, self.config.tls.as_ref())).await;
        let failure = match connected {
            Ok(Ok(channel)) => return Ok(Arc::new(channel)),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::Unsent(format!("{endpoint}: no connection in time")),
        };
        state.next += 1;
        Err(failure)
    }

    /// Has the next call go to another member, unless that has been done already.
    async fn leave(&self, channel: &Arc<Channel>) {
        let mut state = self.state.lock().await;
        if state.channel.as_ref().is_some_and(|current| Arc::ptr_eq(current, channel)) {
            state.channel = None;
            state.next += 1;
        }
    }
}

/// Bits that differ from node to node.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
