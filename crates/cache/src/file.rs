//! An entry as a file: a short header with lengths and digests, then what it is, its head, its body.

use crate::{Entry, Message};
use ring::digest::{Context, SHA256, digest};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use stdx::Segment;

/// How a file of this form begins. Another form gets another number, and files of the old one go.
const MAGIC: &[u8; 4] = b"TGC2";

/// Magic, two lengths of 4 bytes, one of 8.
const LENGTHS: usize = 4 + 4 + 4 + 8;

/// A SHA-256.
const SUM: usize = 32;

/// The lengths, a sum of them and of all before the body, and a sum of the body.
const HEADER: usize = LENGTHS + 2 * SUM;

/// What a file says of itself, and a head, are no longer than this: they come from heads, which have bounds of their own.
const PART_BYTES_MAX: usize = 1 << 20;

/// What is read of a body at once: it takes no more memory than this to be written or checked, however long it is.
const PIECE: usize = 64 * 1024;

/// A body up to this length is read into memory, to be sent with its head; a longer one is sent from its file.
const MEMORY_BODY_BYTES_MAX: usize = 64 * 1024;

/// What is in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) key: Vec<u8>,
    pub(crate) entry: Entry,
}

/// One state of a file's content, as its file system tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    modified: (i64, i64),
    length: u64,
}

impl Stamp {
    /// That of a file as it is.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Ok(Self { inode: metadata.ino(), modified, length: metadata.len() })
    }

    /// How long the file was.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}

/// Writes a file from its start.
pub(crate) fn write(file: &mut (impl Write + Seek), about: &About, message: &Message) -> io::Result<()> {
    let said = serde_json::to_vec(about)?;
    let length = |bytes: &[u8]| match u32::try_from(bytes.len()) {
        Ok(length) if bytes.len() <= PART_BYTES_MAX => Ok(length),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "head too long")),
    };
    let mut header = Vec::with_capacity(HEADER);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&length(&said)?.to_le_bytes());
    header.extend_from_slice(&length(&message.head)?.to_le_bytes());
    header.extend_from_slice(&message.body.length().to_le_bytes());
    header.extend_from_slice(&sum(&[&header, &said, &message.head]));
    file.seek(SeekFrom::Start(HEADER as u64))?;
    file.write_all(&said)?;
    file.write_all(&message.head)?;
    header.extend_from_slice(&each_piece(&message.body, |piece| file.write_all(piece))?);
    // The body's sum is known only now.
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&header)
}

/// What the file of `length` bytes says that it is; its body is not read, and nothing is checked but the lengths.
pub(crate) fn peek(file: &mut impl Read, length: u64) -> Option<About> {
    let header = Header::read(file, length)?;
    serde_json::from_slice(&part(file, header.said)?).ok()
}

/// What is in a file whose state is `stamp`, which is checked whole unless its body `is_sound`; `None` where it is damaged.
pub(crate) fn read(mut file: File, stamp: Stamp, is_sound: bool) -> Option<(About, Message)> {
    let header = Header::read(&mut file, stamp.length)?;
    let (said, head) = (part(&mut file, header.said)?, part(&mut file, header.head)?);
    if sum(&[&header.bytes[..LENGTHS], &said, &head]) != header.bytes[LENGTHS..LENGTHS + SUM] {
        return None;
    }
    let start = (HEADER + header.said + header.head) as u64;
    let body = match usize::try_from(header.body) {
        Ok(length) if length <= MEMORY_BODY_BYTES_MAX => part(&mut file, length)?.into(),
        _ => Segment::File(Arc::new(file), start, header.body),
    };
    let sound = is_sound || each_piece(&body, |_| Ok(())).ok()? == header.bytes[LENGTHS + SUM..];
    let about = serde_json::from_slice(&said).ok()?;
    sound.then(|| (about, Message { head: head.into(), body }))
}

struct Header {
    bytes: [u8; HEADER],
    said: usize,
    head: usize,
    body: u64,
}

