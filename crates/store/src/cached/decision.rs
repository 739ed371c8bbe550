//! An acceptance, as this node holds it.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::facts::Acceptance;
use crate::Listing;

/// The acceptance that this node goes by.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    accepted: Mutex<Option<Acceptance>>,
    pub(super) made: Notify,
}

impl Decision {
    pub(super) fn make(&self, acceptance: Acceptance) {
        *self.accepted.lock().unwrap_or_else(PoisonError::into_inner) = Some(acceptance);
        self.made.notify_one();
    }

    pub(crate) fn clear(&self) {
        *self.accepted.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn covers(&self, found: &Listing) -> bool {
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.as_ref().is_some_and(|accepted| accepted.covers(found))
    }
}
