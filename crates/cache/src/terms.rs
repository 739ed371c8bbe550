//! Whether a response may be kept, and for how long.

use crate::Directives;
use std::time::{Duration, SystemTime};
use wire::ResponseHead;

/// Where a response's lifetime comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// It is always this, whatever the response says.
    Fixed(Duration),
    /// What the response says (`s-maxage`, `max-age`, `Expires`, counted from its `Age`), else this; nothing is kept where
    /// that is zero.
    Stated(Duration),
}

/// What the operator and the request say about keeping a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Where lifetimes come from.
    pub policy: Policy,
    /// Whether responses that set cookies may be kept.
    pub cookies: bool,
    /// Whether the request showed credentials (`Authorization`) to the upstream, and others can have the same key.
    pub personal: bool,
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
    /// The terms of a response with this head, which came at `now`; `None` where a cache that many share must not keep
    /// it (RFC 9111 section 3).
    #[must_use]
    pub fn of((head, bytes): (&ResponseHead, &[u8]), rules: Rules, now: SystemTime) -> Option<Self> {
        let said = Directives::of(values(head, bytes, b"cache-control"));
        let every = values(head, bytes, b"vary")
            .any(|value| value.split(|b| *b == b',').any(|v| v.trim_ascii() == b"*"));
        let cookies = !rules.cookies && head.header(bytes, b"set-cookie").is_some();
        if said.no_store || said.private || said.no_cache || every || cookies {
            return None;
        }
        // Section 3.5: what one client was shown for its credentials is not for others, unless the origin says so.
        if rules.personal && !(said.public || said.must_revalidate || said.s_maxage.is_some()) {
            return None;
        }
        // A part and a confirmation are no responses by themselves (sections 3.3 and 4.3.4).
        if matches!(head.status, 100..200 | 206 | 304)
            || (said.must_understand && !is_understood(head.status))
        {
            return None;
        }
        let age = age(head, bytes, now);
        let lifetime = match rules.policy {
            Policy::Fixed(lifetime) => lifetime + age,
            Policy::Stated(otherwise) => stated(head, bytes, &said, now).unwrap_or(otherwise + age),
        };
        let strict = said.must_revalidate || said.proxy_revalidate;
        // Who says both `s-maxage` and how long a stale response may be used means both, though section 5.2.2.10 lets the
        // first speak against the second.
        let grace = |seconds: Option<u64>| match seconds {
            Some(seconds) if !strict => Duration::from_secs(seconds),
            _ => Duration::ZERO,
        };
        (lifetime > age).then_some(Self {
            lifetime,
            age,
            while_revalidating: grace(said.stale_while_revalidate),
            if_error: grace(said.stale_if_error),
            must_revalidate: strict || said.s_maxage.is_some(),
        })
    }
}

/// How long a response lives by its own word (RFC 9111 section 4.2.1); `None` where it says nothing of it. What is invalid
/// says that it is stale.
fn stated(head: &ResponseHead, bytes: &[u8], said: &Directives, now: SystemTime) -> Option<Duration> {
    if said.invalid_age {
        return Some(Duration::ZERO);
    }
    if let Some(seconds) = said.s_maxage.or(said.max_age) {
        return Some(Duration::from_secs(seconds));
    }
    let expires = time(head.header(bytes, b"expires")?);
    let date = head.header(bytes, b"date").and_then(time).unwrap_or(now);
    Some(expires.and_then(|expires| expires.duration_since(date).ok()).unwrap_or_default())
}

/// How old a response was when it came (RFC 9111 section 4.2.3): what caches before this one say, or how long ago its origin
/// made it. The time that it took to come is the caller's: `now` is when it was asked for.
fn age(head: &ResponseHead, bytes: &[u8], now: SystemTime) -> Duration {
    let digits = |value: &&[u8]| !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let said = values(head, bytes, b"age").next().filter(digits).map(|value| {
        let most = u64::from(u32::MAX);
        value.iter().fold(0, |sum: u64, digit| (sum * 10 + u64::from(digit - b'0')).min(most))
    });
    let made = head.header(bytes, b"date").and_then(time);
    let apparent = made.and_then(|made| now.duration_since(made).ok()).unwrap_or_default();
    Duration::from_secs(said.unwrap_or_default().max(apparent.as_secs()))
}

