//! The background tasks of the plugins in a snapshot.

use super::Builder;
use crate::resource::Resource;
use std::sync::Arc;

impl Builder {
    /// Takes in the tasks that the resource `key` has now.
    pub(super) fn relink_background(&mut self, key: &Arc<str>) {
        let tasks = self.resources.get(key).map(Resource::background).unwrap_or_default();
        if !tasks.is_empty() {
            self.background.insert(Arc::clone(key), tasks.into());
        } else if self.background.get(key).is_some() {
            self.background.remove(key);
        }
    }
}
