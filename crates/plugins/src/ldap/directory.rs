//! A directory server: its connections, and what is asked on them.

use super::ber::{Extent, extent};
use super::message::{self, Answer, Search};
use crate::idle::Idle;
use model::ConfigError;
use plugin::{CallError, CompileContext, Exchange, Io, Services, UpstreamChoice};
use serde_json::json;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Moment, PerWorker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes of one message. An entry without attributes is a name of at most some kilobytes.
const MESSAGE_MAX: usize = 64 * 1024;

/// Messages that a search may bring. The server is asked for two entries.
const MESSAGES_MAX: usize = 1024;

/// How a directory server is reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectoryConfig<'c> {
    /// `host` or `host:port`.
    pub(crate) address: &'c str,
    pub(crate) tls: bool,
    pub(crate) verify: bool,
    /// How long connecting may take, and each operation.
    pub(crate) timeout: Duration,
    /// Idle connections that each worker keeps.
    pub(crate) pool: usize,
    pub(crate) idle: Duration,
}

/// A directory server, compiled.
pub(crate) struct Directory {
    upstream: UpstreamChoice,
    timeout: Duration,
    idle: Duration,
    pool: usize,
    workers: PerWorker<Arc<Idle<Connection>>>,
}

/// Why a server's answer is not known.
#[derive(Debug)]
pub(crate) enum LdapError {
    /// It can't be reached.
    Unreachable(CallError),
    /// It was silent for too long.
    Late,
    /// The connection ended.
    Closed,
    /// It sent what is no answer.
    Malformed,
    /// A search failed with this result code.
    Failed(u32),
}

impl fmt::Display for LdapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "cannot connect: {error}"),
            Self::Late => f.write_str("timed out while waiting for the answer"),
            Self::Closed => f.write_str("the server closed the connection"),
            Self::Malformed => f.write_str("the server sent a malformed message"),
            Self::Failed(code) => write!(f, "the server answered with result code {code}"),
        }
    }
}

impl Directory {
    /// Compiles the server; an address without a port has `default_port`.
    ///
    /// # Errors
    /// An address that is none; its path is `path`.
    pub(crate) fn compile(
        config: DirectoryConfig<'_>,
        default_port: u16,
        path: &str,
        cx: &CompileContext<'_>,
    ) -> Result<Self, Vec<ConfigError>> {
        let bad = || {
            vec![ConfigError::new(
                path,
                format!("not an address of the form host:port: \"{}\"", config.address),
            )]
        };
        let (host, port) = split(config.address).ok_or_else(bad)?;
        let port = port.unwrap_or(default_port);
        let upstream = cx.upstream(&json!({
            "type": "roundrobin",
            "scheme": if config.tls { "tls" } else { "tcp" },
            "pass_host": "node",
            "nodes": [{ "host": host, "port": port, "weight": 1 }],
            "retries": 0,
            "tls": { "verify": config.verify },
        }))?;
        Ok(Self {
            upstream,
            timeout: config.timeout,
            idle: config.idle,
            pool: config.pool,
            workers: PerWorker::new(Arc::default),
        })
    }

    /// What asks on the exchange's worker.
    pub(crate) fn client(&self, exchange: &Exchange<'_>) -> Client {
        let now = exchange.timing.started;
        let idle = self.workers.with(exchange.worker, |idle| Arc::clone(idle));
        let kept = idle.take(now, self.idle);
        Client {
            upstream: self.upstream.clone(),
            timeout: self.timeout,
            pool: self.pool,
            services: Rc::clone(exchange.services),
            idle,
            now,
            connection: kept,
        }
    }
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
fn split(address: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    let is_host = !host.is_empty() && !host.contains(['/', ' ', '@']);
    let port = match port {
        Some(port) => Some(port.parse().ok().filter(|port| *port > 0)?),
        None => None,
    };
    is_host.then_some((host, port))
}

/// What asks a directory for one exchange. Each bind changes whom the connection belongs to, so nobody shares it.
pub(crate) struct Client {
    upstream: UpstreamChoice,
    timeout: Duration,
    pool: usize,
    services: Rc<dyn Services>,
    idle: Arc<Idle<Connection>>,
    now: Moment,
    connection: Option<Connection>,
}

impl Client {
    /// Whether the server takes `password` for `name`: the result code, 0 for yes. The password must not be empty unless the
    /// name is: that would be a bind as nobody (RFC 4513 section 5.1.2), which servers accept.
    pub(crate) async fn bind(&mut self, name: &str, password: &str) -> Result<u32, LdapError> {
        if let Some(mut kept) = self.connection.take()
            && let Ok(code) = kept.bind(name, password, self.timeout).await
        {
            self.connection = Some(kept);
            return Ok(code);
        }
        // The one that was kept may have been closed long ago.
        let stream = self.services.connect(&self.upstream, self.timeout).await;
        let mut connection = Connection::new(stream.map_err(LdapError::Unreachable)?);
        let code = connection.bind(name, password, self.timeout).await?;
        self.connection = Some(connection);
        Ok(code)
    }

