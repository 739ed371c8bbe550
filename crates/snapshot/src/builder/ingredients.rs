//! What plugins are compiled with besides their own configurations: a change of it compiles anew whatever has it in.

use super::Builder;
use crate::resource::Resource;
use model::Kind;
use std::collections::BTreeSet;
use std::sync::Arc;
use store::Change;

impl Builder {
    /// Takes in a change of metadata; whether the plugin's metadata is another than before.
    pub(super) fn change_metadata(&mut self, plugin: &str, change: &Change) -> bool {
        self.refused.remove(change.key());
        match change {
            Change::Delete { .. } => self.metadata.remove(plugin),
            Change::Put(entry) => {
                let revealed = self.revealing.reveal(Kind::PluginMetadata, &entry.key, &entry.value);
                match self.metadata.put(&self.registry, plugin, &entry.value, &revealed) {
                    Ok(()) => true,
                    Err(errors) => {
                        self.refuse(&entry.key, &entry.value, errors);
                        false
                    }
                }
            }
        }
    }

    /// Takes in a change of definitions; whether they are others than before.
    pub(super) fn change_proto(&mut self, id: &str, change: &Change) -> bool {
        self.refused.remove(change.key());
        match change {
            Change::Delete { .. } => self.protos.remove(id),
            Change::Put(entry) => match self.protos.put(id, &entry.value) {
                Ok(()) => true,
                Err(errors) => {
                    self.refuse(&entry.key, &entry.value, errors);
                    false
                }
            },
        }
    }

    /// Compiles again what has one of `plugins`, whose metadata changed, or names one of `protos`, which did, and tries
    /// again what was refused: it may have been for these. Nothing is refused twice for the same reason, and what is in
    /// use stays if need be.
    pub(super) fn recompile(&mut self, plugins: &[&str], protos: &[&str], changed: &mut BTreeSet<Arc<str>>) {
        let uses = |(_, resource): &(&Arc<str>, &Resource)| {
            resource.uses_plugin(plugins) || resource.uses_proto(protos)
        };
        let mut keys: BTreeSet<Arc<str>> =
            self.resources.iter().filter(uses).map(|(key, _)| Arc::clone(key)).collect();
        keys.extend(self.refused.keys().map(Arc::clone));
        self.compile_again(keys, changed);
    }
}
