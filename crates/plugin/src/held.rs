//! How much of bodies a worker holds at the same time.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::rc::Rc;
use std::thread::LocalKey;

/// Bytes of responses' bodies that plugins of one worker hold at the same time, the plain forms of compressed ones among
/// them: a body of 64 MiB, the default of `max_resp_body_size`, and what is made of it. Small compressed bodies become
/// large ones, so that a limit per response alone would let a few of them take all memory.
pub const HELD_BYTES_MAX: usize = 128 << 20;

/// Bytes of requests' bodies that one worker holds at the same time: those that conditions, plugins and the Admin API have
/// read, and copies of them ([`crate::DetachedRequest`]). A body of 64 MiB, the default of what is read for conditions,
/// counts twice, as received and decoded: two of them.
pub const REQUEST_BYTES_MAX: usize = 256 << 20;

thread_local! {
    /// What is held of responses on this thread. A worker is a thread.
    pub(crate) static HELD: Cell<usize> = const { Cell::new(0) };
    /// What is held of requests.
    static REQUESTS: Cell<usize> = const { Cell::new(0) };
}

/// What one exchange holds of [`HELD_BYTES_MAX`] or [`REQUEST_BYTES_MAX`]; given back when it is dropped.
#[derive(Debug, Default)]
pub struct HeldBytes {
    bytes: usize,
    of_request: bool,
    /// Of one thread: it counts there.
    of_thread: PhantomData<Rc<()>>,
}

impl HeldBytes {
    /// Room for the body of a request, of which nothing is taken yet; the default is one for a response.
    #[must_use]
    pub fn of_request() -> Self {
        Self { of_request: true, ..Self::default() }
    }

    /// Takes `bytes` more.
    ///
    /// # Errors
    /// When the worker holds too much already ([`io::ErrorKind::OutOfMemory`]). Nothing is taken then.
    pub fn grow(&mut self, bytes: usize) -> io::Result<()> {
        self.set(self.bytes.saturating_add(bytes))
    }

    /// Takes or gives back as much as makes it `bytes`.
    ///
    /// # Errors
    /// As [`Self::grow`].
    pub fn set(&mut self, bytes: usize) -> io::Result<()> {
        let (held, max) = self.account();
        let all = (held.get() - self.bytes).saturating_add(bytes);
        if bytes > self.bytes && all > max {
            let message = format!("this worker's plugins hold {max} bytes of bodies already");
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, message));
        }
        held.set(all);
        self.bytes = bytes;
        Ok(())
    }

    fn account(&self) -> (&'static LocalKey<Cell<usize>>, usize) {
        if self.of_request { (&REQUESTS, REQUEST_BYTES_MAX) } else { (&HELD, HELD_BYTES_MAX) }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let (held, _) = self.account();
        held.set(held.get() - self.bytes);
    }
}
