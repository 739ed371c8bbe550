//! `ngx.shared`: dictionaries that all workers and all generations of code share.

use mlua::{Lua, Value};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a dictionary that the configuration doesn't name: that of most of APISIX's.
pub(crate) const SIZE_DEFAULT: usize = 10 << 20;

/// What an entry takes besides key and value.
const ENTRY_BYTES: usize = 96;

/// The dictionaries that APISIX's configuration has by itself and that plugins use.
pub(crate) const BUILT_IN: &[&str] = &[
    "internal-status",
    "worker-events",
    "lrucache-lock",
    "kubernetes",
    "plugin-api-breaker",
    "plugin-limit-conn",
    "plugin-limit-count",
    "plugin-limit-req",
    "prometheus-metrics",
    "balancer-ewma",
    "tracing_buffer",
    "plugin-ai-rate-limiting",
    "cas_sessions",
    "authorization-cache",
    "ext-plugin",
    "discovery",
    "jwks",
    "introspection",
    "access-tokens",
    "etcd-cluster-health-check",
];

/// The dictionaries of the process.
#[derive(Debug, Default)]
pub struct SharedDicts(Mutex<HashMap<String, Arc<Dict>>>);

impl SharedDicts {
    /// The dictionary called `name`, with `size` bytes if it isn't there yet.
    pub(crate) fn dict(&self, name: &str, size: usize) -> Arc<Dict> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || Arc::new(Dict { size, inner: Mutex::default() });
        Arc::clone(all.entry(name.to_owned()).or_insert_with(made))
    }
}

/// A dictionary of bounded size; the oldest entries make room.
#[derive(Debug)]
pub(crate) struct Dict {
    pub(crate) size: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) entries: HashMap<Vec<u8>, Entry>,
    /// Keys in the order in which they were set, each with the number of its setting.
    order: VecDeque<(Vec<u8>, u64)>,
    pub(crate) bytes: usize,
    settings: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) stored: Stored,
    pub(crate) expires: Option<Instant>,
    pub(crate) flags: i64,
    setting: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Stored {
    Boolean(bool),
    Number(f64),
    Text(Vec<u8>),
    List(VecDeque<Stored>),
}

impl Stored {
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Boolean(value) => Some(Self::Boolean(*value)),
            Value::String(text) => Some(Self::Text(text.as_bytes().to_vec())),
            #[expect(clippy::cast_precision_loss, reason = "a number of Lua is a double")]
            Value::Integer(number) => Some(Self::Number(*number as f64)),
            value => value.as_f64().map(Self::Number),
        }
    }

    pub(crate) fn lua(&self, lua: &Lua) -> mlua::Result<Value> {
        Ok(match self {
            Self::Boolean(value) => Value::Boolean(*value),
            Self::Number(value) => Value::Number(*value),
            Self::Text(text) => Value::String(lua.create_string(text)?),
            Self::List(_) => Value::Nil,
        })
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Boolean(_) | Self::Number(_) => 8,
            Self::Text(text) => text.len(),
            Self::List(items) => items.iter().map(|item| item.bytes() + 24).sum(),
        }
    }
}

impl Dict {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an entry in; whether others had to make room, or why there is none.
    pub(crate) fn set(&self, key: &[u8], stored: Stored, ttl: f64, flags: i64) -> Result<bool, &'static str> {
        let bytes = key.len() + stored.bytes() + ENTRY_BYTES;
        if bytes > self.size {
            return Err("no memory");
        }
        let mut inner = self.lock();
        inner.remove(key);
        let mut forced = false;
        while inner.bytes + bytes > self.size {
            if inner.drop_expired() == 0 {
                forced |= inner.drop_oldest();
            }
        }
        inner.insert(key, stored, ttl, flags);
        Ok(forced)
    }
}

impl Inner {
    pub(crate) fn get(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let expired = self.entries.get(key)?.expires.is_some_and(|expires| expires <= Instant::now());
        if expired {
            self.remove(key);
            return None;
        }
        self.entries.get_mut(key)
    }

    fn insert(&mut self, key: &[u8], stored: Stored, ttl: f64, flags: i64) {
        self.settings += 1;
        self.bytes += key.len() + stored.bytes() + ENTRY_BYTES;
        let expires = expiry(ttl);
        self.order.push_back((key.to_vec(), self.settings));
        self.entries.insert(key.to_vec(), Entry { stored, expires, flags, setting: self.settings });
        // Keys that were set again and again.
        if self.order.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.order.retain(|(key, at)| entries.get(key).is_some_and(|entry| entry.setting == *at));
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.bytes -= key.len() + entry.stored.bytes() + ENTRY_BYTES;
        Some(entry)
    }

    pub(crate) fn drop_expired(&mut self) -> usize {
        let now = Instant::now();
        let is_over = |entry: &Entry| entry.expires.is_some_and(|expires| expires <= now);
        let over: Vec<_> =
            self.entries.iter().filter(|(_, entry)| is_over(entry)).map(|(key, _)| key.clone()).collect();
        over.iter().for_each(|key| drop(self.remove(key)));
        over.len()
    }

    fn drop_oldest(&mut self) -> bool {
        while let Some((key, at)) = self.order.pop_front() {
            if self.entries.get(&key).is_some_and(|entry| entry.setting == at) {
                self.remove(&key);
                return true;
            }
        }
        self.entries.clear();
        self.bytes = 0;
        true
    }
}

/// When an entry of this age limit in seconds ends; 0 never.
pub(crate) fn expiry(ttl: f64) -> Option<Instant> {
    let ttl = Duration::try_from_secs_f64(ttl).ok().filter(|ttl| !ttl.is_zero())?;
    Instant::now().checked_add(ttl)
}
