//! Services where none are: exchanges whose plugins are only looked at.

use super::{Answer, Call, CallError, CallErrorKind, Io, LocalFuture, Services, Task};
use crate::UpstreamChoice;
use std::future::ready;
use std::path::Path;
use std::time::Duration;

/// Services that refuse every call and let no time pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unavailable;

const REFUSED: CallError =
    CallError { kind: CallErrorKind::Unavailable, reason: "plugin services are not available here" };

impl Services for Unavailable {
    fn sleep(&self, _: Duration) -> LocalFuture<()> {
        Box::pin(ready(()))
    }

    fn call(&self, _: &UpstreamChoice, _: Call) -> LocalFuture<Result<Answer, CallError>> {
        Box::pin(ready(Err(REFUSED)))
    }

    fn connect(&self, _: &UpstreamChoice, _: Duration) -> LocalFuture<Result<Box<dyn Io>, CallError>> {
        Box::pin(ready(Err(REFUSED)))
    }

    fn connect_unix(&self, _: &Path, _: Duration) -> LocalFuture<Result<Box<dyn Io>, CallError>> {
        Box::pin(ready(Err(REFUSED)))
    }

    fn spawn(&self, _: LocalFuture<()>) -> Task {
        Task::new(|| {})
    }
}
