//! Requests under way, counted in Redis: a sorted set for each key, of requests by the second in which they expire.

use crate::redis_policy::{Client, Fault, Redis, Request, Script, numbers};
use plugin::{Exchange, Shared};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use stdx::{Clock, Moment};

/// Counts one more request, if there is room. Arguments: how many there may be, for how many seconds the request counts,
/// the time in seconds, and the request's name. A request that was counted before, on a connection that broke, is not counted
/// again. Returns whether there was room, and how many there are now.
static ENTER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3])
local present = redis.call('ZCARD', KEYS[1])
if redis.call('ZSCORE', KEYS[1], ARGV[4]) then
    return {1, present}
end
if present >= tonumber(ARGV[1]) then
    return {0, present}
end
present = present + redis.call('ZADD', KEYS[1], ARGV[3] + ARGV[2], ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return {1, present}",
    )
});

/// What counts in Redis.
pub(super) struct Remote {
    redis: Redis,
    key_ttl_s: u64,
    names: Arc<Names>,
}

/// Names for requests, different from those of all other processes.
struct Names {
    process: u64,
    last: AtomicU64,
    clock: Clock,
}

impl Default for Names {
    fn default() -> Self {
        Self { process: stdx::hash::seed(), last: AtomicU64::new(0), clock: Clock::new() }
    }
}

/// One request of one key. Dropping it counts it no more.
pub(super) struct Presence {
    client: Client,
    key: Vec<u8>,
    /// What the delay is made from.
    pub(super) conn: u64,
    most: u64,
    key_ttl_s: u64,
    names: Arc<Names>,
    /// The request's name, once Redis may know it.
    name: Option<String>,
}

impl Remote {
    pub(super) fn new(redis: Redis, key_ttl_s: u64, shared: &Shared) -> Self {
        Self { redis, key_ttl_s, names: shared.get() }
    }

    /// A request that is yet to be counted, for each key with its `conn` and `burst`.
    pub(super) fn presences(&self, keys: Vec<(Vec<u8>, u64, u64)>, exchange: &Exchange<'_>) -> Vec<Presence> {
        let client = self.redis.client(exchange);
        let presence = |(key, conn, burst): (Vec<u8>, u64, u64)| Presence {
            client: client.clone(),
            key: [b"limit_conn:", key.as_slice()].concat(),
            conn,
            most: conn.saturating_add(burst),
            key_ttl_s: self.key_ttl_s,
            names: Arc::clone(&self.names),
            name: None,
        };
        keys.into_iter().map(presence).collect()
    }
}

impl Presence {
    /// Counts the request: how many there are now; `None` where there is no room.
    pub(super) async fn enter(&mut self) -> Result<Option<u64>, Fault> {
        let number = self.names.last.fetch_add(1, Ordering::Relaxed);
        let name = format!("{:016x}-{number}", self.names.process);
        let now_s = self.names.clock.unix_ms(Moment::now()) / 1000;
        let request = Request::script(&ENTER)
            .key(self.key.as_slice())
            .number(self.most)
            .number(self.key_ttl_s)
            .number(now_s)
            .arg(name.as_str());
        // From here on it may count, also where the client leaves before the reply.
        self.name = Some(name);
        let [admitted, present] = numbers(&self.client.ask(&request).await?)?;
        if admitted == 0.0 {
            self.name = None;
            return Ok(None);
        }
        Ok(Some(present as u64))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            let request = Request::command("ZREM").key(self.key.as_slice()).arg(name);
            self.client.ask_later(request, "failed to record the connection leaving request");
        }
    }
}
