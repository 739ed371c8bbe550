//! Idle connections to one address, last in, first out.

use snapshot::Keepalive;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

use super::Connection;
use super::multiplexed::Multiplexed;
use super::secure::{Secure, Session};

/// How often idle connections are looked at.
const SWEEP_MS: u64 = 1000;

/// Pools of one worker: as many addresses and names as 64 upstreams of 64 nodes have.
const POOLS_MAX: usize = 4096;

/// All pools of a worker.
#[derive(Default)]
pub(crate) struct Pools {
    by_address: RefCell<HashMap<PoolKey, Rc<AddrPool>>>,
    swept_ms: std::cell::Cell<u64>,
}

/// Pools with different settings are different pools.
type PoolKey = (SocketAddr, (u32, Option<u128>, u64), Option<Session>, Protocol);

/// What is spoken on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    /// HTTP/1.1: one request after the other.
    Http1,
    /// HTTP/2: many at a time.
    Http2,
    /// What the client of a stream route says.
    Opaque,
}

/// The idle connections to one address.
pub(crate) struct AddrPool {
    pub(crate) address: SocketAddr,
    /// The address as logs show it: `127.0.0.1:1980`.
    pub(crate) text: Rc<str>,
    /// Length of the part before the port.
    pub(crate) ip_len: usize,
    pub(crate) keepalive: Keepalive,
    /// How its connections are encrypted; `None`: not at all.
    pub(crate) secure: Option<Secure>,
    /// What is spoken on its connections.
    pub(crate) protocol: Protocol,
    /// Its HTTP/2 connections; `None` where something else is spoken.
    pub(crate) multiplexed: Option<Multiplexed>,
    /// Longest idle first.
    idle: RefCell<Vec<Idle>>,
}

struct Idle {
    connection: Box<Connection>,
    since_ms: u64,
}

impl Pools {
    /// The pool of `address` under these settings; its connections are encrypted where `secure` says how.
    pub(crate) fn at(
        &self,
        address: SocketAddr,
        keepalive: Keepalive,
        secure: Option<Secure>,
        protocol: Protocol,
    ) -> Rc<AddrPool> {
        let key = (keepalive.size, keepalive.idle_timeout.map(|t| t.as_millis()), keepalive.requests);
        let session = secure.as_ref().map(|secure| secure.session.clone());
        let mut pools = self.by_address.borrow_mut();
        // Clients may choose the name; who makes up names without end gets connections that nobody keeps.
        let keepalive = if pools.len() < POOLS_MAX { keepalive } else { Keepalive { size: 0, ..keepalive } };
        let make = || Rc::new(AddrPool::new(address, keepalive, secure, protocol));
        Rc::clone(pools.entry((address, key, session, protocol)).or_insert_with(make))
    }

    /// Forgets pools of encrypted connections from before the generation `trust`; their idle connections are closed.
    pub(crate) fn keep_trusted(&self, trust: u64) {
        self.by_address
            .borrow_mut()
            .retain(|(_, _, session, _), _| session.as_ref().is_none_or(|session| session.trust == trust));
    }

    /// Closes connections that idled too long or that the other side closed, and forgets pools that nobody uses.
    pub(crate) fn sweep(&self, now_ms: u64) {
        if now_ms < self.swept_ms.get() + SWEEP_MS {
            return;
        }
        self.swept_ms.set(now_ms);
        self.by_address.borrow_mut().retain(|_, pool| {
            pool.sweep(now_ms);
            let empty =
                pool.idle.borrow().is_empty() && pool.multiplexed.as_ref().is_none_or(Multiplexed::is_empty);
            Rc::strong_count(pool) > 1 || !empty
        });
    }
}

impl AddrPool {
    fn new(address: SocketAddr, keepalive: Keepalive, secure: Option<Secure>, protocol: Protocol) -> Self {
        let multiplexed = (protocol == Protocol::Http2).then(Multiplexed::default);
        let text = address.to_string();
        let ip_len = text.rfind(':').unwrap_or(text.len());
        let (text, idle) = (text.into(), RefCell::default());
        Self { address, text, ip_len, keepalive, secure, protocol, multiplexed, idle }
    }

    /// An idle connection that is still open, if there is one.
    #[inline]
    pub(crate) fn take(&self) -> Option<Box<Connection>> {
        if let Some(multiplexed) = &self.multiplexed {
            return multiplexed.stream(self.keepalive.requests, self.secure.is_some());
        }
        loop {
            let Idle { mut connection, .. } = self.idle.borrow_mut().pop()?;
            // Readable while idle: the other side closed it, or speaks out of turn.
            if connection.stream.is_quiet() {
                connection.reused = true;
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next request, if it may carry one and there is room: when full, the one that idles
    /// longest makes it.
    #[inline]
    pub(crate) fn put(&self, connection: Box<Connection>, now_ms: u64) {
        // A stream of HTTP/2 has carried what it carries; its connection was never away.
        if connection.requests >= self.keepalive.requests || self.multiplexed.is_some() {
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
        if let Some(multiplexed) = &self.multiplexed {
            multiplexed.sweep(now_ms, limit_ms);
        }
        self.idle.borrow_mut().retain(|idle| {
            let fresh = limit_ms.is_none_or(|limit| now_ms.saturating_sub(idle.since_ms) < limit);
            fresh && idle.connection.stream.is_quiet()
        });
    }
}
