//! Resources as they are compiled: what the store holds encrypted decrypted, references replaced by their values; and
//! which resources have to be compiled again when a value changes.

use model::Kind;
use secrets::{ManagedRef, Revealed, Secrets};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use store::Change;

/// The builder's sight of secrets. Without any, resources are compiled as the store holds them.
#[derive(Debug, Default)]
pub(crate) struct Revealing {
    secrets: Option<Arc<Secrets>>,
    /// Until when this build waits for values.
    until: Option<Instant>,
    /// Whether a configuration was built before.
    built: bool,
    /// The resources of secret managers, as the store holds them.
    managers: BTreeMap<Arc<str>, Arc<[u8]>>,
    /// From a reference to the store keys of the resources that were compiled with it.
    users: HashMap<ManagedRef, BTreeSet<Arc<str>>>,
    /// The same the other way round.
    used: HashMap<Arc<str>, HashSet<ManagedRef>>,
}

impl Revealing {
    /// Without references yet.
    pub(crate) fn new(secrets: Option<Arc<Secrets>>) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// The secrets themselves.
    pub(crate) fn secrets(&self) -> Option<&Arc<Secrets>> {
        self.secrets.as_ref()
    }

    /// A build begins: it waits for values that are not known yet, for a bounded time.
    pub(crate) fn begin(&mut self) {
        self.until = Some(Secrets::patience(!self.built));
    }

    /// A build begins that waits for nothing: what is not known stays unknown.
    pub(crate) fn begin_at_once(&mut self) {
        self.until = None;
    }

    /// A build has ended. References that nobody uses any more are no longer renewed.
    pub(crate) fn end(&mut self) {
        self.built = true;
        let Some(secrets) = &self.secrets else { return };
        self.users.retain(|reference, users| {
            if users.is_empty() {
                secrets.references().forget(reference);
            }
            !users.is_empty()
        });
    }

    /// Takes in a change of a secret manager's resource.
    pub(crate) fn change_manager(&mut self, id: &str, change: &Change) {
        let stored = match change {
            Change::Put(entry) => {
                self.managers.insert(Arc::clone(&entry.key), Arc::clone(&entry.value));
                Some(&*entry.value)
            }
            Change::Delete { key, .. } => {
                self.managers.remove(key);
                None
            }
        };
        if let Some(secrets) = &self.secrets {
            secrets.manager(id, stored);
        }
    }

    /// The store keys of the secret managers' resources.
    pub(crate) fn managers(&self) -> impl Iterator<Item = &Arc<str>> {
        self.managers.keys()
    }

    /// A manager's resource, as the store holds it.
    pub(crate) fn manager(&self, key: &str) -> Option<&Arc<[u8]>> {
        self.managers.get(key)
    }

    /// The resource to compile for what the store holds under `key`.
    pub(crate) fn reveal(&mut self, kind: Kind, key: &str, stored: &Arc<[u8]>) -> Arc<[u8]> {
        let Some(secrets) = &self.secrets else { return Arc::clone(stored) };
        let id = Kind::parse_key(key).map_or("", |(_, id)| id);
        let until = self.until.unwrap_or_else(Instant::now);
        let Revealed { value, references } = secrets.reveal(kind, id, key, stored, until);
        if !references.is_empty() {
            let key: Arc<str> = key.into();
            for reference in references {
                self.users.entry(reference.clone()).or_default().insert(Arc::clone(&key));
                self.used.entry(Arc::clone(&key)).or_default().insert(reference);
            }
        }
        value
    }

    /// Forgets with which references the resource `key` was compiled, before it is compiled anew.
    pub(crate) fn clear(&mut self, key: &str) {
        for reference in self.used.remove(key).into_iter().flatten() {
            if let Some(users) = self.users.get_mut(&reference) {
                users.remove(key);
            }
        }
    }

    /// The store keys of the resources that have to be compiled again, because a value changed since.
    pub(crate) fn take_outdated(&self) -> BTreeSet<Arc<str>> {
        let Some(secrets) = &self.secrets else { return BTreeSet::new() };
        let changed = secrets.references().take_changed();
        changed.iter().filter_map(|reference| self.users.get(reference)).flatten().map(Arc::clone).collect()
    }
}
