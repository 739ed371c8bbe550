//! Reading answers from bytes as they come, without I/O.
//!
//! A server under load answers the same request with the same head, but for the second that `Date` changes in. So the
//! last head is kept, and an answer that begins with the very same bytes is not parsed again.

use wire::http1::BodyDecoder;
use wire::{BodyEvent, BodyLength, Method, ResponseHead};

use super::check::{BodyCheck, Checking};
use crate::load::{ErrorKind, Fault};

/// A head as far as the generator cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Whether the connection can take another request.
    pub keep_alive: bool,
}

/// Where reading stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The answer goes on.
    More,
    /// It is complete.
    Complete(Answer),
}

/// Parses heads, and knows the last one. One per thread.
#[derive(Debug)]
pub struct Scanner {
    method: Method,
    head: ResponseHead,
    known: Vec<u8>,
    facts: (Answer, BodyLength),
}

/// Reads the answers of one connection.
#[derive(Debug)]
pub struct ResponseReader {
    body: Body,
    answer: Answer,
    /// The bytes of an element (a head, a chunk's size) that has not come as a whole.
    carry: Vec<u8>,
    check: Option<BodyCheck>,
    checking: Option<Checking>,
    mismatch: Option<String>,
}

#[derive(Debug)]
enum Body {
    /// At a head.
    Head,
    /// Bytes left.
    Exact(u64),
    /// Chunks, or bytes until the connection ends.
    Coded(BodyDecoder),
}

impl Scanner {
    /// For the answers to requests with `method`.
    #[must_use]
    pub fn new(method: Method) -> Self {
        let facts = (Answer { status: 0, keep_alive: false }, BodyLength::None);
        Self { method, head: ResponseHead::default(), known: Vec::new(), facts }
    }

    /// The head at the start of `bytes`: its length and facts; `None` where it is not complete.
    #[inline]
    fn scan(&mut self, bytes: &[u8]) -> Result<Option<(usize, Answer, BodyLength)>, Fault> {
        if self.known.is_empty() || !bytes.starts_with(&self.known) {
            let complete = self.head.parse(bytes, self.method).map_err(|error| malformed(error.0, bytes))?;
            if !complete {
                return Ok(None);
            }
            let Some(head) = bytes.get(..self.head.length) else { return Ok(None) };
            self.known.clear();
            self.known.extend_from_slice(head);
            self.facts =
                (Answer { status: self.head.status, keep_alive: self.head.keep_alive }, self.head.body);
        }
        Ok(Some((self.known.len(), self.facts.0, self.facts.1)))
    }

