//! Preconditions: whether a request gets a representation, or is told that it has it, or that it is another by now
//! (RFC 9110 section 13).

use crate::Method;
use crate::range::{self, Ranges};
use std::time::UNIX_EPOCH;

/// The fields that make a request one for what has changed, or for a part. As they were sent, `None` where absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    /// `Range`.
    pub range: Option<&'a [u8]>,
    /// `If-Range`.
    pub if_range: Option<&'a [u8]>,
    /// `If-Match`.
    pub if_match: Option<&'a [u8]>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a [u8]>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'a [u8]>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'a [u8]>,
}

/// What tells one version of a representation from another.
#[derive(Debug, Clone, Copy, Default)]
pub struct Validators<'a> {
    /// `ETag`, with its quotes.
    pub etag: Option<&'a [u8]>,
    /// `Last-Modified`, in seconds since 1970.
    pub modified_s: Option<i64>,
}

/// What a request's preconditions come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The representation is sent.
    Proceed,
    /// 304: the client's copy is good.
    NotModified,
    /// 412: what the client has in mind is gone.
    Failed,
}

impl<'a> Conditions<'a> {
    /// The names of the fields.
    pub const NAMES: [&'static str; 6] =
        ["If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range", "Range"];

    /// Those of a request whose fields `field` gives by their names in lower case. Only GET has ranges (RFC 9110 section
    /// 14.2).
    pub fn of(method: Method, field: impl Fn(&[u8]) -> Option<&'a [u8]>) -> Self {
        Self {
            range: field(b"range").filter(|_| method == Method::Get),
            if_range: field(b"if-range"),
            if_match: field(b"if-match"),
            if_none_match: field(b"if-none-match"),
            if_modified_since: field(b"if-modified-since"),
            if_unmodified_since: field(b"if-unmodified-since"),
        }
    }

    /// Evaluates the fields in the order of RFC 9110 section 13.2.2. Dates count where there is one to compare them to.
    #[must_use]
    pub fn evaluate(&self, current: Validators<'_>) -> Verdict {
        let later_than = |field: Option<&[u8]>| Some(current.modified_s? > seconds(field?)?);
        if let Some(field) = self.if_match {
            if !any_strong(field, current.etag) {
                return Verdict::Failed;
            }
        } else if later_than(self.if_unmodified_since) == Some(true) {
            return Verdict::Failed;
        }
        if let Some(field) = self.if_none_match {
            if any_weak(field, current.etag) {
                return Verdict::NotModified;
            }
        } else if later_than(self.if_modified_since) == Some(false) {
            return Verdict::NotModified;
        }
        Verdict::Proceed
    }

    /// What the request wants of the current representation, `length` bytes long.
    #[must_use]
    pub fn ranges(&self, current: Validators<'_>, length: u64) -> Ranges {
        match self.range {
            Some(field) if self.range_holds(current) => range::parse(field, length),
            _ => Ranges::All,
        }
    }

    /// Whether `If-Range` lets a range be sent (RFC 9110 section 13.1.5): a strong tag that is the current one, or its very
    /// date.
    fn range_holds(&self, current: Validators<'_>) -> bool {
        match self.if_range {
            None => true,
            Some(field) if field.contains(&b'"') => any_strong(field, current.etag),
            Some(field) => current.modified_s.is_some() && seconds(field) == current.modified_s,
        }
    }
}

impl<'a> Validators<'a> {
    /// Those of a response with these fields.
    #[must_use]
    pub fn new(etag: Option<&'a [u8]>, last_modified: Option<&[u8]>) -> Self {
        Self { etag, modified_s: last_modified.and_then(seconds) }
    }
}

/// Whether one of the tags in `field` (or `*`) is `tag` by weak comparison.
fn any_weak(field: &[u8], tag: Option<&[u8]>) -> bool {
    let tag = tag.map(opaque);
    tags(field).any(|other| other == b"*" || tag == Some(opaque(other)))
}

/// A tag without what says that it is weak.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Whether one of the tags in `field` (or `*`) is `tag` by strong comparison: neither may be weak.
fn any_strong(field: &[u8], tag: Option<&[u8]>) -> bool {
    tags(field).any(|other| other == b"*" || (!other.starts_with(b"W/") && tag == Some(other)))
}

/// The tags of a list. They may hold commas.
fn tags(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let ends = move |byte: &u8| {
        quoted ^= *byte == b'"';
        *byte == b',' && !quoted
    };
    field.split(ends).map(<[u8]>::trim_ascii)
}

/// An HTTP date in seconds since 1970; a broken one is as good as none.
fn seconds(field: &[u8]) -> Option<i64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(field).ok()?.trim()).ok()?;
    let since = date.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Validators<'_> = Validators { etag: Some(b"\"a\""), modified_s: Some(784_111_777) };
    const DATE: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const EARLIER: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";
    const LATER: &[u8] = b"Sun, 06 Nov 1994 08:49:38 GMT";

    #[test]
    fn preconditions_are_read_in_the_order_of_the_rfc() {
        let q = Conditions::default;
        let cases = [
            (q(), Verdict::Proceed),
            (Conditions { if_none_match: Some(b"\"a\""), ..q() }, Verdict::NotModified),
            (Conditions { if_none_match: Some(b"W/\"a\""), ..q() }, Verdict::NotModified),
            (Conditions { if_none_match: Some(b"\"x\", \"a\""), ..q() }, Verdict::NotModified),
            (Conditions { if_none_match: Some(b"*"), ..q() }, Verdict::NotModified),
            (Conditions { if_none_match: Some(b"\"b\""), ..q() }, Verdict::Proceed),
            // A tag overrules the date.
            (
                Conditions { if_none_match: Some(b"\"b\""), if_modified_since: Some(LATER), ..q() },
                Verdict::Proceed,
            ),
            (Conditions { if_modified_since: Some(DATE), ..q() }, Verdict::NotModified),
            (Conditions { if_modified_since: Some(LATER), ..q() }, Verdict::NotModified),
            (Conditions { if_modified_since: Some(EARLIER), ..q() }, Verdict::Proceed),
            (Conditions { if_modified_since: Some(b"yesterday"), ..q() }, Verdict::Proceed),
            (Conditions { if_match: Some(b"\"a\""), ..q() }, Verdict::Proceed),
            (Conditions { if_match: Some(b"*"), ..q() }, Verdict::Proceed),
            (Conditions { if_match: Some(b"W/\"a\""), ..q() }, Verdict::Failed),
            (Conditions { if_match: Some(b"\"b\""), ..q() }, Verdict::Failed),
            (Conditions { if_unmodified_since: Some(EARLIER), ..q() }, Verdict::Failed),
            (Conditions { if_unmodified_since: Some(DATE), ..q() }, Verdict::Proceed),
            (
                Conditions { if_match: Some(b"\"a\""), if_none_match: Some(b"\"a\""), ..q() },
                Verdict::NotModified,
            ),
        ];
        for (conditions, expected) in cases {
            assert_eq!(conditions.evaluate(OWN), expected, "{conditions:?}");
        }
    }

    #[test]
    fn tags_may_hold_commas_and_only_get_has_ranges() {
        let own = Validators { etag: Some(b"\"a,b\""), modified_s: None };
        for (field, expected) in
            [("\"x\", \"a,b\"", true), ("\"a,b\",", true), ("\"a\",\"b\"", false), ("\"a,b", false)]
        {
            let conditions = Conditions { if_match: Some(field.as_bytes()), ..Conditions::default() };
            assert_eq!(conditions.evaluate(own) == Verdict::Proceed, expected, "{field}");
        }
        for (method, expected) in [(Method::Get, true), (Method::Head, false)] {
            assert_eq!(Conditions::of(method, |_| Some(b"bytes=0-1")).range.is_some(), expected);
        }
    }

    #[test]
    fn a_range_is_sent_of_the_very_file_alone() {
        let cases: &[(&[u8], bool)] = &[
            (b"\"a\"", true),
            (b"W/\"a\"", false),
            (b"\"b\"", false),
            (DATE, true),
            (LATER, false),
            (EARLIER, false),
            (b"junk", false),
        ];
        for (field, expected) in cases {
            let conditions = Conditions { if_range: Some(field), ..Conditions::default() };
            assert_eq!(conditions.range_holds(OWN), *expected, "{:?}", String::from_utf8_lossy(field));
        }
        assert!(Conditions::default().range_holds(OWN));
        let weak = Validators { etag: Some(b"W/\"a\""), modified_s: None };
        assert!(!Conditions { if_range: Some(b"W/\"a\""), ..Conditions::default() }.range_holds(weak));
    }

    #[test]
    fn what_has_no_validators_is_nobodys_copy() {
        let none = Validators::new(None, Some(b"yesterday"));
        for field in [&b"\"a\""[..], DATE, b""] {
            let conditions =
                Conditions { if_none_match: Some(field), if_range: Some(field), ..Conditions::default() };
            assert_eq!(conditions.evaluate(none), Verdict::Proceed);
            assert!(!conditions.range_holds(none));
        }
        let dated = Conditions {
            if_modified_since: Some(LATER),
            if_unmodified_since: Some(EARLIER),
            ..Conditions::default()
        };
        assert_eq!(dated.evaluate(none), Verdict::Proceed);
        let any = Conditions { if_none_match: Some(b"*"), ..Conditions::default() };
        assert_eq!(any.evaluate(none), Verdict::NotModified);
    }
}
