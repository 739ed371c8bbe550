//! How much of bodies a worker holds at the same time.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::rc::Rc;

/// Bytes of responses' bodies that plugins of one worker hold at the same time, the plain forms of compressed ones among
/// them: a body of 64 MiB, the default of `max_resp_body_size`, and what is made of it. Small compressed bodies become
/// large ones, so that a limit per response alone would let a few of them take all memory.
pub const HELD_BYTES_MAX: usize = 128 << 20;

thread_local! {
    /// What is held on this thread. A worker is a thread.
    pub(crate) static HELD: Cell<usize> = const { Cell::new(0) };
}

/// What one response holds of [`HELD_BYTES_MAX`]; given back when it is dropped.
#[derive(Debug, Default)]
pub struct HeldBytes {
    bytes: usize,
    /// Of one thread: it counts there.
    of_thread: PhantomData<Rc<()>>,
}

impl HeldBytes {
    /// Takes `bytes` more.
    ///
    /// # Errors
    /// When the worker holds too much already. Nothing is taken then.
    pub fn grow(&mut self, bytes: usize) -> io::Result<()> {
        self.set(self.bytes.saturating_add(bytes))
    }

    /// Takes or gives back as much as makes it `bytes`.
    ///
    /// # Errors
    /// As [`Self::grow`].
    pub fn set(&mut self, bytes: usize) -> io::Result<()> {
        let all = (HELD.get() - self.bytes).saturating_add(bytes);
        if bytes > self.bytes && all > HELD_BYTES_MAX {
            let message = format!("this worker's plugins hold {HELD_BYTES_MAX} bytes of bodies already");
            return Err(io::Error::other(message));
        }
        HELD.set(all);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        HELD.set(HELD.get() - self.bytes);
    }
}
