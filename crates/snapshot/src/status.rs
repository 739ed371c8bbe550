//! How things stand between the store and the workers: for the status and control APIs.

use crate::Problem;
use std::sync::{Arc, Mutex, PoisonError};
use store::StoreError;

/// How things stand. Written by [`follow`](crate::follow), read by whoever is asked.
#[derive(Debug, Default)]
pub struct FollowStatus(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    loaded: bool,
    problems: Arc<[Problem]>,
    store_error: Option<StoreError>,
}

impl FollowStatus {
    /// Whether a whole configuration was loaded: requests are served as the store says, or once said.
    #[must_use]
    pub fn loaded(&self) -> bool {
        self.read(|state| state.loaded)
    }

    /// What the store holds and the current snapshot lacks.
    #[must_use]
    pub fn problems(&self) -> Arc<[Problem]> {
        self.read(|state| Arc::clone(&state.problems))
    }

    /// Why the store can't be followed at present; `None` where it can.
    #[must_use]
    pub fn store_error(&self) -> Option<StoreError> {
        self.read(|state| state.store_error.clone())
    }

    /// A snapshot with these problems is about to be published.
    pub(crate) fn applied(&self, problems: Vec<Problem>) {
        self.write(|state| *state = State { loaded: true, problems: problems.into(), store_error: None });
    }

    /// The store could not be read.
    pub(crate) fn store_failed(&self, error: &StoreError) {
        self.write(|state| state.store_error = Some(error.clone()));
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, write: impl FnOnce(&mut State)) {
        write(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
