//! What becomes of a response's body on its way to the client: filters, each fed with what the one before it made.

use crate::HeldBytes;
use std::io;

/// Makes something else of a body, piece by piece. Asked for in the response phase; lives as long as the response.
///
/// Output goes behind what is in `out` already. An error breaks the response off: only what can't be helped is one.
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

    /// Whether further pieces would make a difference. The upstream's body is read no further than somebody wants it.
    fn wants_more(&self) -> bool {
        true
    }
}

/// The filters of one response, in the order in which the body passes them.
#[derive(Default)]
pub struct BodyFilters(Vec<Box<dyn BodyFilter>>);

impl BodyFilters {
    /// Adds one behind those that there are.
    pub fn push(&mut self, filter: impl BodyFilter + 'static) {
        self.0.push(Box::new(filter));
    }

    /// Whether the body passes as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes those out that were added after the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.0.truncate(count);
    }

    pub(crate) fn push_boxed(&mut self, filter: Box<dyn BodyFilter>) {
        self.0.push(filter);
    }

    /// Whether more of the body would make a difference to what comes out.
    #[must_use]
    pub fn want_more(&self) -> bool {
        self.0.iter().all(|filter| filter.wants_more())
    }

    /// Sends a piece through all of them.
    ///
    /// # Errors
    /// A filter's.
    pub fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        write(&mut self.0, piece, out)
    }

    /// Sends on what they hold and can let go.
    ///
    /// # Errors
    /// A filter's.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.drain(out, |filter, made| filter.flush(made))
    }

    /// Sends on all that they hold: the body is over, and these are the lines of its trailer section.
    ///
    /// # Errors
    /// A filter's.
    pub fn finish(&mut self, trailers: &mut Vec<u8>, out: &mut Vec<u8>) -> io::Result<()> {
        self.0.iter_mut().for_each(|filter| filter.trailers(trailers));
        self.drain(out, |filter, made| filter.finish(made))
    }

    /// What becomes of a body that is there as a whole.
    ///
    /// # Errors
    /// A filter's.
    pub fn whole(mut self, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut made = Vec::new();
        self.write(body, &mut made)?;
        self.finish(&mut Vec::new(), &mut made)?;
        Ok(made)
    }

    /// Takes from each filter, the first one first, what it lets go, through those behind it.
    fn drain(
        &mut self,
        out: &mut Vec<u8>,
        release: impl Fn(&mut dyn BodyFilter, &mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        for at in 0..self.0.len() {
            let mut made = Vec::new();
            release(&mut *self.0[at], &mut made)?;
            write(&mut self.0[at + 1..], &made, out)?;
        }
        Ok(())
    }
}

fn write(filters: &mut [Box<dyn BodyFilter>], piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    if piece.is_empty() {
        return Ok(());
    }
    match filters {
        [] => out.extend_from_slice(piece),
        [last] => last.write(piece, out)?,
        [first, rest @ ..] => {
            let mut made = Vec::new();
            first.write(piece, &mut made)?;
            write(rest, &made, out)?;
        }
    }
    Ok(())
}

impl std::fmt::Debug for BodyFilters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BodyFilters").field(&self.0.len()).finish()
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

    /// Doubles each byte, and lets go of it when it is flushed.
    #[derive(Default)]
    struct Doubled(Vec<u8>);

    impl BodyFilter for Doubled {
        fn write(&mut self, piece: &[u8], _: &mut Vec<u8>) -> io::Result<()> {
            self.0.extend(piece.iter().flat_map(|byte| [*byte, *byte]));
            Ok(())
        }

        fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
            out.append(&mut self.0);
            Ok(())
        }

        fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
            self.flush(out)
        }
    }

    #[test]
    fn pieces_pass_all_filters_in_order() {
        let mut filters = BodyFilters::default();
        let mut out = Vec::new();
        filters.write(b"as it is", &mut out).unwrap();
        assert_eq!(out, b"as it is");

        filters.push(Doubled::default());
        filters.push(Held::new(8, |mut body: Vec<u8>| {
            body.push(b'!');
            Ok(body)
        }));
        filters.push(Doubled::default());
        out.clear();
        for piece in [&b"a"[..], b"b"] {
            filters.write(piece, &mut out).unwrap();
            filters.flush(&mut out).unwrap();
        }
        assert!(out.is_empty() && filters.want_more());
        filters.write(b"cd", &mut out).unwrap();
        filters.flush(&mut out).unwrap();
        assert!(out.is_empty(), "eight bytes are held");
        filters.finish(&mut Vec::new(), &mut out).unwrap();
        assert_eq!(out, b"aaaabbbbccccdddd!!");
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

    #[test]
    fn a_replaced_body_is_not_read() {
        let mut filters = BodyFilters::default();
        filters.push(Replaced(b"new".to_vec()));
        assert!(!filters.want_more());
        assert_eq!(filters.whole(b"old").unwrap(), b"new");
    }
}
