//! A response that is kept, and when it may be given out.

use crate::{Directives, Terms};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use stdx::Segment;
use wire::ResponseHead;

/// Responses that are kept of one key, for requests that differ in fields that `Vary` names: APISIX's bound.
pub const VARIANTS_MAX: usize = 64;

/// What is kept of a response besides its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The status code.
    pub status: u16,
    /// When it was made, by the clock of who keeps it: milliseconds since the Unix epoch, its age taken off.
    pub made_ms: u64,
    /// How long from then it is fresh, in milliseconds.
    pub lifetime_ms: u64,
    /// How long after that it may be used while a fresh one is fetched.
    pub while_revalidating_ms: u64,
    /// How long after that it may be used when the upstream fails.
    pub if_error_ms: u64,
    /// Whether no request may have it once it is stale.
    #[serde(default)]
    pub must_revalidate: bool,
    /// `ETag`.
    pub etag: Option<Vec<u8>>,
    /// `Last-Modified`.
    pub last_modified: Option<Vec<u8>>,
    /// The fields that `Vary` names, with what the request said in each: a list without needless white space.
    pub vary: Vec<(String, Option<Vec<u8>>)>,
    /// The zone's generation when the upstream was asked: what was changed later makes the entry invalid. Entries that an
    /// earlier process left on disk are of the first one.
    #[serde(skip)]
    pub generation: u64,
}

/// A response's bytes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Message {
    /// Status line, fields and empty line, as HTTP/1.1 has them.
    pub head: Arc<[u8]>,
    /// The body.
    pub body: Segment,
}

/// What may be done with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// It answers the request.
    Fresh,
    /// It answers the request, and a fresh one is to be fetched for others.
    Usable,
    /// Its lifetime is over.
    Expired,
    /// Its lifetime isn't, but the request wants a younger one.
    TooOld,
}

impl Entry {
    /// The entry of a response that came at `now_ms` for a request in which `field` gives the values.
    #[must_use]
    pub fn new(
        head: &ResponseHead,
        bytes: &[u8],
        terms: &Terms,
        vary: Vec<(String, Option<Vec<u8>>)>,
        generation: u64,
        now_ms: u64,
    ) -> Self {
        let field = |name: &[u8]| head.header(bytes, name).map(<[u8]>::to_vec);
        let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            status: head.status,
            made_ms: now_ms.saturating_sub(ms(terms.age)),
            lifetime_ms: ms(terms.lifetime),
            while_revalidating_ms: ms(terms.while_revalidating),
            if_error_ms: ms(terms.if_error),
            must_revalidate: terms.must_revalidate,
            etag: field(b"etag"),
            last_modified: field(b"last-modified"),
            vary: vary.into_iter().map(|(name, value)| (name, value.map(|value| normal(&value)))).collect(),
            generation,
        }
    }

    /// Whether it may be given to a request that `field` gives the values of: of all fields of a name, as one list.
    #[must_use]
    pub fn answers<V: AsRef<[u8]>>(&self, field: impl Fn(&str) -> Option<V>) -> bool {
        self.vary.iter().all(|(name, value)| match (field(name), value) {
            (Some(said), Some(value)) => members(said.as_ref()).eq(members(value)),
            (said, value) => said.is_none() && value.is_none(),
        })
    }

    /// How old it is, in whole seconds.
    #[must_use]
    pub fn age_seconds(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.made_ms) / 1000
    }

    /// Whether it may be used now, by a request that asks for no more than `wanted`.
    #[must_use]
    pub fn freshness(&self, wanted: &Directives, now_ms: u64) -> Freshness {
        let age_ms = now_ms.saturating_sub(self.made_ms);
        let too_old = wanted.max_age.is_some_and(|most| age_ms > most.saturating_mul(1000));
        if age_ms >= self.lifetime_ms {
            let stale_ms = age_ms - self.lifetime_ms;
            let bears = |most: u64| stale_ms < most.saturating_mul(1000);
            // Who says how old or how fresh it may be has not asked for a stale one that is neither (section 5.2.1).
            let refused = too_old || wanted.min_fresh.is_some();
            return if stale_ms < self.while_revalidating_ms && !refused {
                Freshness::Usable
            } else if !self.must_revalidate && !refused && wanted.max_stale.is_some_and(bears) {
                Freshness::Fresh
            } else {
                Freshness::Expired
            };
        }
        let left_ms = self.lifetime_ms - age_ms;
        if too_old || wanted.min_fresh.is_some_and(|least| left_ms < least.saturating_mul(1000)) {
            return Freshness::TooOld;
        }
        Freshness::Fresh
    }

    /// Whether it may be used where the upstream fails.
    #[must_use]
    pub fn stands_in(&self, now_ms: u64) -> bool {
        now_ms < self.made_ms.saturating_add(self.lifetime_ms).saturating_add(self.if_error_ms)
    }

    /// From when on it is of no use but to be confirmed by the upstream.
    #[must_use]
    pub fn useless_from_ms(&self) -> u64 {
        let grace = self.while_revalidating_ms.max(self.if_error_ms);
        self.made_ms.saturating_add(self.lifetime_ms).saturating_add(grace)
    }

    /// Whether a 304 with these validators speaks of this entry (RFC 9111 section 4.3.4): it names the same ones, or none.
    #[must_use]
    pub fn is_confirmed_by(&self, head: &ResponseHead, bytes: &[u8]) -> bool {
        let opaque = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
        let field = |name: &[u8]| head.header(bytes, name);
        match (field(b"etag"), &self.etag) {
            (Some(new), Some(old)) => opaque(new) == opaque(old),
            (Some(_), None) => false,
            (None, _) => match (field(b"last-modified"), &self.last_modified) {
                (Some(new), Some(old)) => new == old,
                (Some(_), None) => self.etag.is_some(),
                (None, _) => true,
            },
        }
    }

    /// Whether the upstream can be asked if it has changed.
    #[must_use]
    pub fn has_validator(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }
}

