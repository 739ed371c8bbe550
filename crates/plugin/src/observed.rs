//! `_meta.mode: observe`: a hook runs, and the exchange is as if it had not.

use crate::attempt::Attempts;
use crate::request::RequestEdits;
use crate::{ClientView, ConsumerInfo, Exchange, ExchangeLimits, HeaderEdits, UpstreamChoice};
use std::borrow::Cow;

/// What hooks may change of an exchange, as it was before one of them. What a plugin counts and notes for itself is not
/// part of it: a limit's window goes on, so that its verdicts are those of a limit in force.
#[derive(Debug)]
pub struct Remembered<'a> {
    path: Cow<'a, [u8]>,
    client: ClientView<'a>,
    edits: Option<Box<RequestEdits>>,
    reply_headers: HeaderEdits,
    consumer: Option<&'a ConsumerInfo>,
    upstream: Option<UpstreamChoice>,
    status: u16,
    vars: Vec<(String, Vec<u8>)>,
    attempts: usize,
    limits: ExchangeLimits,
    filters: [(usize, usize); 2],
    offers: bool,
    keeps: bool,
}

impl<'a> Remembered<'a> {
    /// The exchange as it is now.
    #[must_use]
    pub fn of(exchange: &Exchange<'a>) -> Self {
        let extras = exchange.extras.as_ref();
        Self {
            path: exchange.request.path.clone(),
            client: exchange.client.clone(),
            edits: exchange.request.edits.clone(),
            reply_headers: exchange.reply_headers.clone(),
            consumer: exchange.consumer,
            upstream: extras.and_then(|extras| extras.upstream.clone()),
            status: exchange.status,
            vars: exchange.vars.clone(),
            attempts: Attempts::count(exchange),
            limits: extras.map(|extras| extras.limits).unwrap_or_default(),
            filters: extras.map_or_else(Default::default, |extras| {
                [extras.body_filters.count(), extras.request_filters.count()]
            }),
            offers: extras.is_some_and(|extras| extras.coding.is_some()),
            keeps: extras.is_some_and(|extras| extras.kept.is_some() || extras.keeper.is_some()),
        }
    }

    /// Makes the exchange what it was. Where the observed plugin's coding was better than another's, it stays.
    pub fn restore(self, exchange: &mut Exchange<'a>) {
        exchange.request.path = self.path;
        exchange.client = self.client;
        exchange.request.edits = self.edits;
        *exchange.reply_headers = self.reply_headers;
        exchange.consumer = self.consumer;
        exchange.status = self.status;
        exchange.vars = self.vars;
        Attempts::truncate(exchange, self.attempts);
        if let Some(extras) = &mut exchange.extras {
            extras.upstream = self.upstream;
            extras.limits = self.limits;
            extras.body_filters.truncate(self.filters[0]);
            extras.request_filters.truncate(self.filters[1]);
            extras.coding = extras.coding.take().filter(|_| self.offers);
            if !self.keeps {
                (extras.kept, extras.keeper) = (None, None);
            }
        }
    }
}
