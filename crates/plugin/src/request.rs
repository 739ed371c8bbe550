//! The request as plugins see it: the client's head, and what plugins changed in it.

use crate::HeaderEdits;
use std::borrow::Cow;
use wire::{Known, RequestView};

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
}

/// What plugins changed in a request.
#[derive(Debug, Default)]
pub struct RequestEdits {
    /// Header fields.
    pub headers: HeaderEdits,
    /// The method towards the upstream.
    pub method: Option<String>,
    /// The target (path and query, already encoded) towards the upstream.
    pub target: Option<Vec<u8>>,
    /// The `Host` towards the upstream; stands above `pass_host`.
    pub host: Option<Vec<u8>>,
}

impl<'a> Request<'a> {
    /// A request that nobody has changed yet. `path` and `host` as in the fields of these names.
    #[must_use]
    pub fn new(view: RequestView<'a>, path: Cow<'a, [u8]>, host: Cow<'a, [u8]>) -> Self {
        Self { view, path, host, edits: None }
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
        self.view.head.query.get(self.view.bytes)
    }

    /// The value of the first field called `name` (any case), edits included.
    #[must_use]
    pub fn header(&self, name: &[u8]) -> Option<&[u8]> {
        match self.edits.as_ref().and_then(|edits| edits.headers.get(name)) {
            Some(edited) => edited,
            None => self.view.header(name),
        }
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

    /// The edits, made now if there are none.
    pub fn edit(&mut self) -> &mut RequestEdits {
        self.edits.get_or_insert_default()
    }
}
