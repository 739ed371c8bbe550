//! What a body meets on its way: taps, which get it as it was sent, and filters, each fed with the output of the one before
//! it. The same for a response on its way to the client and for a request on its way to the upstream.

use crate::HeldBytes;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use wire::RequestView;

/// Makes something else of a body, piece by piece. A response's filters are added in the response phase, a request's in a
/// phase before the upstream is asked; they live as long as the message.
///
/// Output goes behind what is in `out` already. An error ends the exchange: see [`Rejected`] for what the client gets.
pub trait BodyFilter {
    /// Takes the next piece.
    ///
    /// # Errors
    /// When the body can't be gone on with.
    fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()>;

    /// The next piece lets wait for itself: what was taken in is to be on its way, as far as the form of the output
    /// allows. Filters that need the whole body do nothing.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn flush(&mut self, _out: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }

    /// The trailer section that came with the body, as lines of a head; just before [`Self::finish`]. What is left in it is
    /// sent where the body goes in chunks or over HTTP/2.
    fn trailers(&mut self, _lines: &mut Vec<u8>) {}

    /// The body is over, or [`Self::wants_more`] said that the rest doesn't matter.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()>;

    /// Advances whatever the filter waits for, such as the answer to a call ([`crate::Services`]). Called after each of the
    /// other methods until it returns `Ready`; until then the filter gets nothing more, and the sender of the body waits.
    /// Dropped while pending when the client leaves, or the exchange ends otherwise.
    ///
    /// # Errors
    /// As [`Self::write`]. One of the kind [`io::ErrorKind::TimedOut`] stands for 504.
    fn poll(
        &mut self,
        _cx: &mut Context<'_>,
        _view: &mut BodyView<'_>,
        _out: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Whether the output may differ from the input. A body that no filter changes keeps its `Content-Length`.
    fn changes(&self) -> bool {
        true
    }

    /// Whether further pieces would make a difference. A response is read no further than somebody wants it; a request is
    /// always read to its end.
    fn wants_more(&self) -> bool {
        true
    }
}

/// Gets a body as its sender sent it, beside the receiver. One that is dropped before it was finished got only a part.
pub trait Recorder {
    /// Takes the next piece.
    fn piece(&mut self, piece: &[u8]);

    /// Marks the end of the body.
    fn finish(self: Box<Self>);
}

/// What a filter that waits sees of its exchange. The rest of the exchange belongs to the other direction, which may be
/// under way at the same time; the hook that adds the filter sees all of it.
#[derive(Debug)]
pub struct BodyView<'v> {
    /// The request's head as received.
    pub request: RequestView<'v>,
    /// The response's status; 0 for the body of a request.
    pub status: u16,
    /// Variables of the exchange for its log phase: `(name, value)`. A request's filter sees only those that request filters
    /// set.
    pub vars: &'v mut Vec<(String, Vec<u8>)>,
}

/// An error of a filter that chooses the status that the client gets: `io::Error::other(Rejected(403))`. Once the head of
/// the response has been sent, the response is cut off instead.
///
/// Without it, an error of a request's filter is 500 and one of a response's filter 502; a timeout is 504 in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected(pub u16);

impl Rejected {
    /// Returns the status that `error` chooses.
    #[must_use]
    pub fn status(error: &io::Error) -> Option<u16> {
        let chosen = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>());
        chosen.map(|rejected| rejected.0).or((error.kind() == io::ErrorKind::TimedOut).then_some(504))
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a plugin rejected the body with {}", self.0)
    }
}

impl std::error::Error for Rejected {}

/// A filter that waits: it hands each piece of a body to an asynchronous function, and puts the result in its place.
/// Pieces that arrive while the function runs wait for it, and so does the sender.
pub struct Awaited<F, T> {
    transform: F,
    /// What came and was not handed over yet.
    waiting: Vec<u8>,
    running: Option<Pin<Box<T>>>,
}

