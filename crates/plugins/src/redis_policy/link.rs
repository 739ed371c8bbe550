//! A connection to one server, which many operations share: commands are sent one after the other without waiting for
//! the replies before.

use super::endpoint::Endpoint;
use super::fault::Fault;
use plugin::{CallErrorKind, Io, Services, UpstreamChoice};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, Value};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// Operations that wait for replies on one connection. With keys of some 100 bytes they take 1 MiB.
const UNDER_WAY_MAX: usize = 4096;

/// Bytes that a server may send without completing a reply. All replies to [`UNDER_WAY_MAX`] scripts take 256 KiB, and the
/// slots of a cluster of 1,000 nodes 200 KiB.
const UNANSWERED_BYTES_MAX: usize = 4 << 20;

/// A connection that is logged in. It is closed when the last holder drops it.
pub(super) struct Link {
    connection: MultiplexedConnection,
    shared: Arc<Shared>,
    reply_timeout: Duration,
    /// Dropping it ends the task that reads and writes.
    _task: oneshot::Sender<Infallible>,
}

/// What a connection shares with the task that reads and writes.
#[derive(Default)]
struct Shared {
    closed: AtomicBool,
    under_way: AtomicUsize,
    /// Operations so far.
    used: AtomicU64,
    /// Bytes read since the last reply was complete.
    unanswered_bytes: AtomicUsize,
}

impl Link {
    /// Connects to `endpoint`, whose compiled form is `upstream`, and logs in.
    pub(super) async fn open(
        endpoint: &Endpoint,
        upstream: &UpstreamChoice,
        services: &Rc<dyn Services>,
    ) -> Result<Self, Fault> {
        let timeouts = endpoint.access.timeouts;
        let stream =
            services.connect(upstream, timeouts.connect).await.map_err(|error| match error.kind {
                CallErrorKind::Timeout => Fault::Timeout("timed out while connecting to Redis"),
                _ => Fault::Unreachable(error.reason.to_owned()),
            })?;
        let shared = Arc::<Shared>::default();
        let stream = Bounded { stream, shared: Arc::clone(&shared) };
        // Deadlines are this file's, and so is logging in: its errors are told apart.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let opened = MultiplexedConnection::new_with_config(&info, stream, config).await;
        let (connection, driver) = opened.map_err(|error| Fault::of(&error))?;
        let (task, ended) = oneshot::channel();
        let driven = drive(driver, ended, Arc::clone(&shared), Rc::clone(services), timeouts.idle);
        services.spawn(Box::pin(driven)).detach();
        let link = Self { connection, shared, reply_timeout: timeouts.reply, _task: task };
        link.log_in(endpoint).await?;
        Ok(link)
    }

    async fn log_in(&self, endpoint: &Endpoint) -> Result<(), Fault> {
        let access = &endpoint.access;
        // As in APISIX, a name alone is not shown to the server.
        if !access.password.is_empty() {
            let mut auth = redis::cmd("AUTH");
            if let Some(username) = &access.username {
                auth.arg(username);
            }
            auth.arg(access.password.as_str());
            self.ask(&auth, false).await?;
        }
        if access.database != 0 {
            let selected = self.ask(redis::cmd("SELECT").arg(access.database), false).await;
            selected.map_err(|fault| match fault {
                Fault::Refused { code, detail } => Fault::Refused {
                    code: "failed to change redis db, err:".into(),
                    detail: format!("{code} {detail}"),
                },
                other => other,
            })?;
        }
        Ok(())
    }

    /// Whether commands can be sent, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.shared.closed.load(Ordering::Acquire)
    }

    /// Sends `command` and returns the reply. `asking` tells a node of a cluster that it is asked for a slot that is
    /// still on its way there.
    pub(super) async fn ask(&self, command: &Cmd, asking: bool) -> Result<Value, Fault> {
        let _under_way = UnderWay::begin(&self.shared)?;
        let mut connection = self.connection.clone();
        let reply = async {
            if !asking {
                return connection.send_packed_command(command).await;
            }
            // The two reach the server together, whoever else sends.
            let mut both = redis::pipe();
            both.cmd("ASKING").add_command(command.clone());
            let replies = connection.send_packed_commands(&both, 0, 2).await?;
            Ok(replies.into_iter().next_back().unwrap_or_default())
        };
        match tokio::time::timeout(self.reply_timeout, reply).await {
            Ok(Ok(reply)) => {
                self.shared.unanswered_bytes.store(0, Ordering::Relaxed);
                match reply {
                    Value::ServerError(error) => Err(Fault::refused(&error)),
                    reply => Ok(reply),
                }
            }
            Ok(Err(error)) => {
                self.close();
                Err(Fault::of(&error))
            }
            // Replies come in order: whoever waits behind this one would wait for it.
            Err(_) => {
                self.close();
                Err(Fault::Timeout("timed out while waiting for Redis' reply"))
            }
        }
    }

    /// Lets no further operation use it.
    fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

/// Reads and writes until the connection fails, nobody holds it any more, or nobody used it for a while.
async fn drive(
    driver: impl Future<Output = ()>,
    ended: oneshot::Receiver<Infallible>,
    shared: Arc<Shared>,
    services: Rc<dyn Services>,
    idle_timeout: Duration,
) {
    let idle = async {
        loop {
            let used = shared.used.load(Ordering::Relaxed);
            services.sleep(idle_timeout).await;
            let unused = used == shared.used.load(Ordering::Relaxed);
            if unused && shared.under_way.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    };
    tokio::select! {
        () = driver => {}
        _ = ended => {}
        () = idle => {}
    }
    shared.closed.store(true, Ordering::Release);
}

/// One operation that waits, counted until it is dropped.
struct UnderWay<'l>(&'l Shared);

impl<'l> UnderWay<'l> {
    fn begin(shared: &'l Shared) -> Result<Self, Fault> {
        if shared.under_way.fetch_add(1, Ordering::Relaxed) >= UNDER_WAY_MAX {
            shared.under_way.fetch_sub(1, Ordering::Relaxed);
            return Err(Fault::Unreachable("too many operations wait for Redis".to_owned()));
        }
        shared.used.fetch_add(1, Ordering::Relaxed);
        Ok(Self(shared))
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that fails where the server sends more than any reply may have.
struct Bounded {
    stream: Box<dyn Io>,
    shared: Arc<Shared>,
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, into);
        let read = into.filled().len() - before;
        let unanswered = self.shared.unanswered_bytes.fetch_add(read, Ordering::Relaxed) + read;
        if unanswered > UNANSWERED_BYTES_MAX {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the reply is too large")));
        }
        polled
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