    /// The `Server` field of the last head.
    #[must_use]
    pub fn server(&self) -> Option<String> {
        let value = self.head.header(&self.known, b"server")?;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

impl ResponseReader {
    /// At the start of a connection.
    #[must_use]
    pub fn new(check: Option<BodyCheck>) -> Self {
        Self {
            body: Body::Head,
            answer: Answer { status: 0, keep_alive: false },
            carry: Vec::new(),
            check,
            checking: None,
            mismatch: None,
        }
    }

    /// Takes what came, up to the end of the answer: how many bytes were used, and where it stands.
    ///
    /// # Errors
    /// When it is no proper HTTP/1.1.
    #[inline]
    pub fn read(&mut self, bytes: &[u8], scanner: &mut Scanner) -> Result<(usize, Progress), Fault> {
        if !self.carry.is_empty() {
            return self.read_on(bytes, scanner);
        }
        let (used, progress) = self.read_from(bytes, scanner)?;
        if progress == Progress::More {
            self.carry.extend_from_slice(&bytes[used..]);
            return Ok((bytes.len(), progress));
        }
        Ok((used, progress))
    }

    /// The same where the beginning of an element is kept.
    #[cold]
    fn read_on(&mut self, bytes: &[u8], scanner: &mut Scanner) -> Result<(usize, Progress), Fault> {
        let mut kept = std::mem::take(&mut self.carry);
        let before = kept.len();
        kept.extend_from_slice(bytes);
        let (used, progress) = self.read_from(&kept, scanner)?;
        if progress == Progress::More {
            kept.drain(..used);
            self.carry = kept;
            return Ok((bytes.len(), progress));
        }
        // An element that was complete before these bytes would not have been kept.
        Ok((used.saturating_sub(before), progress))
    }

    #[inline]
    fn read_from(&mut self, bytes: &[u8], scanner: &mut Scanner) -> Result<(usize, Progress), Fault> {
        let mut at = 0;
        loop {
            match &mut self.body {
                Body::Head => {
                    let Some((length, answer, body)) = scanner.scan(&bytes[at..])? else {
                        return Ok((at, Progress::More));
                    };
                    at += length;
                    if answer.status >= 200 {
                        self.begin_body(answer, body);
                    } else if answer.status == 101 {
                        return Err(Fault::new(ErrorKind::Protocol, "the server switched protocols unasked"));
                    }
                    // Anything else below 200 goes before the answer proper.
                }
                Body::Exact(left) => {
                    let rest = &bytes[at..];
                    let take = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    *left -= take as u64;
                    at += take;
                    let done = *left == 0;
                    if let Some(checking) = &mut self.checking {
                        checking.add(&rest[..take]);
                    }
                    return Ok((at, if done { self.complete() } else { Progress::More }));
                }
                Body::Coded(decoder) => {
                    let (used, event) =
                        decoder.next(&bytes[at..]).map_err(|error| malformed(error.0, &bytes[at..]))?;
                    at += used;
                    match event {
                        BodyEvent::Data(data) => {
                            if let Some(checking) = &mut self.checking {
                                checking.add(data);
                            }
                        }
                        BodyEvent::Trailers(_) => {}
                        BodyEvent::End => return Ok((at, self.complete())),
                        BodyEvent::NeedMore => return Ok((at, Progress::More)),
                    }
                }
            }
        }
    }

    #[inline]
    fn begin_body(&mut self, answer: Answer, body: BodyLength) {
        self.answer = answer;
        if let Some(check) = &self.check {
            self.checking = Some(check.begin());
        }
        self.body = match body {
            BodyLength::None => Body::Exact(0),
            BodyLength::Exact(length) => Body::Exact(length),
            BodyLength::Chunked | BodyLength::UntilClose => Body::Coded(BodyDecoder::new(body)),
        };
    }

    #[inline]
    fn complete(&mut self) -> Progress {
        self.body = Body::Head;
        if let (Some(checking), Some(check)) = (self.checking.take(), &self.check) {
            // A refusal has another body by right, and is counted by its status.
            self.mismatch = if self.answer.status < 400 { checking.finish(check) } else { None };
        }
        Progress::Complete(self.answer)
    }

    /// What was wrong with the last complete body.
    #[inline]
    pub fn take_mismatch(&mut self) -> Option<String> {
        self.mismatch.take()
    }

    /// The server closed the connection: whether that completes an answer, or why not.
    ///
    /// # Errors
    /// When it was in the middle of one.
    pub fn end(&mut self) -> Result<Progress, Fault> {
        let fault = |message: String| Err(Fault::new(ErrorKind::Closed, message));
        match &self.body {
            Body::Head if self.carry.is_empty() => {
                fault("the server closed the connection without an answer".into())
            }
            Body::Head => fault("the server closed the connection in the middle of a response head".into()),
            Body::Exact(left) => {
                fault(format!("the server closed the connection {left} bytes before the end of a body"))
            }
            Body::Coded(decoder) if decoder.ends_with_connection() => Ok(self.complete()),
            Body::Coded(_) => {
                fault("the server closed the connection in the middle of a chunked body".into())
            }
        }
    }
}

/// The codec's words are an upstream's client's; here it is the server that is measured.
#[cold]
fn malformed(why: &str, bytes: &[u8]) -> Fault {
    let shown: String = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).escape_debug().collect();
    let why = why.strip_prefix("upstream sent ").unwrap_or(why);
    Fault::new(ErrorKind::Protocol, format!("the server's answer is not HTTP/1.1: {why}, at \"{shown}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `wire` in pieces of `step`: statuses of the answers, and how it ended.
    fn read(wire: &[u8], step: usize, check: Option<BodyCheck>) -> (Vec<u16>, Result<(), String>, u64) {
        let (mut reader, mut scanner) = (ResponseReader::new(check), Scanner::new(Method::Get));
        let (mut statuses, mut mismatches) = (Vec::new(), 0);
        for piece in wire.chunks(step) {
            let mut rest = piece;
            while !rest.is_empty() {
                match reader.read(rest, &mut scanner) {
                    Ok((used, progress)) => {
                        rest = &rest[used..];
                        if let Progress::Complete(answer) = progress {
                            statuses.push(answer.status);
                            mismatches += u64::from(reader.take_mismatch().is_some());
                        }
                    }
                    Err(fault) => return (statuses, Err(fault.message), mismatches),
                }
            }
        }
        match reader.end() {
            Ok(_) => statuses.push(999),
            Err(fault) if fault.message.ends_with("without an answer") => {}
            Err(fault) => return (statuses, Err(fault.message), mismatches),
        }
        (statuses, Ok(()), mismatches)
    }

    #[test]
    fn answers_are_read_however_they_are_cut() {
        let plain = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let empty = "HTTP/1.1 204 No Content\r\n\r\n";
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello";
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nA: b\r\n\r\n";
        let close = "HTTP/1.0 200 OK\r\n\r\nhello";
        let all = [plain, plain, empty, interim, chunked, chunked, plain, close].concat();
        let check = BodyCheck { length: Some(5), sha256: None };
        for step in 1..all.len() {
            let (statuses, result, mismatches) = read(all.as_bytes(), step, Some(check.clone()));
            assert_eq!(result, Ok(()), "step {step}");
            assert_eq!(statuses, [200, 200, 204, 201, 200, 200, 200, 999], "step {step}");
            assert_eq!(mismatches, 1, "the 204 alone is not five bytes long; step {step}");
        }
    }

    #[test]
    fn lies_are_found() {
        for (wire, why) in [
            ("SSH-2.0-OpenSSH\r\n", "not HTTP/1.1"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nhello", "Content-Length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", "45 bytes before the end"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", "in the middle of a chunked"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhe", "chunk size"),
            ("HTTP/1.1 200 OK\r\nContent-", "middle of a response head"),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "switched protocols"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello", "not HTTP/1.1"),
        ] {
            for step in [1, 7, wire.len()] {
                let (_, result, _) = read(wire.as_bytes(), step, None);
                let message = result.expect_err(wire);
                assert!(message.contains(why), "{message}");
            }
        }
    }
}