/// The members of a list, as they are compared: white space around them says nothing (RFC 9111 section 4.1).
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

fn normal(value: &[u8]) -> Vec<u8> {
    members(value).collect::<Vec<_>>().join(&b", "[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            status: 200,
            made_ms: 1_000_000,
            lifetime_ms: 10_000,
            while_revalidating_ms: 5_000,
            if_error_ms: 60_000,
            must_revalidate: false,
            etag: Some(b"\"a\"".to_vec()),
            last_modified: Some(b"Sun, 06 Nov 1994 08:49:37 GMT".to_vec()),
            vary: vec![("accept".to_owned(), Some(b"x".to_vec())), ("accept-language".to_owned(), None)],
            generation: 0,
        }
    }

    #[test]
    fn an_entry_lives_as_long_as_it_and_the_request_say() {
        let any = Directives::default();
        for (wanted, age_ms, expected) in [
            (any, 0, Freshness::Fresh),
            (any, 9_999, Freshness::Fresh),
            (any, 10_000, Freshness::Usable),
            (any, 15_000, Freshness::Expired),
            (Directives { max_age: Some(5), ..any }, 5_000, Freshness::Fresh),
            (Directives { max_age: Some(5), ..any }, 5_001, Freshness::TooOld),
            (Directives { min_fresh: Some(6), ..any }, 4_001, Freshness::TooOld),
            (Directives { max_stale: Some(10), ..any }, 19_999, Freshness::Fresh),
            (Directives { max_stale: Some(10), ..any }, 20_000, Freshness::Expired),
            (Directives { max_stale: Some(u64::MAX), ..any }, 1 << 40, Freshness::Fresh),
            (Directives { max_age: Some(0), ..any }, 12_000, Freshness::Expired),
            (Directives { max_age: Some(20), ..any }, 12_000, Freshness::Usable),
            (Directives { min_fresh: Some(1), ..any }, 12_000, Freshness::Expired),
            (Directives { max_age: Some(5), max_stale: Some(100), ..any }, 12_000, Freshness::Expired),
            (Directives { max_age: Some(16), max_stale: Some(100), ..any }, 15_500, Freshness::Fresh),
            (Directives { min_fresh: Some(1), max_stale: Some(100), ..any }, 15_500, Freshness::Expired),
        ] {
            assert_eq!(entry().freshness(&wanted, 1_000_000 + age_ms), expected, "{wanted:?} {age_ms}");
        }
        let strict = Entry { must_revalidate: true, while_revalidating_ms: 0, ..entry() };
        let any_age = Directives { max_stale: Some(u64::MAX), ..any };
        assert_eq!(strict.freshness(&any_age, 1_010_000), Freshness::Expired);
        assert!(entry().stands_in(1_069_999) && !entry().stands_in(1_070_000));
        assert_eq!((entry().age_seconds(1_002_900), entry().age_seconds(0)), (2, 0));
    }

    #[test]
    fn an_entry_is_for_requests_that_say_the_same() {
        let field = |accept: &'static [u8]| move |name: &str| (name == "accept").then_some(accept);
        assert!(entry().answers(field(b"x")));
        assert!(!entry().answers(field(b"y")));
        assert!(!entry().answers(|_| Some(b"x")), "a language, where there was none");
        let many = Entry { vary: vec![("accept".to_owned(), Some(normal(b"a ,b;q=0.5,  c")))], ..entry() };
        assert_eq!(many.vary[0].1.as_deref(), Some(&b"a, b;q=0.5, c"[..]));
        for (accept, answered) in [
            (&b"a,b;q=0.5,c"[..], true),
            (b" a, b;q=0.5, c ", true),
            (b"a, c, b;q=0.5", false),
            (b"a", false),
        ] {
            assert_eq!(many.answers(|_| Some(accept)), answered);
        }
    }

    #[test]
    fn a_confirmation_speaks_of_the_entry_with_its_validators() {
        let weak = Entry { etag: Some(b"W/\"a\"".to_vec()), last_modified: None, ..entry() };
        let dated = Entry { etag: None, ..entry() };
        for (entry, fields, confirmed) in [
            (entry(), "", true),
            (entry(), "ETag: \"a\"\r\n", true),
            (entry(), "ETag: W/\"a\"\r\n", true),
            (entry(), "ETag: \"b\"\r\n", false),
            (weak, "ETag: \"a\"\r\n", true),
            (dated.clone(), "ETag: \"a\"\r\n", false),
            (dated.clone(), "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n", true),
            (dated, "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT\r\n", false),
        ] {
            let text = format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n");
            let mut head = ResponseHead::default();
            assert!(head.parse(text.as_bytes(), wire::Method::Get).unwrap());
            assert_eq!(entry.is_confirmed_by(&head, text.as_bytes()), confirmed, "{fields}");
        }
    }
}
