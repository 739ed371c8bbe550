//! The protocol of SafeLine's detection service, T1K version 2: frames of a tag, a length and data.

use std::fmt::Write as _;

const HEAD: u8 = 0x01;
const BODY: u8 = 0x02;
const EXTRA: u8 = 0x03;
const VERSION: u8 = 0x20;
const EXTRA_HEADER: u8 = 0x23;
const EXTRA_BODY: u8 = 0x24;

/// In the tag of the first and of the last frame of a message.
const FIRST: u8 = 0x40;
const LAST: u8 = 0x80;

/// Bytes before a frame's data: tag, and length in little endian.
pub(super) const FRAME_HEAD: usize = 5;

/// Bytes of all frames of an answer. They have a few hundred.
const ANSWER_MAX: usize = 64 * 1024;

/// What a request says about itself besides its head and body.
pub(super) struct Extra<'e> {
    pub(super) uuid: String,
    pub(super) remote: (&'e str, String),
    pub(super) local: (String, String),
    pub(super) scheme: &'e str,
    pub(super) server_name: &'e str,
    pub(super) proxy_name: &'e str,
    /// Microseconds since 1970.
    pub(super) began_us: u64,
}

/// The message that asks about a request.
pub(super) fn question(head: &[u8], body: &[u8], extra: &Extra<'_>) -> Vec<u8> {
    let mut text = String::new();
    for (name, value) in [
        ("UUID", extra.uuid.as_str()),
        ("RemoteAddr", extra.remote.0),
        ("RemotePort", &extra.remote.1),
        ("LocalAddr", &extra.local.0),
        ("LocalPort", &extra.local.1),
        ("Scheme", extra.scheme),
        ("ServerName", extra.server_name),
        ("ProxyName", extra.proxy_name),
        ("ReqBeginTime", &extra.began_us.to_string()),
        ("HasRspIfOK", "n"),
        ("HasRspIfBlock", "n"),
    ] {
        let value: String = value.chars().filter(|c| !c.is_control()).collect();
        // Writing to text does not fail.
        let _ = writeln!(text, "{name}:{value}");
    }
    let mut message = Vec::with_capacity(head.len() + body.len() + text.len() + 64);
    frame(HEAD | FIRST, head, &mut message);
    if !body.is_empty() {
        frame(BODY, body, &mut message);
    }
    frame(VERSION, b"Proto:2\n", &mut message);
    frame(EXTRA | LAST, text.as_bytes(), &mut message);
    message
}

fn frame(tag: u8, data: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    // A request's body has at most 64 MiB.
    out.extend_from_slice(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(data);
}

/// What the service says about a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    action: Vec<u8>,
    status: Vec<u8>,
    event: Vec<u8>,
    /// Fields for the client, a line each.
    pub(super) fields: Vec<u8>,
    bytes: usize,
    has_begun: bool,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Reject { status: u16, event_id: String },
}

impl Answer {
    /// Reads the head of a frame: how many bytes of data follow, and whether it is the last.
    pub(super) fn begin(&mut self, head: [u8; FRAME_HEAD]) -> Result<(u8, usize, bool), &'static str> {
        let [tag, length @ ..] = head;
        if !std::mem::replace(&mut self.has_begun, true) && tag & FIRST == 0 {
            return Err("the first frame doesn't say that it is");
        }
        let length = u32::from_le_bytes(length) as usize;
        self.bytes = self.bytes.saturating_add(length).saturating_add(FRAME_HEAD);
        if self.bytes > ANSWER_MAX {
            return Err("the answer is too long");
        }
        Ok((tag & !(FIRST | LAST), length, tag & LAST != 0))
    }

    /// Takes the data of a frame.
    pub(super) fn take(&mut self, tag: u8, data: Vec<u8>) {
        match tag {
            HEAD => self.action = data,
            BODY => self.status = data,
            EXTRA_HEADER => self.fields = data,
            EXTRA_BODY => self.event = data,
            _ => {}
        }
    }

    /// What the service decided. An answer that says neither is an error.
    pub(super) fn verdict(&self) -> Result<Verdict, &'static str> {
        match self.action.as_slice() {
            b"." => Ok(Verdict::Pass),
            b"?" => {
                let status = std::str::from_utf8(&self.status).ok().and_then(|text| text.trim().parse().ok());
                let status = status.filter(|status| (400..600).contains(status)).unwrap_or(403);
                Ok(Verdict::Reject { status, event_id: self.event_id() })
            }
            _ => Err("the answer is neither a pass nor a rejection"),
        }
    }

    /// The id in `<!-- event_id: 0123abcd -->`.
    fn event_id(&self) -> String {
        let text = String::from_utf8_lossy(&self.event);
        let rest = text.split_once("event_id:").map_or("", |(_, rest)| rest.trim_start());
        rest.chars().take_while(char::is_ascii_alphanumeric).take(64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> Result<Verdict, &'static str> {
        let mut answer = Answer::default();
        loop {
            let (head, rest) = bytes.split_first_chunk().ok_or("cut")?;
            let (tag, length, last) = answer.begin(*head)?;
            let (data, rest) = rest.split_at_checked(length).ok_or("cut")?;
            answer.take(tag, data.to_vec());
            bytes = rest;
            if last {
                return answer.verdict();
            }
        }
    }

    #[test]
    fn answers_are_read() {
        let pass = [&[65, 1, 0, 0, 0][..], b".", &[165, 2, 0, 0, 0], b"{}"].concat();
        assert_eq!(read(&pass), Ok(Verdict::Pass));
        let event = b"<!-- event_id: b3c6 -->";
        let reject =
            [&[65, 1, 0, 0, 0][..], b"?", &[2, 3, 0, 0, 0], b"405", &[164, 23, 0, 0, 0], event].concat();
        assert_eq!(read(&reject), Ok(Verdict::Reject { status: 405, event_id: "b3c6".to_owned() }));
        let bare = [&[193, 1, 0, 0, 0][..], b"?"].concat();
        assert_eq!(read(&bare), Ok(Verdict::Reject { status: 403, event_id: String::new() }));
        for lie in [
            &[193, 1, 0, 0, 0, b'!'][..],
            &[193, 0, 0, 0, 0],
            &[129, 1, 0, 0, 0, b'.'],
            &[193, 255, 255, 255, 255],
            b"HTTP/1.1 200 OK\r\n\r\n",
        ] {
            assert!(read(lie).is_err(), "{lie:?}");
        }
    }

    #[test]
    fn a_question_has_all_parts() {
        let extra = Extra {
            uuid: "u".to_owned(),
            remote: ("1.2.3.4", "5".to_owned()),
            local: ("6".to_owned(), "7".to_owned()),
            scheme: "http",
            server_name: "a\nRemoteAddr:9",
            proxy_name: "p",
            began_us: 8,
        };
        let message = question(b"GET / HTTP/1.1\r\n\r\n", b"x", &extra);
        let start = [
            &[0x41, 18, 0, 0, 0][..],
            b"GET / HTTP/1.1\r\n\r\n",
            &[2, 1, 0, 0, 0],
            b"x",
            &[0x20, 8, 0, 0, 0],
        ]
        .concat();
        assert!(message.starts_with(&start));
        let text = String::from_utf8_lossy(&message[start.len() + 8 + 5..]).into_owned();
        assert!(text.starts_with("UUID:u\nRemoteAddr:1.2.3.4\nRemotePort:5\n"), "{text}");
        assert_eq!(text.matches("\nRemoteAddr:").count(), 1, "{text}");
    }
}
