//! Windows in Redis, which several gateways count in. Keys and values are those of APISIX 3.18, so that gateways of both
//! kinds share the counters of a group.

use super::outcome::{Outcome, remaining};
use crate::redis_policy::{Client, Fault, Request, Script, number, numbers};
use redis::Value;
use std::sync::LazyLock;
use stdx::window::Slid;
use stdx::{Clock, Moment};

/// The longest window in milliseconds, 30,000 years: Redis refuses to add more to the time of day.
const LENGTH_MS_MAX: u64 = 1_000_000_000_000_000;

/// Counts in a window that begins with a key's first request. Arguments: the cost, the window's length in milliseconds.
/// Returns what was counted in all, and the milliseconds that are left.
static FIXED: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local left = redis.call('PTTL', KEYS[1])
if left < 0 then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return {tonumber(ARGV[1]), tonumber(ARGV[2])}
end
return {redis.call('INCRBY', KEYS[1], ARGV[1]), left}",
    )
});

/// Counts in a window that slides with the clock, if there is room. Keys: the running window's counter, and the one before
/// it where both are on one server. Arguments: the cost, the limit, the window's length and what is left of it in
/// milliseconds, `1` to count even where there is no room, and the count of the window before where its key is not given.
/// Returns whether it was counted, the running window's count, and that of the one before, at most the limit.
static SLIDING: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local cost, limit, length, left = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local before = ARGV[6]
if KEYS[2] then
    before = redis.call('GET', KEYS[2])
end
before = math.min(tonumber(before or 0) or 0, limit)
local running = tonumber(redis.call('GET', KEYS[1]) or 0)
local full = running >= limit or before * left / length + running >= limit
if full and ARGV[5] ~= '1' then
    return {0, running, before}
end
running = redis.call('INCRBY', KEYS[1], ARGV[1])
if redis.call('PTTL', KEYS[1]) < 0 then
    redis.call('PEXPIRE', KEYS[1], 2 * length)
end
return {1, running, before}",
    )
});

/// The windows of one limit, by key.
pub(super) struct SharedWindows {
    /// What the keys of fixed windows begin with.
    fixed: String,
    /// What the keys of sliding windows begin with.
    sliding: Option<String>,
    clock: Clock,
}

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) key: Vec<u8>,
    pub(super) count: u64,
    pub(super) window_s: u64,
}

/// What a window has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) remaining: u64,
    pub(super) left_ms: u64,
}

impl Asked {
    pub(super) fn length_ms(&self) -> u64 {
        self.window_s.saturating_mul(1000).min(LENGTH_MS_MAX)
    }
}

impl SharedWindows {
    /// Windows of the plugin called `plugin` and the configuration called `scope`.
    pub(super) fn new(plugin: &str, scope: &str, sliding: bool, clock: Clock) -> Self {
        Self {
            // The version of the format: earlier ones counted down.
            fixed: format!("plugin-{plugin}:v1:{scope}:"),
            sliding: sliding.then(|| format!("plugin-{plugin}:{scope}:")),
            clock,
        }
    }

    /// Milliseconds since the Unix epoch.
    pub(super) fn now_ms(&self) -> u64 {
        self.clock.unix_ms(Moment::now())
    }

    /// The name of a key among all that are counted here.
    pub(super) fn name(&self, key: &[u8]) -> Vec<u8> {
        [self.fixed.as_bytes(), key].concat()
    }

    /// Counts `cost`.
    pub(super) async fn count(&self, client: &Client, asked: &Asked, cost: u64) -> Result<Outcome, Fault> {
        if let Some(prefix) = &self.sliding {
            let slid = self.slide(client, asked, cost, prefix, false).await?;
            return Ok(Outcome::sliding(slid, asked.count, asked.length_ms()));
        }
        let (consumed, left_ms) = self.add(client, asked, cost).await?;
        Ok(Outcome::fixed(consumed, asked.count, left_ms))
    }

    /// Counts requests that were let pass before, and returns what room is left.
    pub(super) async fn settle(&self, client: &Client, asked: &Asked, cost: u64) -> Result<Room, Fault> {
        if let Some(prefix) = &self.sliding {
            let slid = self.slide(client, asked, cost, prefix, true).await?;
            let remaining = remaining(slid, asked.count, asked.length_ms());
            return Ok(Room { remaining, left_ms: slid.left_ms });
        }
        let (consumed, left_ms) = self.add(client, asked, cost).await?;
        Ok(Room { remaining: asked.count.saturating_sub(consumed), left_ms })
    }

    async fn add(&self, client: &Client, asked: &Asked, cost: u64) -> Result<(u64, u64), Fault> {
        let request =
            Request::script(&FIXED).key(self.name(&asked.key)).number(cost).number(asked.length_ms());
        let [consumed, left_ms] = numbers(&client.ask(&request).await?)?;
        Ok((consumed as u64, left_ms as u64))
    }

    async fn slide(
        &self,
        client: &Client,
        asked: &Asked,
        cost: u64,
        prefix: &str,
        force: bool,
    ) -> Result<Slid, Fault> {
        let (now_ms, length_ms) = (self.now_ms(), asked.length_ms().max(1));
        let counter =
            |window: u64| [prefix.as_bytes(), &asked.key, format!(".{window}.counter").as_bytes()].concat();
        let (window, left_ms) = (now_ms / length_ms, length_ms - now_ms % length_ms);
        let (running, before) = (counter(window), counter(window.saturating_sub(1)));
        let mut request = Request::script(&SLIDING).key(running);
        let mut past = None;
        if client.spreads_keys() {
            // Nobody counts in the window before any more: it may be read on its own.
            let reply = client.ask(&Request::command("GET").key(before)).await?;
            past = Some(match reply {
                Value::Nil => 0.0,
                reply => number(&reply).ok_or_else(Fault::unexpected)?,
            });
        } else {
            request = request.key(before);
        }
        request = request.number(cost).number(asked.count).number(length_ms).number(left_ms);
        request = request.number(u8::from(force));
        if let Some(past) = past {
            request = request.number(past);
        }
        let [admitted, consumed, previous] = numbers(&client.ask(&request).await?)?;
        Ok(Slid { admitted: admitted != 0.0, consumed: consumed as u64, previous: previous as u64, left_ms })
    }
}