fn time(value: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()
}

/// Statuses whose meaning this cache acts upon, for `must-understand` (RFC 9111 section 5.2.2.3).
fn is_understood(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300..=303 | 307 | 308 | 404 | 405 | 410 | 414 | 500..=504)
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
    use wire::Method;

    /// 6 Nov 1994, 08:49:37.
    const NOW: Duration = Duration::from_secs(784_111_777);
    const FIXED: Policy = Policy::Fixed(Duration::from_secs(300));
    const STATED: Policy = Policy::Stated(Duration::from_secs(10));
    const STRICT: Policy = Policy::Stated(Duration::ZERO);

    fn of(status: u16, rules: Rules, fields: &str) -> Option<Terms> {
        let text = format!("HTTP/1.1 {status} Status\r\n{fields}Content-Length: 0\r\n\r\n");
        let mut head = ResponseHead::default();
        assert!(head.parse(text.as_bytes(), Method::Get).unwrap());
        Terms::of((&head, text.as_bytes()), rules, UNIX_EPOCH + NOW)
    }

    /// Lifetime, age and the two graces in seconds.
    fn terms(policy: Policy, fields: &str) -> Option<[u64; 4]> {
        let terms = of(200, Rules { policy, cookies: false, personal: false }, fields)?;
        Some([terms.lifetime, terms.age, terms.while_revalidating, terms.if_error].map(|time| time.as_secs()))
    }

    #[test]
    fn the_response_and_the_operator_decide_how_long_it_lives() {
        let dated = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        let expires = format!("{dated}Expires: Sun, 06 Nov 1994 08:51:37 GMT\r\n");
        let late = "Date: Sun, 06 Nov 1994 08:49:07 GMT\r\n";
        let old = format!("{late}Cache-Control: max-age=60\r\nAge: 20\r\n");
        let past = format!("{late}Expires: Sun, 06 Nov 1994 08:50:37 GMT\r\n");
        for (policy, fields, expected) in [
            (FIXED, "", Some([300, 0, 0, 0])),
            (FIXED, "Cache-Control: max-age=5\r\n", Some([300, 0, 0, 0])),
            (FIXED, "Age: 20\r\n", Some([320, 20, 0, 0])),
            (STATED, "", Some([10, 0, 0, 0])),
            (STATED, "Age: 20\r\n", Some([30, 20, 0, 0])),
            (STATED, "Cache-Control: public\r\n", Some([10, 0, 0, 0])),
            (STRICT, "", None),
            (STRICT, "Cache-Control: public\r\n", None),
            // Section 4.2.1: s-maxage, max-age, Expires, in this order; what is invalid is stale.
            (STATED, "Cache-Control: max-age=60, s-maxage=7\r\n", Some([7, 0, 0, 0])),
            (STATED, "Cache-Control: s-maxage=0, max-age=60\r\n", None),
            (STATED, "Cache-Control: max-age=0\r\n", None),
            (STATED, "Cache-Control: max-age=x\r\n", None),
            (STATED, "Cache-Control: max-age=-1\r\n", None),
            (STATED, "Cache-Control: max-age=7, max-age=9\r\n", Some([7, 0, 0, 0])),
            (STATED, "Cache-Control: max-age=7\r\nExpires: 0\r\n", Some([7, 0, 0, 0])),
            (STATED, expires.as_str(), Some([120, 0, 0, 0])),
            (STATED, "Expires: Sun, 06 Nov 1994 08:49:47 GMT\r\n", Some([10, 0, 0, 0])),
            (STATED, "Expires: 0\r\n", None),
            // Section 4.2.3: the larger of Age and what Date says.
            (STATED, "Cache-Control: max-age=60\r\nAge: 20\r\n", Some([60, 20, 0, 0])),
            (STATED, "Cache-Control: max-age=20\r\nAge: 20\r\n", None),
            (STATED, "Cache-Control: max-age=60\r\nAge: x\r\n", Some([60, 0, 0, 0])),
            (STATED, "Cache-Control: max-age=60\r\nAge: 20\r\nAge: 40\r\n", Some([60, 20, 0, 0])),
            (STATED, old.as_str(), Some([60, 30, 0, 0])),
            (STATED, past.as_str(), Some([90, 30, 0, 0])),
            // RFC 5861.
            (
                STATED,
                "Cache-Control: max-age=1, stale-while-revalidate=2, stale-if-error=3\r\n",
                Some([1, 0, 2, 3]),
            ),
            (FIXED, "Cache-Control: must-revalidate, stale-if-error=3\r\n", Some([300, 0, 0, 0])),
            (FIXED, "Cache-Control: proxy-revalidate, stale-if-error=3\r\n", Some([300, 0, 0, 0])),
            (STATED, "Cache-Control: s-maxage=1, stale-if-error=3\r\n", Some([1, 0, 0, 3])),
        ] {
            assert_eq!(terms(policy, fields), expected, "{policy:?} {fields}");
        }
        for (fields, strict) in [
            ("max-age=1", false),
            ("max-age=1, must-revalidate", true),
            ("max-age=1, proxy-revalidate", true),
            ("s-maxage=1", true),
        ] {
            let rules = Rules { policy: STATED, cookies: false, personal: false };
            let terms = of(200, rules, &format!("Cache-Control: {fields}\r\n")).expect("kept");
            assert_eq!(terms.must_revalidate, strict, "{fields}");
        }
    }

    #[test]
    fn what_a_shared_cache_must_not_keep_it_does_not() {
        for (status, fields, kept) in [
            (200, "", true),
            (200, "Cache-Control: no-store\r\n", false),
            (200, "Cache-Control: a\r\nCache-Control: no-store\r\n", false),
            (200, "Cache-Control: private\r\n", false),
            (200, "Cache-Control: private=\"x-a\"\r\n", false),
            (200, "Cache-Control: no-cache\r\n", false),
            (200, "Cache-Control: no-cache=\"set-cookie, x-a\"\r\n", false),
            (200, "Cache-Control: x=\"a, no-store\"\r\n", true),
            (200, "Set-Cookie: a=b\r\n", false),
            (200, "Vary: *\r\n", false),
            (200, "Vary: a, *\r\n", false),
            (200, "Vary: a\r\nVary: *\r\n", false),
            (200, "Vary: a\r\n", true),
            (206, "Content-Range: bytes 0-0/1\r\n", false),
            (304, "", false),
            (404, "", true),
            (299, "", true),
            (299, "Cache-Control: must-understand\r\n", false),
            (200, "Cache-Control: must-understand\r\n", true),
            (200, "Cache-Control: must-understand, no-store\r\n", false),
        ] {
            let rules = Rules { policy: FIXED, cookies: false, personal: false };
            assert_eq!(of(status, rules, fields).is_some(), kept, "{status} {fields}");
        }
        let cookies = Rules { policy: STATED, cookies: true, personal: false };
        assert!(of(200, cookies, "Set-Cookie: a=b\r\nCache-Control: max-age=4\r\n").is_some());
    }

    #[test]
    fn responses_to_authenticated_requests_are_kept_where_the_origin_allows_it() {
        for (control, kept) in [
            ("", false),
            ("max-age=60", false),
            ("proxy-revalidate", false),
            ("x=\"a, public\"", false),
            ("public", true),
            ("must-revalidate", true),
            ("s-maxage=60", true),
            ("public, private", false),
            ("public, no-store", false),
        ] {
            let rules = Rules { policy: FIXED, cookies: false, personal: true };
            let fields = format!("Cache-Control: {control}\r\n");
            assert_eq!(of(200, rules, &fields).is_some(), kept, "{control}");
        }
    }
}
