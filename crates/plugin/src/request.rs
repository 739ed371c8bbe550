//! The request as plugins see it: the client's head, and what plugins changed in it.

use crate::{Authority, BodyVars, HeaderEdits, MethodName, Target, WholeBody};
use std::borrow::Cow;
use std::sync::Arc;
use wire::{BodyLength, Known, RequestView};

/// The client's request. The head itself is never changed: edits are kept beside it and applied when the upstream's
/// head is written.
#[derive(Debug)]
pub struct Request<'a> {
    /// The head as received.
    pub view: RequestView<'a>,
    /// `$uri`: the path, normalised; what routes are matched against.
    pub path: Cow<'a, [u8]>,
    /// `$host`: lower case, without the port; empty where the request names none.
    pub host: Cow<'a, [u8]>,
    /// What plugins changed; allocated when the first one does.
    pub edits: Option<Box<RequestEdits>>,
    /// The body as conditions see it, where the configuration has conditions that look at it.
    pub body: Option<Box<BodyVars>>,
    /// What routes are matched against where it is not `path`.
    route_path: Option<Box<[u8]>>,
}

/// What plugins changed in a request.
#[derive(Debug, Clone, Default)]
pub struct RequestEdits {
    /// Header fields.
    pub headers: HeaderEdits,
    /// The method towards the upstream.
    pub method: Option<MethodName>,
    /// The target (path and query) towards the upstream.
    pub target: Option<Target>,
    /// The `Host` towards the upstream; stands above `pass_host`.
    pub host: Option<Authority>,
    /// The body towards the upstream. Only in place of one that was read ahead: see [`Request::whole_body`].
    pub body: Option<Arc<[u8]>>,
    /// Whether filters change the body while it streams ([`crate::Extras::request_filters`]): its length is then unknown
    /// when the head is sent.
    pub body_changes: bool,
    /// The query that later plugins see, see [`Request::set_query`].
    query: Option<Vec<u8>>,
}

impl<'a> Request<'a> {
    /// A request that nobody has changed yet. `path` and `host` as in the fields of these names.
    #[must_use]
    pub fn new(view: RequestView<'a>, path: Cow<'a, [u8]>, host: Cow<'a, [u8]>) -> Self {
        Self { view, path, host, edits: None, body: None, route_path: None }
    }

    /// The request line as it came, where the head was refused: then it is all that the view holds.
    #[must_use]
    #[inline]
    pub fn refused_line(&self) -> Option<&[u8]> {
        self.view.head.method_token.is_empty().then_some(self.view.bytes)
    }

    /// The path that routes are matched against: `$uri`, but for an encoded slash in it that is to stay one
    /// (`match_uri_encoded_slash`).
    #[must_use]
    #[inline]
    pub fn route_path(&self) -> &[u8] {
        self.route_path.as_deref().unwrap_or(&self.path)
    }

    /// Lets routes be matched against `path` and not against `$uri`.
    pub fn set_route_path(&mut self, path: Vec<u8>) {
        self.route_path = Some(path.into());
    }

