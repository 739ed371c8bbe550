//! Preconditions: whether a request gets the file, or is told that it has it, or that it is another by now
//! (RFC 9110 section 13).

use crate::etag;
use crate::query::Query;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a request's preconditions come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The file is sent.
    Proceed,
    /// 304: the client's copy is good.
    NotModified,
    /// 412: what the client has in mind is gone.
    Failed,
}

/// Evaluates the fields in the order of RFC 9110 section 13.2.2 against a file's `etag` and time.
pub(crate) fn evaluate(query: &Query<'_>, etag: &str, modified_s: i64) -> Verdict {
    if let Some(field) = query.if_match {
        if !etag::any_strong(field, etag) {
            return Verdict::Failed;
        }
    } else if let Some(date) = query.if_unmodified_since.and_then(seconds)
        && modified_s > date
    {
        return Verdict::Failed;
    }
    if let Some(field) = query.if_none_match {
        if etag::any_weak(field, etag) {
            return Verdict::NotModified;
        }
    } else if let Some(date) = query.if_modified_since.and_then(seconds)
        && modified_s <= date
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Whether `If-Range` lets a range be sent (RFC 9110 section 13.1.5): a strong tag that is the file's, or its very date.
pub(crate) fn range_holds(query: &Query<'_>, etag: &str, modified_s: i64) -> bool {
    match query.if_range {
        None => true,
        Some(field) if field.contains(&b'"') => etag::any_strong(field, etag),
        Some(field) => seconds(field) == Some(modified_s),
    }
}

/// An HTTP date in seconds since 1970; a broken one is as good as none.
fn seconds(field: &[u8]) -> Option<i64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(field).ok()?.trim()).ok()?;
    let since = date.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// A file's time as an HTTP date. Times before 1970 and after 9999, which have none, become the nearest that has.
pub(crate) fn http_date(modified_s: i64) -> String {
    const YEAR_9999_END_S: u64 = 253_402_300_799;
    let seconds = u64::try_from(modified_s).unwrap_or_default().min(YEAR_9999_END_S);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: i64 = 784_111_777;
    const DATE: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const EARLIER: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";
    const LATER: &[u8] = b"Sun, 06 Nov 1994 08:49:38 GMT";

    #[test]
    fn preconditions_are_read_in_the_order_of_the_rfc() {
        let q = Query::default;
        let cases = [
            (q(), Verdict::Proceed),
            (Query { if_none_match: Some(b"\"a\""), ..q() }, Verdict::NotModified),
            (Query { if_none_match: Some(b"W/\"a\""), ..q() }, Verdict::NotModified),
            (Query { if_none_match: Some(b"\"x\", \"a\""), ..q() }, Verdict::NotModified),
            (Query { if_none_match: Some(b"*"), ..q() }, Verdict::NotModified),
            (Query { if_none_match: Some(b"\"b\""), ..q() }, Verdict::Proceed),
            // A tag overrules the date.
            (
                Query { if_none_match: Some(b"\"b\""), if_modified_since: Some(LATER), ..q() },
                Verdict::Proceed,
            ),
            (Query { if_modified_since: Some(DATE), ..q() }, Verdict::NotModified),
            (Query { if_modified_since: Some(LATER), ..q() }, Verdict::NotModified),
            (Query { if_modified_since: Some(EARLIER), ..q() }, Verdict::Proceed),
            (Query { if_modified_since: Some(b"yesterday"), ..q() }, Verdict::Proceed),
            (Query { if_match: Some(b"\"a\""), ..q() }, Verdict::Proceed),
            (Query { if_match: Some(b"*"), ..q() }, Verdict::Proceed),
            (Query { if_match: Some(b"W/\"a\""), ..q() }, Verdict::Failed),
            (Query { if_match: Some(b"\"b\""), ..q() }, Verdict::Failed),
            (Query { if_unmodified_since: Some(EARLIER), ..q() }, Verdict::Failed),
            (Query { if_unmodified_since: Some(DATE), ..q() }, Verdict::Proceed),
            (Query { if_match: Some(b"\"a\""), if_none_match: Some(b"\"a\""), ..q() }, Verdict::NotModified),
        ];
        for (query, expected) in cases {
            assert_eq!(evaluate(&query, "\"a\"", TIME), expected, "{query:?}");
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
            let query = Query { if_range: Some(field), ..Query::default() };
            assert_eq!(range_holds(&query, "\"a\"", TIME), *expected, "{:?}", String::from_utf8_lossy(field));
        }
        assert!(range_holds(&Query::default(), "\"a\"", TIME));
        assert!(!range_holds(&Query { if_range: Some(b"\"a\""), ..Query::default() }, "W/\"a\"", TIME));
    }

    #[test]
    fn every_time_has_a_date() {
        assert_eq!(http_date(TIME).as_bytes(), DATE);
        assert_eq!(http_date(-1), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