    /// The names of the entries that `search` finds.
    pub(crate) async fn search(&mut self, search: &Search<'_>) -> Result<Vec<String>, LdapError> {
        let connection = self.connection.as_mut().ok_or(LdapError::Closed)?;
        let found = connection.search(search, self.timeout).await;
        if found.is_err() {
            self.connection = None;
        }
        found
    }

    /// Keeps the connection for a later exchange.
    pub(crate) fn keep(self) {
        let Some(connection) = self.connection.filter(|connection| connection.unread.is_empty()) else {
            return;
        };
        self.idle.keep(connection, self.now, self.pool);
    }
}

/// A connection to a server.
struct Connection {
    stream: Box<dyn Io>,
    unread: Vec<u8>,
    last_id: u32,
}

impl Connection {
    fn new(stream: Box<dyn Io>) -> Self {
        Self { stream, unread: Vec::new(), last_id: 0 }
    }

    async fn bind(&mut self, name: &str, password: &str, timeout: Duration) -> Result<u32, LdapError> {
        let id = self.next_id();
        within(timeout, async {
            self.send(&message::bind(id, name, password)).await?;
            match self.receive(id).await? {
                Answer::Bound(code) => Ok(code),
                _ => Err(LdapError::Malformed),
            }
        })
        .await
    }

    async fn search(&mut self, search: &Search<'_>, timeout: Duration) -> Result<Vec<String>, LdapError> {
        let id = self.next_id();
        within(timeout, async {
            self.send(&message::search(id, search)).await?;
            let mut names = Vec::new();
            for _ in 0..MESSAGES_MAX {
                match self.receive(id).await? {
                    Answer::Entry(name) => names.push(name),
                    Answer::Reference => {}
                    Answer::Done(0) => return Ok(names),
                    Answer::Done(code) => return Err(LdapError::Failed(code)),
                    Answer::Bound(_) => return Err(LdapError::Malformed),
                }
            }
            Err(LdapError::Malformed)
        })
        .await
    }

    fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id % 0x7fff_ffff + 1;
        self.last_id
    }

    async fn send(&mut self, message: &[u8]) -> Result<(), LdapError> {
        let sent = async {
            self.stream.write_all(message).await?;
            self.stream.flush().await
        };
        sent.await.map_err(|_| LdapError::Closed)
    }

    /// Reads the next message, which has to be an answer to `id`.
    async fn receive(&mut self, id: u32) -> Result<Answer, LdapError> {
        loop {
            match extent(&self.unread) {
                Extent::Malformed => return Err(LdapError::Malformed),
                Extent::Known(length) if length > MESSAGE_MAX => return Err(LdapError::Malformed),
                Extent::Known(length) if length <= self.unread.len() => {
                    let message: Vec<u8> = self.unread.drain(..length).collect();
                    let (of, answer) = message::answer(&message).ok_or(LdapError::Malformed)?;
                    return if of == id { Ok(answer) } else { Err(LdapError::Malformed) };
                }
                _ => {}
            }
            if self.stream.read_buf(&mut self.unread).await.map_err(|_| LdapError::Closed)? == 0 {
                return Err(LdapError::Closed);
            }
        }
    }
}

async fn within<T>(
    timeout: Duration,
    operation: impl Future<Output = Result<T, LdapError>>,
) -> Result<T, LdapError> {
    tokio::time::timeout(timeout, operation).await.unwrap_or(Err(LdapError::Late))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_split() {
        for (address, expected) in [
            ("a.test", Some(("a.test", None))),
            ("a.test:1389", Some(("a.test", Some(1389)))),
            ("[::1]:389", Some(("::1", Some(389)))),
            ("[::1]", Some(("::1", None))),
            ("", None),
            (":389", None),
            ("a:b", None),
            ("a:0", None),
            ("ldap://a:389", None),
            ("a/b", None),
        ] {
            assert_eq!(split(address), expected, "{address}");
        }
    }
}
