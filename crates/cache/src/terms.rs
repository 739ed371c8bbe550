//! Whether a response may be kept, and for how long.

use crate::Directives;
use http_cache_semantics::{CacheOptions, CachePolicy};
use std::time::{Duration, SystemTime};
use wire::{RequestView, ResponseHead};

/// Where a response's lifetime comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// It is always this, whatever the response says.
    Fixed(Duration),
    /// What the response says (`s-maxage`, `max-age`, `Expires`, counted from its `Age`), else this; nothing is kept where
    /// that is zero.
    Stated(Duration),
}

/// What a response may be kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long it is fresh.
    pub lifetime: Duration,
    /// How old it was when it came.
    pub age: Duration,
    /// How long after that it may be used while a fresh one is fetched.
    pub while_revalidating: Duration,
    /// How long after that it may be used when the upstream fails.
    pub if_error: Duration,
    /// Whether it may not be used after that, whatever a request says.
    pub must_revalidate: bool,
}

impl Terms {
    /// The terms of a response with this head to `request`; `None` where a cache that many share must not keep it.
    /// `cookies` says whether responses that set some may be kept.
    #[must_use]
    pub fn of(
        request: RequestView<'_>,
        (head, bytes): (&ResponseHead, &[u8]),
        policy: Policy,
        cookies: bool,
        now: SystemTime,
    ) -> Option<Self> {
        let field = |name: &[u8]| head.header(bytes, name);
        let said = Directives::of(values(head, bytes, b"cache-control"));
        let refused = said.no_store || said.private || said.no_cache;
        let every = values(head, bytes, b"vary")
            .any(|value| value.split(|b| *b == b',').any(|v| v.trim_ascii() == b"*"));
        if refused || every || (!cookies && field(b"set-cookie").is_some()) {
            return None;
        }
        let (lifetime, age) = match policy {
            Policy::Fixed(lifetime) => (lifetime, Duration::ZERO),
            Policy::Stated(otherwise) => stated(request, head, bytes, cookies, otherwise, now)?,
        };
        let grace = |seconds: Option<u64>| match seconds {
            Some(seconds) if !said.must_revalidate => Duration::from_secs(seconds),
            _ => Duration::ZERO,
        };
        (lifetime > Duration::ZERO).then_some(Self {
            lifetime,
            age,
            while_revalidating: grace(said.stale_while_revalidate),
            if_error: grace(said.stale_if_error),
            must_revalidate: said.must_revalidate,
        })
    }
}

/// Lifetime and age by the response's own word, as RFC 9111 section 4.2 reads it.
fn stated(
    request: RequestView<'_>,
    head: &ResponseHead,
    bytes: &[u8],
    cookies: bool,
    otherwise: Duration,
    now: SystemTime,
) -> Option<(Duration, Duration)> {
    let mut response = http::Response::builder().status(head.status);
    for field in &head.fields {
        let name = field.name.get(bytes);
        if !(cookies && name.eq_ignore_ascii_case(b"set-cookie")) {
            response = response.header(name, field.value.get(bytes));
        }
    }
    // Only what the rules look at: the method, and whether the request was authenticated. As in nginx, what is kept for
    // whom is the cache key's business, so that the latter does not count.
    let request = http::Request::builder().method(request.head.method_token.get(request.bytes));
    let (request, response) = (request.body(()).ok()?, response.body(()).ok()?);
    let options = CacheOptions { shared: true, cache_heuristic: 0.0, ..CacheOptions::default() };
    let policy = CachePolicy::new_options(&request, &response, now, options);
    let said = ["cache-control", "expires"].iter().any(|name| response.headers().contains_key(*name));
    let lifetime = policy.time_to_live(now);
    let silent = !said || (lifetime.is_zero() && !states_lifetime(&response));
    if silent {
        Some((otherwise, Duration::ZERO))
    } else {
        Some((lifetime + policy.age(now), policy.age(now)))
    }
    .filter(|(lifetime, age)| lifetime > age)
}

