//! An entry as a file: a short header with lengths and a digest, then what it is, its head, its body.

use crate::{Entry, Message};
use ring::digest::{Context, Digest, SHA256, digest};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};

/// How a file of this form begins. Another form gets another number, and files of the old one go.
const MAGIC: &[u8; 4] = b"TGC1";

/// Magic, two lengths of 4 bytes, one of 8.
const LENGTHS: usize = 4 + 4 + 4 + 8;

/// The same, and a SHA-256 of them and of all that follows.
const HEADER: usize = LENGTHS + 32;

/// What a file says of itself is no longer than this: keys and fields come from heads, which have bounds of their own.
const ABOUT_BYTES_MAX: usize = 1 << 20;

/// What is in a file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) key: Vec<u8>,
    pub(crate) entry: Entry,
}

/// The bytes of a file.
pub(crate) fn encode(about: &About, message: &Message) -> io::Result<Vec<u8>> {
    let said = serde_json::to_vec(about)?;
    let length = |bytes: &[u8]| {
        u32::try_from(bytes.len()).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "head too long"))
    };
    let mut out = Vec::with_capacity(HEADER + said.len() + message.head.len() + message.body.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&length(&said)?.to_le_bytes());
    out.extend_from_slice(&length(&message.head)?.to_le_bytes());
    out.extend_from_slice(&(message.body.len() as u64).to_le_bytes());
    out.extend_from_slice(&[0; 32]);
    out.extend_from_slice(&said);
    out.extend_from_slice(&message.head);
    out.extend_from_slice(&message.body);
    let sum = sum(&out[..LENGTHS], &out[HEADER..]);
    out[LENGTHS..HEADER].copy_from_slice(sum.as_ref());
    Ok(out)
}

/// What the file of `length` bytes says that it is; its body is not read, and its digest not checked.
pub(crate) fn peek(file: &mut impl Read, length: u64) -> Option<About> {
    let mut header = [0; HEADER];
    file.read_exact(&mut header).ok()?;
    let (said, head, body) = lengths(&header)?;
    if (HEADER + said) as u64 + head as u64 + body != length {
        return None;
    }
    let mut about = vec![0; said];
    file.read_exact(&mut about).ok()?;
    serde_json::from_slice(&about).ok()
}

/// What is in a file; `None` where it is damaged.
pub(crate) fn decode(bytes: &[u8]) -> Option<(About, Message)> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    let (said, head, _) = lengths(header)?;
    if sum(&header[..LENGTHS], rest).as_ref() != &header[LENGTHS..] {
        return None;
    }
    let (about, rest) = rest.split_at_checked(said)?;
    let (head, body) = rest.split_at_checked(head)?;
    Some((serde_json::from_slice(about).ok()?, Message { head: head.into(), body: body.into() }))
}

fn sum(lengths: &[u8], rest: &[u8]) -> Digest {
    let mut context = Context::new(&SHA256);
    context.update(lengths);
    context.update(rest);
    context.finish()
}

fn lengths(header: &[u8; HEADER]) -> Option<(usize, usize, u64)> {
    let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (said, head) = (number(4) as usize, number(8) as usize);
    let body = u64::from(number(12)) | u64::from(number(16)) << 32;
    (header.starts_with(MAGIC) && said <= ABOUT_BYTES_MAX).then_some((said, head, body))
}

/// The name of the file for one variant of a key: what is named by clients never names a file itself.
pub(crate) fn name(key: &[u8], entry: &Entry) -> String {
    let mut text = key.to_vec();
    for (field, value) in &entry.vary {
        text.push(0);
        text.extend_from_slice(field.as_bytes());
        text.push(if value.is_some() { 1 } else { 2 });
        text.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    digest(&SHA256, &text).as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (About, Message) {
        let entry = Entry {
            status: 200,
            made_ms: 1,
            lifetime_ms: 2,
            while_revalidating_ms: 3,
            if_error_ms: 4,
            etag: Some(vec![0xff]),
            last_modified: None,
            vary: vec![("accept".to_owned(), None)],
        };
        let message = Message { head: b"HTTP/1.1 200 OK\r\n\r\n"[..].into(), body: vec![7; 100].into() };
        (About { key: b"k\xff".to_vec(), entry }, message)
    }

    #[test]
    fn what_is_written_is_read_and_damage_is_seen() {
        let (about, message) = sample();
        let bytes = encode(&about, &message).unwrap();
        assert_eq!(peek(&mut &bytes[..], bytes.len() as u64).as_ref(), Some(&about));
        assert_eq!(decode(&bytes), Some((about, message)));
        assert_eq!(peek(&mut &bytes[..], bytes.len() as u64 - 1), None);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn variants_have_files_of_their_own() {
        let (About { key, entry }, _) = sample();
        let said = Entry { vary: vec![("accept".to_owned(), Some(Vec::new()))], ..entry.clone() };
        assert_eq!(name(&key, &entry).len(), 32);
        assert_ne!(name(&key, &entry), name(&key, &said));
        assert_ne!(name(&key, &entry), name(b"l", &entry));
    }
}
