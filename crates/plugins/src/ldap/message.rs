//! LDAP's messages (RFC 4511 section 4).

use super::ber::{Elements, element, number};

/// The result code of a wrong name or password (appendix A).
pub(crate) const INVALID_CREDENTIALS: u32 = 49;

/// The result code of a search that found more than it was to.
pub(crate) const SIZE_LIMIT_EXCEEDED: u32 = 4;

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const ENUMERATED: u8 = 0x0a;
const SEQUENCE: u8 = 0x30;

const BIND_REQUEST: u8 = 0x60;
const BIND_RESPONSE: u8 = 0x61;
const SEARCH_REQUEST: u8 = 0x63;
const SEARCH_ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const SEARCH_REFERENCE: u8 = 0x73;

/// A search for the entries below `base` whose `attribute` is `value`.
pub(crate) struct Search<'s> {
    pub(crate) base: &'s str,
    pub(crate) attribute: &'s str,
    pub(crate) value: &'s str,
    /// 0 is the server's own limit.
    pub(crate) size_limit: u32,
    /// Seconds; 0 is the server's own limit.
    pub(crate) time_limit_s: u32,
}

/// An answer of a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The result of a bind.
    Bound(u32),
    /// An entry that a search found: its distinguished name.
    Entry(String),
    /// Another server that may know more. It is not asked.
    Reference,
    /// The result of a search.
    Done(u32),
}

/// A simple bind (section 4.2).
pub(super) fn bind(id: u32, name: &str, password: &str) -> Vec<u8> {
    let content =
        [number(INTEGER, 3), element(OCTETS, name.as_bytes()), element(0x80, password.as_bytes())].concat();
    message(id, &element(BIND_REQUEST, &content))
}

/// A search of a whole subtree (section 4.5.1), which asks for no attributes.
pub(super) fn search(id: u32, search: &Search<'_>) -> Vec<u8> {
    let filter =
        [element(OCTETS, search.attribute.as_bytes()), element(OCTETS, search.value.as_bytes())].concat();
    let content = [
        element(OCTETS, search.base.as_bytes()),
        number(ENUMERATED, 2), // the whole subtree
        number(ENUMERATED, 3), // aliases are followed
        number(INTEGER, search.size_limit),
        number(INTEGER, search.time_limit_s),
        element(0x01, &[0]),
        element(0xa3, &filter), // equalityMatch
        element(SEQUENCE, &element(OCTETS, b"1.1")),
    ]
    .concat();
    message(id, &element(SEARCH_REQUEST, &content))
}

fn message(id: u32, operation: &[u8]) -> Vec<u8> {
    element(SEQUENCE, &[&number(INTEGER, id), operation].concat())
}

/// Reads one message: whose answer it is, and what it says; `None` where it is neither of the answers that are expected.
pub(super) fn answer(message: &[u8]) -> Option<(u32, Answer)> {
    let mut outer = Elements(message);
    let mut parts = Elements(outer.take(SEQUENCE)?);
    let id = parts.number(INTEGER)?;
    let (tag, content) = parts.next()?;
    let mut content = Elements(content);
    let answer = match tag {
        BIND_RESPONSE => Answer::Bound(content.number(ENUMERATED)?),
        SEARCH_DONE => Answer::Done(content.number(ENUMERATED)?),
        SEARCH_ENTRY => Answer::Entry(String::from_utf8(content.take(OCTETS)?.to_vec()).ok()?),
        SEARCH_REFERENCE => Answer::Reference,
        _ => return None,
    };
    Some((id, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_is_as_in_the_standard() {
        let expected =
            [&[0x30, 17, 2, 1, 1, 0x60, 12, 2, 1, 3, 4, 4][..], b"cn=a", &[0x80, 1], b"p"].concat();
        assert_eq!(bind(1, "cn=a", "p"), expected);
    }

    #[test]
    fn a_value_with_the_signs_of_filters_stays_a_value() {
        let value = "*)(uid=*))(|(uid=*\0\\2a";
        let search = Search { base: "dc=a", attribute: "uid", value, size_limit: 2, time_limit_s: 5 };
        let message = super::search(7, &search);
        let at = message.windows(value.len()).position(|part| part == value.as_bytes());
        let at = at.expect("unchanged");
        assert_eq!(message[at - 2..at], [OCTETS, value.len() as u8], "with its own length");
    }

    #[test]
    fn answers_are_read_and_nonsense_is_not() {
        let result = |tag, code: u32| {
            message(
                3,
                &element(tag, &[number(ENUMERATED, code), element(4, b""), element(4, b"why")].concat()),
            )
        };
        assert_eq!(answer(&result(BIND_RESPONSE, 49)), Some((3, Answer::Bound(49))));
        assert_eq!(answer(&result(SEARCH_DONE, 0)), Some((3, Answer::Done(0))));
        let entry = element(SEARCH_ENTRY, &[element(4, b"cn=a"), element(SEQUENCE, b"")].concat());
        assert_eq!(answer(&message(4, &entry)), Some((4, Answer::Entry("cn=a".to_owned()))));
        // A notice of disconnection (section 4.4.1), a result without code, a name that is no UTF-8.
        for bytes in [
            result(0x78, 52),
            message(1, &element(BIND_RESPONSE, b"")),
            message(1, &element(SEARCH_ENTRY, &element(4, b"\xff"))),
            b"HTTP/1.1 400 Bad Request\r\n".to_vec(),
            Vec::new(),
        ] {
            assert_eq!(answer(&bytes), None, "{bytes:?}");
        }
    }
}