    /// The method's token as received.
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.view.head.method_token.get(self.view.bytes)
    }

    /// Path and query as received: `$request_uri`.
    #[must_use]
    pub fn target(&self) -> &[u8] {
        self.view.head.target.get(self.view.bytes)
    }

    /// The query without its `?`: `$args`.
    #[must_use]
    pub fn query(&self) -> &[u8] {
        match self.edits.as_ref().and_then(|edits| edits.query.as_deref()) {
            Some(query) => query,
            None => self.view.head.query.get(self.view.bytes),
        }
    }

    /// Puts another query in place, for later plugins and the upstream.
    pub fn set_query(&mut self, query: Vec<u8>) {
        let target = self.edits.as_ref().and_then(|edits| edits.target.as_deref());
        let target = target.unwrap_or_else(|| self.view.head.target.get(self.view.bytes));
        let mut target = target.split(|byte| *byte == b'?').next().unwrap_or_default().to_vec();
        if !query.is_empty() {
            target.push(b'?');
            target.extend_from_slice(&query);
        }
        let edits = self.edit();
        edits.target = Some(Target::new(target));
        edits.query = Some(query);
    }

    /// Takes all query arguments called `name` out, for later plugins and the upstream.
    pub fn remove_arg(&mut self, name: &[u8]) {
        let is_named = |pair: &&[u8]| pair.split(|byte| *byte == b'=').next() != Some(name);
        let kept: Vec<&[u8]> = self.query().split(|byte| *byte == b'&').filter(is_named).collect();
        let kept = kept.join(&b'&');
        if kept.len() != self.query().len() {
            self.set_query(kept);
        }
    }

    /// The value of the first field called `name` (any case), edits included.
    #[must_use]
    pub fn header(&self, name: &[u8]) -> Option<&[u8]> {
        match self.edits.as_ref().and_then(|edits| edits.headers.get(name)) {
            Some(edited) => edited,
            None => self.view.header(name),
        }
    }

    /// The values of all fields called `name` (any case), edits included, as the one list that they are (RFC 9110 section
    /// 5.3).
    #[must_use]
    pub fn header_list(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        if let Some(edited) = self.edits.as_ref().and_then(|edits| edits.headers.get(name)) {
            return edited.map(Cow::Borrowed);
        }
        let mut values = self.view.headers(name);
        let first = Cow::Borrowed(values.next()?);
        Some(values.fold(first, |list, value| Cow::Owned([&list, value].join(&b", "[..]))))
    }

    /// The value of a known field as received.
    #[must_use]
    pub fn known(&self, known: Known) -> Option<&'a [u8]> {
        self.view.known(known)
    }

    /// The value of the first query argument called `name`, percent-encoded as sent; an argument without `=` is empty.
    #[must_use]
    pub fn arg(&self, name: &[u8]) -> Option<&[u8]> {
        self.query().split(|byte| *byte == b'&').find_map(|pair| {
            let rest = pair.strip_prefix(name)?;
            if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"=") }
        })
    }

    /// The value of the first cookie called `name`.
    #[must_use]
    pub fn cookie(&self, name: &[u8]) -> Option<&[u8]> {
        self.view.headers(b"cookie").find_map(|line| {
            line.split(|byte| *byte == b';')
                .find_map(|pair| pair.trim_ascii().strip_prefix(name)?.strip_prefix(b"="))
        })
    }

    /// The body, as the upstream is to get it, where that has at most `limit_bytes`. A hook that gets to know here that it
    /// is unread answers with [`crate::Flow::Body`], and runs again.
    #[must_use]
    pub fn whole_body(&self, limit_bytes: usize) -> WholeBody<'_> {
        if let Some(body) = self.edits.as_ref().and_then(|edits| edits.body.as_ref()) {
            return if body.len() <= limit_bytes { WholeBody::Whole(body) } else { WholeBody::TooLong };
        }
        match (self.view.head.facts.body, &self.body) {
            (BodyLength::None, _) => WholeBody::Whole(b""),
            (BodyLength::Exact(length), _) if length > limit_bytes as u64 => WholeBody::TooLong,
            (_, Some(read)) => read.whole(limit_bytes),
            _ => WholeBody::Unread,
        }
    }

    /// The edits, made now if there are none.
    pub fn edit(&mut self) -> &mut RequestEdits {
        self.edits.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use crate::testkit::Bench;

    #[test]
    fn a_changed_query_is_seen_by_later_plugins_and_the_upstream() {
        let bench = Bench::new("GET /a?x=1&key=k&y=2&key=");
        let mut exchange = bench.exchange();
        let request = &mut exchange.request;
        request.remove_arg(b"none");
        assert!(request.edits.is_none(), "nothing to change");
        request.remove_arg(b"key");
        assert_eq!((request.query(), request.arg(b"key")), (&b"x=1&y=2"[..], None));
        request.remove_arg(b"x");
        request.remove_arg(b"y");
        assert_eq!(request.edit().target.as_deref(), Some(&b"/a"[..]));
        assert_eq!(request.target(), b"/a?x=1&key=k&y=2&key=", "as received");
    }
}
