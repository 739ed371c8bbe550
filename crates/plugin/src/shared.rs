//! State that plugins share between routes, workers and configurations.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// One value per type, made at first use and kept until the process ends: limit windows, metric series. Asked for when
/// a plugin is compiled, never per request.
#[derive(Default)]
pub struct Shared {
    values: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Shared {
    /// The process's `T`.
    pub fn get<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        Arc::clone(value).downcast::<T>().expect("the map's key is the value's type")
    }

    /// Puts a `T` made elsewhere in place, before plugins ask for it.
    pub fn insert<T: Any + Send + Sync>(&self, value: Arc<T>) {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).insert(TypeId::of::<T>(), value);
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
