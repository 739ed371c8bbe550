//! What a hook can ask of its worker: HTTP calls, connections, time and background tasks.
//!
//! A hook stays synchronous unless it waits: it takes what it needs from the exchange, makes a future with
//! [`Services`], and answers with [`crate::Flow::Wait`]. Each operation has a timeout. Dropping a future cancels the
//! operation, which is what happens when the client leaves. The engine implements the trait; plugins' tests use
//! [`crate::testkit::FakeServices`].

mod call;
mod unavailable;

pub use call::{Answer, BadCall, BodySource, Call, CallBody, CallError, CallErrorKind, CallTimeouts, Fields};
pub(crate) use call::{is_authority, is_target};
pub use unavailable::Unavailable;

use crate::UpstreamChoice;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// A future that stays on its worker.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// A byte stream to a server: in the clear, encrypted, or a Unix socket.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// What a worker does for plugins. Cheap to clone behind its `Rc`, so that a future can keep it.
pub trait Services: fmt::Debug {
    /// Returns a future that is ready once `time` has passed, with a resolution of a millisecond.
    fn sleep(&self, time: Duration) -> LocalFuture<()>;

    /// Sends an HTTP request to a node of `to`, over the worker's connection pools, with the upstream's TLS settings,
    /// name resolution, balancing and health. The answer is ready when its head has arrived; its body is read piece by
    /// piece, and the connection returns to its pool after the last one.
    ///
    /// Another node is tried where nothing of a request with a repeatable body was answered and its method is
    /// idempotent, or where it never reached a node.
    fn call(&self, to: &UpstreamChoice, call: Call) -> LocalFuture<Result<Answer, CallError>>;

    /// Opens a connection to a node of `to`: TLS where its scheme is `tls`, `https` or `grpcs`, else plain TCP.
    /// `timeout` covers name resolution, connection and handshake.
    fn connect(&self, to: &UpstreamChoice, timeout: Duration) -> LocalFuture<Result<Box<dyn Io>, CallError>>;

    /// Opens a connection to a Unix socket.
    fn connect_unix(&self, path: &Path, timeout: Duration) -> LocalFuture<Result<Box<dyn Io>, CallError>>;

    /// Runs `task` on the worker beside its connections, until it ends or the handle is dropped. It outlives the
    /// exchange, but not the worker.
    fn spawn(&self, task: LocalFuture<()>) -> Task;
}

/// A task that a plugin started. Dropping it cancels the task.
#[must_use = "dropping the handle cancels the task"]
pub struct Task(Option<Box<dyn FnOnce()>>);

impl Task {
    /// Returns the handle of a task that `cancel` ends.
    pub fn new(cancel: impl FnOnce() + 'static) -> Self {
        Self(Some(Box::new(cancel)))
    }

    /// Lets the task run to its end.
    pub fn detach(mut self) {
        self.0 = None;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(cancel) = self.0.take() {
            cancel();
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}
