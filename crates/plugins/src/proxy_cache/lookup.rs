//! Before the upstream is asked: whether it has to be.

use super::answer::{STATUS, kept, say, shows_credentials};
use super::keeper::Fetching;
use super::{Cache, Strategy};
use crate::headers::HeaderOps;
use cache::{Directives, Entry, Found, Freshness, Landing, Message};
use model::var::Template;
use plugin::{Exchange, Flow, MethodName, Reply};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use wire::BodyLength;
use wire::conditional::Conditions;

/// How long a request waits for another one that fetches what it needs: APISIX's `proxy_cache_lock_timeout`.
const PATIENCE: Duration = Duration::from_secs(5);

impl Cache {
    /// Answers from the cache, or sees to it that what the upstream answers is kept.
    pub(super) fn serve(self: &Arc<Self>, exchange: &mut Exchange<'_>) -> Flow {
        let method = exchange.request.method();
        let is_post = method == b"POST";
        if method == b"PURGE" {
            return if self.purge(exchange) { Flow::reply(Reply::text(200, "")) } else { Flow::status(404) };
        }
        let wanted = self.wanted(exchange);
        // A body of GET is part of no key: an upstream that reads it all the same would answer others by it.
        let bare = is_post || exchange.request.view.head.facts.body == BodyLength::None;
        let cacheable = bare && self.caches(method);
        let bypassed = says_yes(&self.bypass, exchange) || wanted.no_store || wanted.no_cache;
        if !cacheable || bypassed {
            let in_memory = self.strategy == Strategy::Memory;
            let status = if !cacheable && in_memory && bare { "MISS" } else { "BYPASS" };
            exchange.reply_headers.set(STATUS, status);
            if wanted.only_if_cached {
                return Flow::status(504);
            }
            // As in nginx: what was not looked for is kept all the same.
            if cacheable && !in_memory {
                let key = self.key(exchange, is_post, exchange.client.scheme()).into();
                let fetching = Fetching::new(self, exchange, key, None, None);
                self.ask(exchange, fetching);
            }
            return Flow::Next;
        }
        let key = self.key(exchange, is_post, exchange.client.scheme()).into();
        self.look(exchange, key, wanted, true)
    }

    /// Whether the operator wants responses to this method kept.
    pub(super) fn caches(&self, method: &[u8]) -> bool {
        self.methods.iter().any(|listed| listed.as_bytes() == method)
    }

    /// What the request asks of a cache, where that counts.
    fn wanted(&self, exchange: &Exchange<'_>) -> Directives {
        match self.heeds_requests {
            true => Directives::of(exchange.request.view.headers(b"cache-control")),
            false => Directives::default(),
        }
    }

    /// Looks for the response. `may_wait` says whether the request may wait for one that fetches it, which it does once.
    fn look(
        self: &Arc<Self>,
        exchange: &mut Exchange<'_>,
        key: Arc<[u8]>,
        wanted: Directives,
        may_wait: bool,
    ) -> Flow {
        let uri = super::key::uri(exchange);
        let found = self.zone.find(&key, &uri, |name| exchange.request.header_list(name.as_bytes()));
        match found {
            Found::Nothing => self.decide(exchange, key, wanted, None, may_wait),
            Found::Ready(entry, message) => {
                self.decide(exchange, key, wanted, Some((entry, message)), may_wait)
            }
            Found::Reading(entry, reading) => {
                let cache = Arc::clone(self);
                Flow::Wait(Box::pin(async move {
                    let found = reading.await.map(|message| (entry, message));
                    let resume: plugin::Resume =
                        Box::new(move |exchange| cache.decide(exchange, key, wanted, found, may_wait));
                    resume
                }))
            }
        }
    }

