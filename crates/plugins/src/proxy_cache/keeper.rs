//! When the upstream has answered: what is kept of it, and what stands in for it.

use super::Cache;
use super::answer::{Right, kept, say, shows_credentials};
use cache::{Entry, Message, Rules, Terms, message, varies_by};
use plugin::{Exchange, HeldBytes, KeptResponse, Recorder, UpstreamResponse, Verdict};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use wire::{Method, ResponseHead};

/// A response being fetched for a request that could not be answered.
pub(super) struct Fetching {
    cache: Arc<Cache>,
    key: Arc<[u8]>,
    /// Whether the key says whose credentials the request shows.
    named: bool,
    /// What there was, and was of no use as it was.
    found: Option<(Arc<Entry>, Message)>,
    fetch: Right,
    /// The zone's when the upstream was asked.
    generation: u64,
}

impl Fetching {
    pub(super) fn new(
        cache: &Arc<Cache>,
        exchange: &Exchange<'_>,
        key: Arc<[u8]>,
        found: Option<(Arc<Entry>, Message)>,
        fetch: Right,
    ) -> Self {
        let generation = cache.zone.generation();
        let named = cache.names_client(exchange);
        Self { cache: Arc::clone(cache), key, named, found, fetch, generation }
    }

    /// What the upstream may confirm.
    pub(super) fn entry(&self) -> Option<&Entry> {
        self.found.as_ref().map(|(entry, _)| &**entry)
    }

    /// What is to be kept of a response with this head, if anything.
    fn entry_of(&self, exchange: &Exchange<'_>, head: &ResponseHead, bytes: &[u8]) -> Option<Entry> {
        let Cache { policy, cookies, .. } = *self.cache;
        let now_ms = self.cache.now_ms(exchange);
        let now = UNIX_EPOCH + Duration::from_millis(now_ms);
        let request = &exchange.request;
        let rules = Rules { policy, cookies, personal: !self.named && shows_credentials(exchange) };
        let terms = Terms::of((head, bytes), rules, now)?;
        let vary = varies_by(head, bytes).into_iter().map(|name| {
            let value = request.header_list(name.as_bytes()).map(Cow::into_owned);
            (name, value)
        });
        Some(Entry::new(head, bytes, &terms, vary.collect(), self.generation, now_ms))
    }

    /// The upstream says that what there was is what there is.
    fn confirmed(
        &mut self,
        exchange: &mut Exchange<'_>,
        (entry, message): (&Arc<Entry>, &Message),
        new: (&ResponseHead, &[u8]),
    ) -> KeptResponse {
        // It answers what was asked with the entry's validators. One that names others is about something else, from which
        // the entry learns nothing.
        if !entry.is_confirmed_by(new.0, new.1) {
            self.cache.zone.remove(&self.key, entry);
            return kept(message);
        }
        let mut old = ResponseHead::default();
        // It was read when it was kept: if this can't be, it is sent as it is.
        if old.parse(&message.head, Method::Get) != Ok(true) {
            return kept(message);
        }
        let message = message::refreshed(message, &old, new.0, new.1);
        let entry_now = match old.parse(&message.head, Method::Get) {
            Ok(true) => self.entry_of(exchange, &old, &message.head),
            _ => None,
        };
        match entry_now {
            Some(entry) => {
                say(exchange, "REVALIDATED", &entry, self.cache.now_ms(exchange));
                self.cache.zone.keep(&self.key, entry, message.clone(), self.fetch.take());
            }
            // Confirmed, and not to be kept any longer.
            None => self.cache.zone.remove(&self.key, entry),
        }
        kept(&message)
    }

    /// What there was, if it may stand in for an upstream that fails.
    fn stand_in(&self, exchange: &mut Exchange<'_>) -> Option<KeptResponse> {
        let (entry, message) = self.found.as_ref()?;
        let now_ms = self.cache.now_ms(exchange);
        if !entry.stands_in(now_ms) {
            return None;
        }
        say(exchange, "STALE", entry, now_ms);
        Some(kept(message))
    }
}

impl plugin::Keeper for Fetching {
    fn answered(&mut self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) -> Verdict {
        let Some((head, bytes)) = response.head else { return Verdict::Pass };
        if head.status == 304
            && let Some((entry, message)) = self.found.clone().filter(|(entry, _)| entry.has_validator())
        {
            return Verdict::Instead(self.confirmed(exchange, (&entry, &message), (head, bytes)));
        }
        if matches!(head.status, 500 | 502 | 503 | 504)
            && let Some(kept) = self.stand_in(exchange)
        {
            return Verdict::Instead(kept);
        }
        let too_long = head.content_length.is_some_and(|length| length > self.cache.body_bytes_max as u64);
        if too_long || self.cache.is_excluded(exchange) {
            return Verdict::Pass;
        }
        match self.entry_of(exchange, head, bytes) {
            None => Verdict::Pass,
            Some(entry) => Verdict::Record(Box::new(Recording {
                cache: Arc::clone(&self.cache),
                key: Arc::clone(&self.key),
                entry,
                head: message::head_of(head, bytes),
                body: Some(Vec::new()),
                room: HeldBytes::default(),
                fetch: self.fetch.take(),
            })),
        }
    }

    fn failed(&mut self, exchange: &mut Exchange<'_>) -> Option<KeptResponse> {
        self.stand_in(exchange)
    }
}

/// A response being kept while it passes.
struct Recording {
    cache: Arc<Cache>,
    key: Arc<[u8]>,
    entry: Entry,
    head: Vec<u8>,
    /// `None` once it turned out to be too long, or the worker to hold too much.
    body: Option<Vec<u8>>,
    /// What it takes until it is in the zone.
    room: HeldBytes,
    fetch: Right,
}

impl Recorder for Recording {
    fn piece(&mut self, piece: &[u8]) {
        let Some(body) = &mut self.body else { return };
        let too_long = body.len() + piece.len() > self.cache.body_bytes_max;
        if too_long || self.room.grow(piece.len()).is_err() {
            // Who waits for it has to ask for itself.
            (self.body, self.fetch) = (None, None);
        } else {
            body.extend_from_slice(piece);
        }
    }

    fn finish(self: Box<Self>) {
        let Self { cache, key, entry, head, body, fetch, room: _room } = *self;
        if let Some(body) = body {
            cache.zone.keep(&key, entry, message::whole(head, body), fetch);
        }
    }
}
