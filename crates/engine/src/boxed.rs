//! Futures of what happens rarely.

use std::pin::Pin;

/// Boxes the future that `make` returns, so that its size is not part of the caller's. A future stands on the stack before
/// it is boxed. In a function of its own, because the caller would otherwise set up a stack frame with room for it at each
/// poll: 18 KiB for a connection that may turn out to speak HTTP/2.
#[inline(never)]
pub(crate) fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}
