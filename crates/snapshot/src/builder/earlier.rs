//! Versions of resources that are used because newer ones can't be, across restarts.

use super::Builder;
use std::collections::HashMap;
use std::sync::Arc;
use store::{Change, Entry};

impl Builder {
    /// The values in use of keys whose newest values can't be used.
    pub(crate) fn earlier_in_use(&self) -> Vec<(Arc<str>, Arc<[u8]>)> {
        let in_use = |(key, refused): (&Arc<str>, &super::Refused)| {
            let used = self.used(key)?;
            // What was refused because something else changed can't be compiled at the next start either.
            (*used != refused.value).then(|| (Arc::clone(key), Arc::clone(used)))
        };
        self.refused.iter().filter_map(in_use).collect()
    }

    /// Changes that lead to `earlier` versions, by key, of resources that this builder doesn't know.
    pub(super) fn unknown<'e>(&self, earlier: &'e [Entry]) -> HashMap<&'e str, Vec<Change>> {
        let mut unknown: HashMap<&str, Vec<Change>> = HashMap::new();
        for entry in earlier.iter().filter(|entry| self.stored(&entry.key).is_none()) {
            unknown.entry(&entry.key).or_default().push(Change::Put(entry.clone()));
        }
        unknown
    }
}
