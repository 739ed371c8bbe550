//! Buffers shared by a worker's connections: taken while bytes are in flight, back in the pool when a connection idles.
//!
//! Last in, first out, so that the buffer in use is the one still warm in the processor's cache; an idle connection
//! holds none.

use plugin::HeaderEdits;
use std::cell::{Cell, RefCell};
use wire::http1::{HEAD_MAX, TRAILERS_MAX};
use wire::{BodyLength, RequestHead, ResponseHead};

/// Bytes read from an upstream at once: with 16 KiB a 64 KiB body costs half as much again.
pub(crate) const RELAY_BUFFER: usize = 64 * 1024;

/// Bytes from a client: the longest head, and behind it the longest framing that a body decoder must see at once.
const INPUT_BUFFER: usize = HEAD_MAX + TRAILERS_MAX;

/// How many free buffers of each kind a worker keeps: as many as it commonly has exchanges in flight. 512 x (40 + 64)
/// KiB = 52 MiB of addresses, of which only what was written to is resident: about 8 KiB each for short messages.
const FREE_MAX: usize = 512;

/// An output buffer that grew beyond this is not kept.
const OUT_KEPT: usize = 64 * 1024;

/// What one exchange works with.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Bytes from the client: the head, then what followed it.
    pub(crate) input: Box<[u8]>,
    /// How many of them are read.
    pub(crate) filled: usize,
    /// The request's head.
    pub(crate) head: RequestHead,
    /// The response's head.
    pub(crate) response: ResponseHead,
    /// Heads on their way out.
    pub(crate) out: Vec<u8>,
    /// The response fields that plugins add.
    pub(crate) reply_headers: HeaderEdits,
}

impl Scratch {
    fn new() -> Box<Self> {
        Box::new(Self {
            input: vec![0; INPUT_BUFFER].into_boxed_slice(),
            filled: 0,
            head: RequestHead::default(),
            response: ResponseHead::default(),
            out: Vec::with_capacity(2048),
            reply_headers: HeaderEdits::default(),
        })
    }

    /// Moves the last `count` bytes read to the front, where the next request begins.
    pub(crate) fn keep_last(&mut self, count: usize) {
        if self.input.len() < INPUT_BUFFER {
            let mut whole = vec![0; INPUT_BUFFER].into_boxed_slice();
            whole[..self.filled].copy_from_slice(&self.input);
            self.input = whole;
        }
        if count > 0 {
            self.input.copy_within(self.filled - count..self.filled, 0);
        }
        self.filled = count;
    }

    /// Whether it has the room that any exchange needs, and no more than is kept.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        self.out.capacity() <= OUT_KEPT && self.input.len() == INPUT_BUFFER
    }

    /// Before an exchange that may become a tunnel, and may last for hours: keeps of the input's room what is filled.
    #[inline]
    pub(crate) fn fit_for_upgrade(&mut self) {
        if self.head.facts.upgrade && self.head.facts.body == BodyLength::None {
            self.fit();
        }
    }

    #[cold]
    fn fit(&mut self) {
        self.input = self.input[..self.filled].into();
    }
}

/// A worker's free buffers.
#[derive(Default)]
pub(crate) struct Buffers {
    scratch: Pool<Box<Scratch>>,
    relay: Pool<Box<[u8]>>,
}

/// Free buffers of one kind. The one put back last has a place of its own, because most are taken again at once.
struct Pool<T> {
    last: Cell<Option<T>>,
    others: RefCell<Vec<T>>,
}

impl Buffers {
    #[inline]
    pub(crate) fn take_scratch(&self) -> Box<Scratch> {
        self.scratch.take().unwrap_or_else(Scratch::new)
    }

    #[inline]
    pub(crate) fn put_scratch(&self, mut scratch: Box<Scratch>) {
        if scratch.is_usual() {
            scratch.filled = 0;
            self.scratch.put(scratch);
        }
    }

    #[inline]
    pub(crate) fn take_relay(&self) -> Box<[u8]> {
        self.relay.take().unwrap_or_else(|| vec![0; RELAY_BUFFER].into_boxed_slice())
    }

    #[inline]
    pub(crate) fn put_relay(&self, buffer: Box<[u8]>) {
        self.relay.put(buffer);
    }
}

impl<T> Pool<T> {
    #[inline]
    fn take(&self) -> Option<T> {
        self.last.take().or_else(|| self.others.borrow_mut().pop())
    }

    #[inline]
    fn put(&self, buffer: T) {
        if let Some(displaced) = self.last.replace(Some(buffer)) {
            let mut others = self.others.borrow_mut();
            if others.len() < FREE_MAX {
                others.push(displaced);
            }
        }
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { last: Cell::new(None), others: RefCell::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_fitted_has_room_again_for_the_next_request() {
        let mut scratch = Scratch::new();
        scratch.input[..5].copy_from_slice(b"onetw");
        scratch.filled = 5;
        scratch.fit();
        assert_eq!(&*scratch.input, b"onetw");
        scratch.keep_last(2);
        assert_eq!((&scratch.input[..2], scratch.input.len()), (&b"tw"[..], INPUT_BUFFER));
    }

    #[test]
    fn what_is_fitted_is_not_lent_again() {
        let buffers = Buffers::default();
        let mut scratch = buffers.take_scratch();
        scratch.fit();
        buffers.put_scratch(scratch);
        assert_eq!(buffers.take_scratch().input.len(), INPUT_BUFFER);
    }
}