impl Header {
    /// That of a file of `length` bytes; `None` where it can't be.
    fn read(file: &mut impl Read, length: u64) -> Option<Self> {
        let mut bytes = [0; HEADER];
        file.read_exact(&mut bytes).ok()?;
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (said, head) = (number(4) as usize, number(8) as usize);
        let body = u64::from(number(12)) | u64::from(number(16)) << 32;
        let whole = ((HEADER + said + head) as u64).checked_add(body) == Some(length);
        let parts = said <= PART_BYTES_MAX && head <= PART_BYTES_MAX;
        (bytes.starts_with(MAGIC) && parts && whole).then_some(Self { bytes, said, head, body })
    }
}

fn part(file: &mut impl Read, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// Does something with each piece of a body; its sum.
fn each_piece(body: &Segment, mut with: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<[u8; SUM]> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; usize::try_from(body.length()).unwrap_or(PIECE).min(PIECE)];
    let mut at = 0;
    while at < body.length() {
        let piece = body.piece(at, &mut buffer)?;
        context.update(piece);
        with(piece)?;
        at += piece.len() as u64;
    }
    Ok(bytes_of(context.finish().as_ref()))
}

fn sum(parts: &[&[u8]]) -> [u8; SUM] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    bytes_of(context.finish().as_ref())
}

fn bytes_of(digest: &[u8]) -> [u8; SUM] {
    let mut bytes = [0; SUM];
    bytes.copy_from_slice(digest);
    bytes
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

    fn sample(body: usize) -> (About, Message) {
        let entry = Entry {
            status: 200,
            made_ms: 1,
            lifetime_ms: 2,
            while_revalidating_ms: 3,
            if_error_ms: 4,
            must_revalidate: false,
            etag: Some(vec![0xff]),
            last_modified: None,
            vary: vec![("accept".to_owned(), None)],
            generation: 0,
        };
        let message = Message { head: b"HTTP/1.1 200 OK\r\n\r\n"[..].into(), body: vec![7; body].into() };
        (About { key: b"k\xff".to_vec(), entry }, message)
    }

    fn written(about: &About, message: &Message) -> Vec<u8> {
        let mut bytes = io::Cursor::new(Vec::new());
        write(&mut bytes, about, message).unwrap();
        bytes.into_inner()
    }

    /// What is read of a file with these bytes, and its body.
    fn read_back(bytes: &[u8], is_sound: bool) -> Option<(About, Message, Vec<u8>)> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let stamp = Stamp::of(&file).unwrap();
        let (about, message) = read(file, stamp, is_sound)?;
        let mut body = Vec::new();
        each_piece(&message.body, |piece| {
            body.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
        Some((about, message, body))
    }

    #[test]
    fn what_is_written_is_read_and_damage_is_seen() {
        let (about, message) = sample(100);
        let bytes = written(&about, &message);
        assert_eq!(peek(&mut &bytes[..], bytes.len() as u64).as_ref(), Some(&about));
        assert_eq!(peek(&mut &bytes[..], bytes.len() as u64 - 1), None);
        let (read_about, read_message, body) = read_back(&bytes, false).unwrap();
        assert_eq!((read_about, read_message.head, body), (about, message.head, vec![7; 100]));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(read_back(&damaged, false).is_none(), "byte {at}");
            assert!(read_back(&bytes[..at], true).is_none(), "{at} bytes");
        }
    }

    #[test]
    fn a_long_body_stays_in_its_file() {
        let (about, message) = sample(3 * PIECE + 1);
        let bytes = written(&about, &message);
        let (_, read_message, body) = read_back(&bytes, true).unwrap();
        assert!(matches!(read_message.body, Segment::File(..)) && body == vec![7; 3 * PIECE + 1]);
        // From one file to the next, when its fields are refreshed.
        assert!(written(&about, &read_message) == bytes);
    }

    #[test]
    fn variants_have_files_of_their_own() {
        let (About { key, entry }, _) = sample(0);
        let said = Entry { vary: vec![("accept".to_owned(), Some(Vec::new()))], ..entry.clone() };
        assert_eq!(name(&key, &entry).len(), 32);
        assert_ne!(name(&key, &entry), name(&key, &said));
        assert_ne!(name(&key, &entry), name(b"l", &entry));
    }
}
