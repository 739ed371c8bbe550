//! `Cache-Control`, as requests and responses say it (RFC 9111 section 5.2).

/// The directives that a cache acts upon; others are as if they were not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Directives {
    /// Not to be kept.
    pub no_store: bool,
    /// Not to be used without asking the origin.
    pub no_cache: bool,
    /// Not for a cache that many share.
    pub private: bool,
    /// For every cache, also where the request was authenticated.
    pub public: bool,
    /// Not to be used when stale, in any case.
    pub must_revalidate: bool,
    /// The same for caches that many share.
    pub proxy_revalidate: bool,
    /// To be kept only by a cache that knows the status.
    pub must_understand: bool,
    /// To be answered from the cache or not at all.
    pub only_if_cached: bool,
    /// Seconds that a response may be old.
    pub max_age: Option<u64>,
    /// The same for caches that many share.
    pub s_maxage: Option<u64>,
    /// Whether one of these two has no valid number: the response is stale then (section 4.2.1).
    pub invalid_age: bool,
    /// Seconds that it may be stale; without a number, any.
    pub max_stale: Option<u64>,
    /// Seconds that it has to be fresh for, still.
    pub min_fresh: Option<u64>,
    /// Seconds for which it may be used stale while a fresh one is fetched (RFC 5861).
    pub stale_while_revalidate: Option<u64>,
    /// Seconds for which it may be used stale when the origin fails (RFC 5861).
    pub stale_if_error: Option<u64>,
}

impl Directives {
    /// Reads the values of all `Cache-Control` fields of a message.
    pub fn of<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> Self {
        let mut all = Self::default();
        for value in values {
            let (mut quoted, mut escaped) = (false, false);
            // A comma within quotation marks parts nothing: `ext="a, public"` is one directive.
            let parts = value.split(|byte| {
                match byte {
                    _ if std::mem::take(&mut escaped) => {}
                    b'\\' => escaped = quoted,
                    b'"' => quoted = !quoted,
                    _ => {}
                }
                *byte == b',' && !quoted
            });
            parts.for_each(|part| all.add(part.trim_ascii()));
        }
        all
    }

    fn add(&mut self, part: &[u8]) {
        let (name, argument) = match part.iter().position(|byte| *byte == b'=') {
            Some(at) => (part[..at].trim_ascii(), Some(part[at + 1..].trim_ascii())),
            None => (part, None),
        };
        let seconds = || argument.and_then(seconds);
        match name.to_ascii_lowercase().as_slice() {
            b"no-store" => self.no_store = true,
            // With field names it speaks of these alone; taking it as a whole is what RFC 9111 allows.
            b"no-cache" => self.no_cache = true,
            b"private" => self.private = true,
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"only-if-cached" => self.only_if_cached = true,
            // Of several the first counts (section 4.2.1).
            b"max-age" => {
                self.invalid_age |= seconds().is_none();
                self.max_age = self.max_age.or_else(seconds);
            }
            b"s-maxage" => {
                self.invalid_age |= seconds().is_none();
                self.s_maxage = self.s_maxage.or_else(seconds);
            }
            b"max-stale" => self.max_stale = Some(seconds().unwrap_or(u64::MAX)),
            b"min-fresh" => self.min_fresh = seconds().or(self.min_fresh),
            b"stale-while-revalidate" => self.stale_while_revalidate = seconds(),
            b"stale-if-error" => self.stale_if_error = seconds(),
            _ => {}
        }
    }
}

/// A number of seconds, in quotation marks or without; larger ones than a clock can hold are as large as it can.
fn seconds(argument: &[u8]) -> Option<u64> {
    let digits = argument.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(argument);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let most = u64::from(u32::MAX);
    Some(digits.iter().fold(0, |sum: u64, digit| (sum * 10 + u64::from(digit - b'0')).min(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_read_whatever_their_form() {
        let none = Directives::default();
        for (text, expected) in [
            ("", none),
            ("public, unknown=1", Directives { public: true, ..none }),
            ("No-Store", Directives { no_store: true, ..none }),
            ("max-age=60 , PRIVATE", Directives { max_age: Some(60), private: true, ..none }),
            ("max-age=\"60\"", Directives { max_age: Some(60), ..none }),
            ("max-age=-1, max-age=x", Directives { invalid_age: true, ..none }),
            ("max-age=5, max-age=6", Directives { max_age: Some(5), ..none }),
            ("s-maxage=5", Directives { s_maxage: Some(5), ..none }),
            ("x=\"a, public\\\", no-store\", must-revalidate", Directives { must_revalidate: true, ..none }),
            ("proxy-revalidate", Directives { proxy_revalidate: true, ..none }),
            ("must-understand", Directives { must_understand: true, ..none }),
            ("max-age=99999999999999999999", Directives { max_age: Some(u64::from(u32::MAX)), ..none }),
            ("max-stale", Directives { max_stale: Some(u64::MAX), ..none }),
            ("no-cache=\"set-cookie, x\"", Directives { no_cache: true, ..none }),
            (
                "stale-while-revalidate=5,stale-if-error=6",
                Directives { stale_while_revalidate: Some(5), stale_if_error: Some(6), ..none },
            ),
        ] {
            assert_eq!(Directives::of([text.as_bytes()]), expected, "{text}");
        }
    }
}
