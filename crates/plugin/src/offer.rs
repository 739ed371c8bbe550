//! Offers of content codings: the one that the client likes best is taken once the response's head is settled.

use crate::{BodyFilters, BodyView, Coding, Exchange, UpstreamResponse, has_no_body};
use wire::Method;

impl Exchange<'_> {
    /// Offers a coding. Of several offers the client's favourite stands; of equal ones the first.
    pub fn offer(&mut self, coding: Coding) {
        let best = &mut self.extras().coding;
        if best.as_ref().is_none_or(|best| coding.weight > best.weight) {
            *best = Some(coding);
        }
    }

    /// The filters that the body passes, now that all hooks have seen the response; `None` where it passes as it is.
    #[inline]
    pub fn take_body_filters(&mut self, response: &UpstreamResponse<'_>) -> Option<BodyFilters> {
        self.extras.as_ref()?;
        self.take_filters(response)
    }

    fn take_filters(&mut self, response: &UpstreamResponse<'_>) -> Option<BodyFilters> {
        let extras = self.extras.as_mut()?;
        let mut filters = std::mem::take(&mut extras.body_filters);
        if let Some(coding) = extras.coding.take()
            && self.may_encode(response)
        {
            self.encode(&coding, response);
            filters.push_boxed(coding.filter);
        }
        (!filters.is_empty()).then_some(filters)
    }

    /// Whether the response is of a kind that another coding can be put on (RFC 9110 sections 8.4 and 15.3.7, RFC 9111
    /// section 5.2.2.6).
    fn may_encode(&self, response: &UpstreamResponse<'_>) -> bool {
        let field = |name: &[u8]| response.header(name, self.reply_headers);
        let transformable = || {
            let directives = field(b"cache-control").unwrap_or_default();
            !directives
                .split(|byte| *byte == b',')
                .any(|one| one.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
        };
        // A part of the plain body is not a part of the encoded one, and a tunnel's bytes are nobody's body.
        !matches!(self.status, 101 | 204 | 206 | 304)
            && field(b"content-encoding").is_none_or(<[u8]>::is_empty)
            && transformable()
    }

    /// Says in the head what is done to the body.
    fn encode(&mut self, coding: &Coding, response: &UpstreamResponse<'_>) {
        let edits = &mut *self.reply_headers;
        edits.set("Content-Encoding", coding.token);
        edits.remove("Accept-Ranges");
        // The same strong tag must not stand for two representations (RFC 9110 section 8.8.3).
        let weak = match response.header(b"etag", edits) {
            None => return,
            Some(tag) if tag.starts_with(b"W/\"") => return,
            Some(tag) if tag.len() >= 2 && tag.starts_with(b"\"") && tag.ends_with(b"\"") => {
                Some([b"W/", tag].concat())
            }
            Some(_) => None,
        };
        match weak {
            Some(tag) => edits.set("ETag", tag),
            None => edits.remove("ETag"),
        }
    }

    /// Takes back what was said of a body that could not be sent after all: another answer is made instead.
    pub fn forget_coding(&mut self) {
        ["Content-Encoding", "ETag"].iter().for_each(|name| self.reply_headers.remove(name));
    }

    /// Whether the request's body passes taps or filters on its way to the upstream.
    #[must_use]
    #[inline]
    pub fn has_request_filters(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| !extras.request_filters.is_empty())
    }

    /// Takes out the filters that the request's body passes on its way to the upstream; `None` where it passes as it is.
    #[must_use]
    pub fn take_request_filters(&mut self) -> Option<BodyFilters> {
        let filters = std::mem::take(&mut self.extras.as_mut()?.request_filters);
        (!filters.is_empty()).then_some(filters)
    }

    /// What a filter of the response's body sees.
    #[must_use]
    pub fn body_view(&mut self) -> BodyView<'_> {
        BodyView { request: self.request.view, status: self.status, vars: &mut self.vars }
    }

    /// Whether the client gets a body at all with a response of this status.
    #[must_use]
    pub fn is_bodiless(&self) -> bool {
        self.request.view.head.facts.method == Method::Head || has_no_body(self.status)
    }
}