impl<F, T> Awaited<F, T>
where
    F: FnMut(&mut BodyView<'_>, Vec<u8>) -> T,
    T: Future<Output = io::Result<Vec<u8>>>,
{
    /// Makes one of `transform`, which gets each piece. Its future stays on the worker, and is dropped when the client
    /// leaves.
    pub fn new(transform: F) -> Self {
        Self { transform, waiting: Vec::new(), running: None }
    }
}

impl<F, T> BodyFilter for Awaited<F, T>
where
    F: FnMut(&mut BodyView<'_>, Vec<u8>) -> T,
    T: Future<Output = io::Result<Vec<u8>>>,
{
    fn write(&mut self, piece: &[u8], _: &mut Vec<u8>) -> io::Result<()> {
        self.waiting.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        view: &mut BodyView<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(running) = &mut self.running {
                let made = ready!(running.as_mut().poll(cx));
                self.running = None;
                out.append(&mut made?);
            }
            if self.waiting.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let piece = std::mem::take(&mut self.waiting);
            self.running = Some(Box::pin((self.transform)(view, piece)));
        }
    }
}

/// Takes the place of a body, whatever that is.
#[derive(Debug)]
pub struct Replaced(pub Vec<u8>);

impl BodyFilter for Replaced {
    fn write(&mut self, _: &[u8], _: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        out.append(&mut self.0);
        Ok(())
    }

    fn wants_more(&self) -> bool {
        false
    }
}

/// Holds a body until it is whole and puts what a function makes of it in its place. A body that is longer than the limit,
/// or for which the worker has no room ([`crate::HELD_BYTES_MAX`]), fails its response: what is cut off looks whole to the client.
/// APISIX cuts it off.
pub struct Held<F> {
    limit_bytes: usize,
    held: Vec<u8>,
    room: HeldBytes,
    transform: Option<F>,
}

impl<F: FnOnce(Vec<u8>) -> io::Result<Vec<u8>>> Held<F> {
    /// Holds at most `limit_bytes`, for `transform`.
    pub fn new(limit_bytes: usize, transform: F) -> Self {
        Self { limit_bytes, held: Vec::new(), room: HeldBytes::default(), transform: Some(transform) }
    }
}

impl<F: FnOnce(Vec<u8>) -> io::Result<Vec<u8>>> BodyFilter for Held<F> {
    fn write(&mut self, piece: &[u8], _: &mut Vec<u8>) -> io::Result<()> {
        if piece.len() > self.limit_bytes - self.held.len() {
            let message = format!("the body has more than max_resp_body_size: {} bytes", self.limit_bytes);
            return Err(io::Error::other(message));
        }
        self.room.grow(piece.len())?;
        self.held.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if let Some(transform) = self.transform.take() {
            let mut made = transform(std::mem::take(&mut self.held))?;
            // Until the response is sent, what was made is held in place of the body.
            self.room.set(made.len())?;
            out.append(&mut made);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::{HELD, HELD_BYTES_MAX};

    #[test]
    fn an_error_chooses_its_status() {
        for (error, status) in [
            (io::Error::other(Rejected(403)), Some(403)),
            (io::ErrorKind::TimedOut.into(), Some(504)),
            (io::Error::other("why"), None),
        ] {
            assert_eq!(Rejected::status(&error), status, "{error}");
        }
    }

    #[test]
    fn a_body_that_can_not_be_held_whole_fails_its_response() {
        let mut out = Vec::new();
        let mut held = Held::new(5, Ok);
        held.write(b"12345", &mut out).unwrap();
        assert!(held.write(b"6", &mut out).unwrap_err().to_string().contains("max_resp_body_size: 5"));
        assert!(out.is_empty());
        let mut broken = Held::new(5, |_| Err(io::Error::other("why")));
        assert!(broken.write(b"1", &mut out).and_then(|()| broken.finish(&mut out)).is_err());
    }

    #[test]
    fn a_worker_holds_no_more_than_its_share_of_memory() {
        // A thread of its own is a worker of its own.
        let worker = std::thread::spawn(|| {
            let mut room = HeldBytes::default();
            room.grow(HELD_BYTES_MAX - 10).unwrap();
            let mut out = Vec::new();
            let mut held = Held::new(1 << 20, |_| Ok(vec![b'x'; 11]));
            held.write(b"123456789", &mut out).unwrap();
            assert!(held.write(b"ab", &mut out).is_err(), "eleven bytes where ten are left");
            assert!(held.finish(&mut out).is_err(), "what is made counts");
            room.set(0).unwrap();
            let mut held = Held::new(1 << 20, Ok);
            held.write(b"ab", &mut out).unwrap();
            assert_eq!(HELD.get(), 2 + 9, "the failed one is held until its response is over");
            drop(held);
            assert!(room.grow(HELD_BYTES_MAX).is_err());
        });
        worker.join().unwrap();
    }
}
