//! What a request asks of a response that is there as a whole: all of it, parts, or nothing if it has not changed.

use plugin::{Exchange, UpstreamResponse};
use std::hash::{BuildHasher, RandomState};
use stdx::Segment;
use wire::conditional::{Conditions, Validators, Verdict};
use wire::range::{self, Multipart, Ranges};
use wire::{Method, ResponseHead};

/// A request's conditions, and what they are held against.
pub(super) struct Asked<'a> {
    conditions: Conditions<'a>,
    current: Validators<'a>,
}

impl<'a> Asked<'a> {
    /// What the request of `exchange` asks of the response with this head. Conditions are for GET and HEAD of a 200.
    pub(super) fn of(exchange: &Exchange<'a>, head: &ResponseHead, bytes: &'a [u8]) -> Self {
        let view = exchange.request.view;
        let conditions = match view.head.facts.method {
            method @ (Method::Get | Method::Head) if head.status == 200 => {
                Conditions::of(method, |name| view.header(name))
            }
            _ => Conditions::default(),
        };
        let current = match conditions == Conditions::default() {
            true => Validators::default(),
            false => Validators::new(head.header(bytes, b"etag"), head.header(bytes, b"last-modified")),
        };
        Self { conditions, current }
    }

    /// The status by the preconditions, where it were `status` without any.
    pub(super) fn status(&self, status: u16) -> u16 {
        match self.conditions.evaluate(self.current) {
            Verdict::Proceed => status,
            Verdict::NotModified => 304,
            Verdict::Failed => 412,
        }
    }

    /// The same for a response that is on its way already, and goes on it unless the client has it.
    pub(super) fn seen(&self, status: u16) -> u16 {
        if self.status(status) == 304 { 304 } else { status }
    }

    /// The parts of `body` that are asked for, with the status and the fields for them; `None` where it is the whole. As in
    /// nginx, hooks have seen the status of the whole.
    pub(super) fn parts(
        &self,
        exchange: &mut Exchange<'_>,
        response: &UpstreamResponse<'_>,
        body: &Segment,
    ) -> Option<Vec<Segment>> {
        let refused = || response.header(b"accept-ranges", exchange.reply_headers) == Some(b"none");
        if exchange.status != 200 || self.conditions.range.is_none() || refused() {
            return None;
        }
        let whole = body.length();
        let pieces = match self.conditions.ranges(self.current, whole) {
            Ranges::All => return None,
            Ranges::None => {
                exchange.status = 416;
                exchange.reply_headers.set("Content-Range", range::unsatisfied(whole));
                return Some(Vec::new());
            }
            Ranges::Some(pieces) => pieces,
        };
        exchange.status = 206;
        if let [(first, length)] = pieces[..] {
            exchange.reply_headers.set("Content-Range", range::content_range(first, length, whole));
            return Some(vec![body.slice(first, length)]);
        }
        // Nobody who wrote the response can have foreseen it.
        let boundary = format!("tidegate-{:016x}", RandomState::new().hash_one(whole));
        let media_type = response.header(b"content-type", exchange.reply_headers).unwrap_or_default();
        let media_type = String::from_utf8_lossy(media_type).into_owned();
        let parts = Multipart { boundary: &boundary, media_type: &media_type, length: whole };
        exchange.reply_headers.set("Content-Type", parts.content_type());
        Some(parts.around(body, &pieces))
    }
}
