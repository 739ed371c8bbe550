//! What a worker does for plugins ([`plugin::Services`]): calls, connections, time and tasks.

mod call;
mod connect;
mod conversation;

use crate::error::{ErrorKind, ProxyError};
use crate::worker::Worker;
use plugin::{Answer, Call, CallError, CallErrorKind, Io, LocalFuture, Task, UpstreamChoice};
use snapshot::{Snapshot, Upstream};
use std::cell::Cell;
use std::fmt;
use std::future::ready;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

/// Calls and connections of plugins that one worker has under way. A call holds a relay buffer of 64 KiB only while
/// bytes are at hand, and else about 2 KiB: 8 MiB in all.
const OPERATIONS_MAX: usize = 4096;

/// The longest that an exchange waits for a plugin: for a hook's future, for the next piece of a body that a plugin makes,
/// and for an API of this process. No plugin's own timeouts and delays are meant to come near it: it is there for those
/// that have none.
pub(crate) const PLUGIN_WAIT_MAX: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 300 });

/// The services of one worker.
pub(crate) struct WorkerServices {
    worker: Weak<Worker>,
    operations: Rc<Cell<usize>>,
}

impl WorkerServices {
    pub(crate) fn new(worker: Weak<Worker>) -> Self {
        Self { worker, operations: Rc::default() }
    }

    /// Returns the worker and the upstream that `to` chooses in its current snapshot, and counts the operation.
    fn begin(&self, to: &UpstreamChoice) -> Result<(Rc<Worker>, Arc<Upstream>, Operation), CallError> {
        let operation = Operation::begin(&self.operations)?;
        let worker = self.worker.upgrade().ok_or(ENDING)?;
        let upstream = chosen(to, &worker.snapshot())
            .ok_or(CallError { kind: CallErrorKind::NoNode, reason: "the upstream does not exist" })?;
        Ok((worker, upstream, operation))
    }
}

const ENDING: CallError =
    CallError { kind: CallErrorKind::Unavailable, reason: "the worker is shutting down" };

/// The upstream that a plugin chose; `None` where no resource has its id.
pub(crate) fn chosen(choice: &UpstreamChoice, snapshot: &Snapshot) -> Option<Arc<Upstream>> {
    match choice {
        UpstreamChoice::Id(id) => snapshot.upstreams.get(id).map(Arc::clone),
        UpstreamChoice::Written(written) => Arc::clone(written).downcast().ok(),
    }
}

impl plugin::Services for WorkerServices {
    fn sleep(&self, time: Duration) -> LocalFuture<()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn call(&self, to: &UpstreamChoice, call: Call) -> LocalFuture<Result<Answer, CallError>> {
        match self.begin(to) {
            Ok((worker, upstream, operation)) => Box::pin(call::run(worker, upstream, call, operation)),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn connect(&self, to: &UpstreamChoice, timeout: Duration) -> LocalFuture<Result<Box<dyn Io>, CallError>> {
        match self.begin(to) {
            Ok((worker, upstream, operation)) => Box::pin(async move {
                let opened = connect::open(&worker, &upstream, timeout).await;
                drop(operation);
                opened
            }),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn connect_unix(&self, path: &Path, timeout: Duration) -> LocalFuture<Result<Box<dyn Io>, CallError>> {
        let path = path.to_owned();
        Box::pin(async move { connect::open_unix(&path, timeout).await })
    }

    fn spawn(&self, task: LocalFuture<()>) -> Task {
        let task = tokio::task::spawn_local(task).abort_handle();
        Task::new(move || task.abort())
    }
}

impl fmt::Debug for WorkerServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerServices").field("operations", &self.operations.get()).finish_non_exhaustive()
    }
}

/// One operation under way, counted until it is dropped.
struct Operation(Rc<Cell<usize>>);

impl Operation {
    fn begin(count: &Rc<Cell<usize>>) -> Result<Self, CallError> {
        if count.get() >= OPERATIONS_MAX {
            let reason = "the plugins of this worker have too many calls under way";
            return Err(CallError { kind: CallErrorKind::Unavailable, reason });
        }
        count.set(count.get() + 1);
        Ok(Self(Rc::clone(count)))
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Tells a plugin why an upstream could not be asked.
fn call_error(error: ProxyError) -> CallError {
    let kind = match error.kind {
        ErrorKind::Timeout => CallErrorKind::Timeout,
        ErrorKind::Connection | ErrorKind::Refused | ErrorKind::Reset => CallErrorKind::Connection,
        ErrorKind::Protocol | ErrorKind::Plugin(_) => CallErrorKind::Protocol,
        ErrorKind::TooLarge => CallErrorKind::TooLarge,
        ErrorKind::NoRoom => CallErrorKind::Unavailable,
        ErrorKind::NoNode | ErrorKind::Declined | ErrorKind::Name => CallErrorKind::NoNode,
    };
    CallError { kind, reason: error.reason }
}