/// Whether a response says at all how long it lives: `Cache-Control: public` says nothing of it.
fn states_lifetime(response: &http::Response<()>) -> bool {
    let controls = response.headers().get_all("cache-control");
    let ages = |value: &http::HeaderValue| {
        value.to_str().is_ok_and(|text| {
            let text = text.to_ascii_lowercase();
            text.contains("max-age") || text.contains("s-maxage")
        })
    };
    response.headers().contains_key("expires") || controls.iter().any(ages)
}

/// The names in `Vary`, in lower case, sorted.
#[must_use]
pub fn varies_by(head: &ResponseHead, bytes: &[u8]) -> Vec<String> {
    let mut names: Vec<String> = values(head, bytes, b"vary")
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
        .filter(|name| !name.is_empty())
        .collect();
    names.sort();
    names.dedup();
    names
}

fn values<'v>(head: &'v ResponseHead, bytes: &'v [u8], name: &'v [u8]) -> impl Iterator<Item = &'v [u8]> {
    head.fields
        .iter()
        .filter(move |field| field.name.get(bytes).eq_ignore_ascii_case(name))
        .map(move |field| field.value.get(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;
    use wire::{Method, RequestHead};

    /// Lifetime, age and the two graces in seconds.
    fn terms(policy: Policy, cookies: bool, fields: &str) -> Option<[u64; 4]> {
        let request = b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\n\r\n";
        let mut request_head = RequestHead::default();
        assert!(request_head.parse(request).unwrap());
        let text = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n");
        let mut head = ResponseHead::default();
        assert!(head.parse(text.as_bytes(), Method::Get).unwrap());
        let view = RequestView { head: &request_head, bytes: request };
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let terms = Terms::of(view, (&head, text.as_bytes()), policy, cookies, now)?;
        Some([terms.lifetime, terms.age, terms.while_revalidating, terms.if_error].map(|time| time.as_secs()))
    }

    #[test]
    fn the_response_and_the_operator_decide() {
        let (fixed, stated) =
            (Policy::Fixed(Duration::from_secs(300)), Policy::Stated(Duration::from_secs(10)));
        let strict = Policy::Stated(Duration::ZERO);
        let dated = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        let expires = format!("{dated}Expires: Sun, 06 Nov 1994 08:51:37 GMT\r\n");
        for (policy, fields, expected) in [
            (fixed, "", Some([300, 0, 0, 0])),
            (fixed, "Cache-Control: max-age=5\r\n", Some([300, 0, 0, 0])),
            (fixed, "Cache-Control: private\r\n", None),
            (fixed, "Cache-Control: a\r\nCache-Control: no-store\r\n", None),
            (fixed, "Set-Cookie: a=b\r\n", None),
            (fixed, "Vary: a, *\r\n", None),
            (stated, "", Some([10, 0, 0, 0])),
            (stated, "Cache-Control: public\r\n", Some([10, 0, 0, 0])),
            (strict, "", None),
            (strict, "Cache-Control: public\r\n", None),
            (stated, "Cache-Control: max-age=60\r\nAge: 20\r\n", Some([60, 20, 0, 0])),
            (stated, "Cache-Control: max-age=20\r\nAge: 20\r\n", None),
            (stated, "Cache-Control: max-age=60, s-maxage=7\r\n", Some([7, 0, 0, 0])),
            (stated, "Cache-Control: max-age=0\r\n", None),
            (stated, expires.as_str(), Some([120, 0, 0, 0])),
            (stated, "Expires: 0\r\n", None),
            (
                stated,
                "Cache-Control: max-age=1, stale-while-revalidate=2, stale-if-error=3\r\n",
                Some([1, 0, 2, 3]),
            ),
            (fixed, "Cache-Control: must-revalidate, stale-if-error=3\r\n", Some([300, 0, 0, 0])),
        ] {
            assert_eq!(terms(policy, false, fields), expected, "{policy:?} {fields}");
        }
        assert_eq!(
            terms(stated, true, "Set-Cookie: a=b\r\nCache-Control: max-age=4\r\n"),
            Some([4, 0, 0, 0])
        );
    }
}
