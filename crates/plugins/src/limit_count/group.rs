//! Groups: configurations that share their counters, and must therefore be equal.

use super::config::Config;
use model::ConfigError;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The groups in use, by name.
#[derive(Default)]
pub(super) struct Groups(Mutex<HashMap<String, Weak<Group>>>);

/// The settings of one group, alive while a compiled configuration uses them.
pub(super) struct Group(Config);

impl Groups {
    /// Joins the group called `name`, which exists from the first one that joins until the last one is gone.
    pub(super) fn join(&self, name: &str, config: &Config) -> Result<Arc<Group>, Vec<ConfigError>> {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = groups.get(name).and_then(Weak::upgrade) {
            let mismatched = || vec![ConfigError::new("/group", "group conf mismatched")];
            return if group.0 == *config { Ok(group) } else { Err(mismatched()) };
        }
        // Bounded by the configurations that exist: the names nobody uses go whenever one is added.
        groups.retain(|_, group| group.strong_count() > 0);
        let group = Arc::new(Group(config.clone()));
        groups.insert(name.to_owned(), Arc::downgrade(&group));
        Ok(group)
    }
}
