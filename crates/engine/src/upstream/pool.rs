//! Idle connections to one address, last in, first out.

use snapshot::Keepalive;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::net::TcpStream;

use super::Connection;

/// How often idle connections are looked at.
const SWEEP_MS: u64 = 1000;

/// All pools of a worker.
#[derive(Default)]
pub(crate) struct Pools {
    by_address: RefCell<HashMap<(SocketAddr, KeepaliveKey), Rc<AddrPool>>>,
    swept_ms: std::cell::Cell<u64>,
}

/// Pools with different settings are different pools.
type KeepaliveKey = (u32, Option<u128>, u64);

/// The idle connections to one address.
pub(crate) struct AddrPool {
    pub(crate) address: SocketAddr,
    /// The address as logs show it: `127.0.0.1:1980`.
    pub(crate) text: Rc<str>,
    /// Length of the part before the port.
    pub(crate) ip_len: usize,
    pub(crate) keepalive: Keepalive,
    /// Longest idle first.
    idle: RefCell<Vec<Idle>>,
}

struct Idle {
    connection: Box<Connection>,
    since_ms: u64,
}

impl Pools {
    /// The pool of `address` under these settings.
    pub(crate) fn at(&self, address: SocketAddr, keepalive: Keepalive) -> Rc<AddrPool> {
        let key = (keepalive.size, keepalive.idle_timeout.map(|t| t.as_millis()), keepalive.requests);
        let mut pools = self.by_address.borrow_mut();
        Rc::clone(pools.entry((address, key)).or_insert_with(|| Rc::new(AddrPool::new(address, keepalive))))
    }

    /// Closes connections that idled too long or that the other side closed, and forgets pools that nobody uses.
    pub(crate) fn sweep(&self, now_ms: u64) {
        if now_ms < self.swept_ms.get() + SWEEP_MS {
            return;
        }
        self.swept_ms.set(now_ms);
        self.by_address.borrow_mut().retain(|_, pool| {
            pool.sweep(now_ms);
            Rc::strong_count(pool) > 1 || !pool.idle.borrow().is_empty()
        });
    }
}

impl AddrPool {
    fn new(address: SocketAddr, keepalive: Keepalive) -> Self {
        let text = address.to_string();
        let ip_len = text.rfind(':').unwrap_or(text.len());
        Self { address, text: text.into(), ip_len, keepalive, idle: RefCell::default() }
    }

    /// An idle connection that is still open, if there is one.
    #[inline]
    pub(crate) fn take(&self) -> Option<Box<Connection>> {
        loop {
            let Idle { mut connection, .. } = self.idle.borrow_mut().pop()?;
            // Readable while idle: the other side closed it, or speaks out of turn.
            if is_quiet(&connection.stream) {
                connection.reused = true;
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next request, if it may carry one and there is room: when full, the one that idles
    /// longest makes it.
    pub(crate) fn put(&self, connection: Box<Connection>, now_ms: u64) {
        if connection.requests >= self.keepalive.requests {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.keepalive.size as usize {
            if idle.is_empty() {
                return;
            }
            idle.remove(0);
        }
        idle.push(Idle { connection, since_ms: now_ms });
    }

    fn sweep(&self, now_ms: u64) {
        let limit_ms =
            self.keepalive.idle_timeout.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        self.idle.borrow_mut().retain(|idle| {
            let fresh = limit_ms.is_none_or(|limit| now_ms.saturating_sub(idle.since_ms) < limit);
            fresh && is_quiet(&idle.connection.stream)
        });
    }
}

/// Whether nothing has come on a connection since its last response. A look at the readiness that the event loop
/// noted; a system call only where it noted some.
#[inline]
fn is_quiet(stream: &TcpStream) -> bool {
    stream.try_read(&mut [0u8; 1]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}
