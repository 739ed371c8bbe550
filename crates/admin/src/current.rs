//! The Admin API that is in force: a reload replaces it as a whole.

use crate::Admin;
use std::sync::{Arc, PoisonError, RwLock};

/// The Admin API in force. A request is answered by the one that was in force when its head had come.
#[derive(Debug)]
pub struct CurrentAdmin(RwLock<Arc<Admin>>);

impl CurrentAdmin {
    /// Puts `admin` in force.
    #[must_use]
    pub fn new(admin: Arc<Admin>) -> Self {
        Self(RwLock::new(admin))
    }

    /// The one in force.
    #[must_use]
    pub fn get(&self) -> Arc<Admin> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another one in force, made with [`Admin::with`] of the one before.
    pub fn replace(&self, admin: Admin) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(admin);
    }
}
