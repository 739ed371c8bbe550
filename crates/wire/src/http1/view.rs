//! A request head with its bytes: what it says, read from the ranges.

use super::request::RequestHead;
use crate::{Known, NormalisedPath, normalise_path};
use std::borrow::Cow;

/// A request head together with its bytes.
#[derive(Debug, Clone, Copy)]
pub struct RequestView<'b> {
    /// The ranges.
    pub head: &'b RequestHead,
    /// The bytes they are ranges of.
    pub bytes: &'b [u8],
}

impl<'b> RequestView<'b> {
    /// The path as [`normalise_path`] has it.
    #[inline]
    #[must_use]
    pub fn normal_path(&self) -> Option<NormalisedPath<'b>> {
        let path = self.head.path.get(self.bytes);
        if self.head.facts.plain_target { Some(Cow::Borrowed(path)) } else { normalise_path(path) }
    }

    /// The host in lower case, without the dot at the end of a name that is fully qualified: nginx's `$host`.
    #[inline]
    #[must_use]
    pub fn host(&self) -> Cow<'b, [u8]> {
        let host = self.head.host.get(self.bytes);
        let host = host.strip_suffix(b".").unwrap_or(host);
        if self.head.facts.plain_host || !host.iter().any(u8::is_ascii_uppercase) {
            Cow::Borrowed(host)
        } else {
            Cow::Owned(host.to_ascii_lowercase())
        }
    }

    /// The value of the first field called `name` (any case).
    #[must_use]
    pub fn header(&self, name: &[u8]) -> Option<&'b [u8]> {
        self.headers(name).next()
    }

    /// The values of all fields called `name` (any case).
    pub fn headers<'n>(&self, name: &'n [u8]) -> impl Iterator<Item = &'b [u8]> + use<'b, 'n> {
        let bytes = self.bytes;
        self.head
            .fields
            .iter()
            .filter(move |field| {
                field.name.len() == name.len() && field.name.get(bytes).eq_ignore_ascii_case(name)
            })
            .map(move |field| field.value.get(bytes))
    }

    /// The value of the first field called `name` (any case) as the client sent it, whether or not it was withdrawn.
    #[must_use]
    pub fn sent(&self, name: &[u8]) -> Option<&'b [u8]> {
        let bytes = self.bytes;
        let mut withdrawn = self.head.withdrawn().iter();
        let found = withdrawn.find(|field| field.name.get(bytes).eq_ignore_ascii_case(name));
        found.map(|field| field.value.get(bytes)).or_else(|| self.header(name))
    }

    /// The value of the first field of a known kind.
    #[must_use]
    pub fn known(&self, known: Known) -> Option<&'b [u8]> {
        self.head.fields.iter().find(|field| field.known == known).map(|field| field.value.get(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_form() {
        for (authority, expected) in [
            ("a.com", "a.com"),
            ("A.com:80", "a.com"),
            ("a.com.", "a.com"),
            ("A.COM.:80", "a.com"),
            ("a.com..", "a.com."),
            ("[::1]:80", "[::1]"),
        ] {
            let bytes = format!("GET / HTTP/1.1\r\nHost: {authority}\r\n\r\n").into_bytes();
            let mut head = RequestHead::default();
            assert_eq!(head.parse(&bytes), Ok(true), "{authority}");
            let view = RequestView { head: &head, bytes: &bytes };
            assert_eq!(view.host().escape_ascii().to_string(), expected);
        }
    }
}