    fn decide(
        self: &Arc<Self>,
        exchange: &mut Exchange<'_>,
        key: Arc<[u8]>,
        wanted: Directives,
        found: Option<(Arc<Entry>, Message)>,
        may_wait: bool,
    ) -> Flow {
        let now_ms = self.now_ms(exchange);
        let freshness = found.as_ref().map(|(entry, _)| entry.freshness(&wanted, now_ms));
        match (freshness, &found) {
            (Some(Freshness::Fresh | Freshness::Usable), Some((entry, message))) => {
                self.give(exchange, entry, message, now_ms);
                if freshness == Some(Freshness::Usable) {
                    self.renew(exchange, key, found);
                }
                return Flow::Next;
            }
            _ if wanted.only_if_cached => {
                exchange.reply_headers.set(STATUS, "MISS");
                return Flow::status(504);
            }
            _ => {}
        }
        // What can't be kept for others, as a rule, is not waited for.
        let may_wait = may_wait && (self.names_client(exchange) || !shows_credentials(exchange));
        let fetch = match self.zone.fetch(&key) {
            Ok(fetch) => Some(fetch),
            Err(landing) if may_wait => return self.wait(exchange, key, wanted, landing),
            Err(_) => None,
        };
        exchange.reply_headers.set(
            STATUS,
            match freshness {
                None => "MISS",
                Some(Freshness::TooOld) => "STALE",
                Some(_) => "EXPIRED",
            },
        );
        let fetching = Fetching::new(self, exchange, key, found, fetch);
        self.ask(exchange, fetching);
        Flow::Next
    }

    /// Waits until another request has fetched the response, and looks again.
    fn wait(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        key: Arc<[u8]>,
        wanted: Directives,
        landing: Landing,
    ) -> Flow {
        let (cache, sleep) = (Arc::clone(self), exchange.sleep(PATIENCE));
        Flow::Wait(Box::pin(async move {
            first_of(landing, sleep).await;
            let resume: plugin::Resume = Box::new(move |exchange| cache.look(exchange, key, wanted, false));
            resume
        }))
    }

    /// Answers with what is kept.
    fn give(&self, exchange: &mut Exchange<'_>, entry: &Entry, message: &Message, now_ms: u64) {
        let is_stale = now_ms >= entry.made_ms.saturating_add(entry.lifetime_ms);
        say(exchange, if is_stale { "STALE" } else { "HIT" }, entry, now_ms);
        exchange.extras().kept = Some(kept(message));
    }

    /// Lets a fresh response be fetched once this client has its own, unless somebody does so already.
    fn renew(
        self: &Arc<Self>,
        exchange: &mut Exchange<'_>,
        key: Arc<[u8]>,
        found: Option<(Arc<Entry>, Message)>,
    ) {
        if exchange.request.view.head.facts.body == BodyLength::None
            && let Ok(fetch) = self.zone.fetch(&key)
        {
            let fetching = Fetching::new(self, exchange, key, found, Some(fetch));
            self.ask(exchange, fetching);
        }
    }

    /// Sees to it that the upstream is asked for a response that can be kept, or to confirm the one that is.
    fn ask(&self, exchange: &mut Exchange<'_>, fetching: Fetching) {
        let edits = exchange.request.edit();
        // They would make of the upstream's answer one that is for this client alone.
        Conditions::NAMES.iter().for_each(|name| edits.headers.remove(name));
        if let Some(entry) = fetching.entry() {
            let validators = [("If-None-Match", &entry.etag), ("If-Modified-Since", &entry.last_modified)];
            for (name, value) in validators {
                if let Some(value) = value {
                    edits.headers.set(name, value);
                }
            }
        }
        if exchange.request.method() == b"HEAD" {
            exchange.request.edit().method = Some(MethodName::GET);
        }
        exchange.extras().keeper = Some(Box::new(fetching));
    }

    /// Now, as far as this exchange goes.
    pub(super) fn now_ms(&self, exchange: &Exchange<'_>) -> u64 {
        self.clock.unix_ms(exchange.timing.started)
    }

    /// Whether the operator's `no_cache` speaks against keeping a response.
    pub(super) fn is_excluded(&self, exchange: &Exchange<'_>) -> bool {
        !self.statuses.contains(&exchange.status) || says_yes(&self.no_cache, exchange)
    }
}

/// Whether the values say anything but `0`.
fn says_yes(templates: &[Template], exchange: &Exchange<'_>) -> bool {
    let value: Vec<u8> = templates.iter().flat_map(|part| HeaderOps::render(part, exchange)).collect();
    !value.is_empty() && value != b"0"
}

/// Waits for whichever comes first.
async fn first_of(mut landing: Landing, mut sleep: Pin<Box<dyn Future<Output = ()>>>) {
    std::future::poll_fn(|cx| match Pin::new(&mut landing).poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => sleep.as_mut().poll(cx),
    })
    .await;
}
