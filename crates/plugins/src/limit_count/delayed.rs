//! Counting here what Redis is told every so often: `sync_interval`.
//!
//! Of each key it is known what Redis had room for when it was last asked, and what was counted here since. A window
//! ends as Redis said. While Redis fails, the gateway counts on by itself.

use super::headers::Reset;
use super::outcome::Outcome;
use super::shared_windows::{Asked, Room, SharedWindows};
use crate::redis_policy::Client;
use futures_util::future::join_all;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stdx::Keyed;

/// Keys of one configuration that wait for the next exchange with Redis, as in APISIX. Further ones wait until a later
/// request counts them.
const WAITING_MAX: usize = 10_000;

/// Keys that are exchanged at a time.
const BATCH: usize = 256;

/// What is known of all keys of the process.
#[derive(Default)]
pub(super) struct Accounts(Keyed<Account>);

/// What is known of one key.
#[derive(Default)]
struct Account {
    /// What Redis had room for.
    remaining: u64,
    /// When the window ends; 0 where nothing is known.
    ends_ms: u64,
    /// Counted here since.
    delta: u64,
    /// Whether it waits for the next exchange.
    waiting: bool,
}

/// The keys of one configuration.
pub(super) struct Delayed {
    accounts: Arc<Accounts>,
    interval: Duration,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<(Arc<SharedWindows>, Asked)>,
    /// Whether a task sees to it.
    running: bool,
}

/// How counting goes on.
enum Step {
    Counted {
        outcome: Outcome,
        /// Whether the key begins to wait for the next exchange.
        waits: bool,
    },
    /// Redis is to be told that so much was counted, and asked for room.
    Ask(u64),
}

impl Account {
    fn count(&mut self, cost: u64, now_ms: u64) -> Step {
        if self.ends_ms <= now_ms {
            // What was counted in the window that ended is no concern of the next one's.
            let known = self.ends_ms != 0;
            (self.ends_ms, self.waiting) = (0, false);
            let delta = std::mem::take(&mut self.delta);
            return Step::Ask(if known { 0 } else { delta });
        }
        let reset = Reset::rounded_down(self.ends_ms - now_ms);
        match self.remaining.checked_sub(self.delta.saturating_add(cost)) {
            Some(remaining) => {
                self.delta += cost;
                let waits = !std::mem::replace(&mut self.waiting, true);
                Step::Counted { outcome: Outcome { admitted: true, remaining, reset }, waits }
            }
            None => {
                let outcome = Outcome { admitted: false, remaining: 0, reset };
                Step::Counted { outcome, waits: !std::mem::replace(&mut self.waiting, true) }
            }
        }
    }

    fn set(&mut self, room: Room, now_ms: u64) {
        self.remaining = room.remaining;
        self.ends_ms = now_ms.saturating_add(room.left_ms.max(1));
    }

    /// Whether it says nothing that Redis would not.
    fn is_idle(&self, now_ms: u64) -> bool {
        self.ends_ms <= now_ms
    }
}

impl Delayed {
    pub(super) fn new(accounts: Arc<Accounts>, interval: Duration) -> Self {
        Self { accounts, interval, queue: Mutex::default() }
    }

    /// Whether windows of this length can be counted so: those that end before the next exchange can't.
    pub(super) fn suits(&self, window_s: u64) -> bool {
        Duration::from_secs(window_s) > self.interval
    }

    /// Counts `cost`, with what Redis said last.
    pub(super) async fn count(
        self: &Arc<Self>,
        windows: &Arc<SharedWindows>,
        client: &Client,
        asked: &Asked,
        cost: u64,
    ) -> Outcome {
        let name = windows.name(&asked.key);
        loop {
            let now_ms = windows.now_ms();
            let idle = |account: &Account| account.is_idle(now_ms);
            match self.accounts.0.with(&name, idle, |account| account.count(cost, now_ms)) {
                Step::Counted { outcome, waits } => {
                    if waits {
                        self.enqueue(windows, client, asked);
                    }
                    return outcome;
                }
                Step::Ask(delta) => self.ask(windows, client, asked, &name, delta).await,
            }
        }
    }

    /// Tells Redis of `delta` and notes what it has room for; where it fails, a window begins here.
    async fn ask(&self, windows: &SharedWindows, client: &Client, asked: &Asked, name: &[u8], delta: u64) {
        let room = windows.settle(client, asked, delta).await.unwrap_or_else(|fault| {
            tracing::error!("failed to sync limit count, counting in the gateway: {fault}");
            Room { remaining: asked.count.saturating_sub(delta), left_ms: asked.length_ms() }
        });
        let now_ms = windows.now_ms();
        self.accounts.0.with(name, |account| account.is_idle(now_ms), |account| account.set(room, now_ms));
    }

    fn enqueue(self: &Arc<Self>, windows: &Arc<SharedWindows>, client: &Client, asked: &Asked) {
        let mut queue = self.lock();
        if queue.waiting.len() >= WAITING_MAX {
            let name = windows.name(&asked.key);
            drop(queue);
            self.accounts.0.with(&name, |_| false, |account| account.waiting = false);
            return;
        }
        queue.waiting.push((Arc::clone(windows), asked.clone()));
        if !std::mem::replace(&mut queue.running, true) {
            let (running, client) = (Running(Arc::clone(self)), client.clone());
            client.clone().spawn(async move { running.0.exchange(&client).await });
        }
    }

    /// Tells Redis, once in each interval, for as long as there is something to tell.
    async fn exchange(&self, client: &Client) {
        loop {
            client.sleep(self.interval).await;
            let waiting = {
                let mut queue = self.lock();
                if queue.waiting.is_empty() {
                    queue.running = false;
                    return;
                }
                std::mem::take(&mut queue.waiting)
            };
            for batch in waiting.chunks(BATCH) {
                join_all(batch.iter().map(|(windows, asked)| self.tell(windows, client, asked))).await;
            }
        }
    }

    async fn tell(&self, windows: &SharedWindows, client: &Client, asked: &Asked) {
        let (name, now_ms) = (windows.name(&asked.key), windows.now_ms());
        let delta = self.accounts.0.with(
            &name,
            |account| account.is_idle(now_ms),
            |account| {
                account.waiting = false;
                // Of a window that ended nothing is told.
                (!account.is_idle(now_ms)).then_some(account.delta)
            },
        );
        let Some(delta) = delta else { return };
        match windows.settle(client, asked, delta).await {
            Ok(room) => {
                let now_ms = windows.now_ms();
                let told = |account: &mut Account| {
                    account.delta = account.delta.saturating_sub(delta);
                    account.set(room, now_ms);
                };
                self.accounts.0.with(&name, |account| account.is_idle(now_ms), told);
            }
            // It stays counted here, and is told with what comes next.
            Err(fault) => tracing::error!("failed to sync limit count: {fault}"),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets another task begin where this one ends with its worker.
struct Running(Arc<Delayed>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().running = false;
    }
}
