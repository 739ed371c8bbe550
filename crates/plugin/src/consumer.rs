//! Consumers: who may be behind a request, found by the credential that it shows.

use crate::Stored;
use crate::credential::{AuthenticatorId, CompiledCredential};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stdx::PersistentMap;

/// What hooks may know of a consumer.
#[derive(Debug, Clone, Default)]
pub struct ConsumerInfo {
    /// Names this compiled form of the consumer: no other has it in the life of the process. 0 where nobody gave one.
    pub serial: u64,
    /// Its name.
    pub name: String,
    /// Its group; empty where it belongs to none.
    pub group_id: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The consumer as the store holds it.
    pub stored: Stored,
    /// Whether it has plugins of its own: [`crate::ConsumerPlugins::of`].
    pub has_plugins: bool,
}

/// A credential and whose it is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Whose it is.
    pub consumer: Arc<ConsumerInfo>,
    /// The id of a credential that is a resource of its own; `None` where it stands in the consumer.
    pub credential_id: Option<Arc<str>>,
    /// The store key of the resource it stands in.
    pub resource_key: Arc<str>,
    pub(crate) credential: CompiledCredential,
}

/// All consumers of a snapshot. Cheap to clone; a change costs no more than what changes.
#[derive(Debug, Clone, Default)]
pub struct Consumers {
    by_name: PersistentMap<Arc<str>, Arc<ConsumerInfo>>,
    /// By auth plugin: few enough to look through.
    indexes: Vec<(AuthenticatorId, Index)>,
    /// Names this state: no other has it in the life of the process.
    revision: u64,
}

/// One plugin's credentials by key. Keys are unique as far as the Admin API can tell; where two resources came to have
/// the same key, the last one in the order of store keys counts, as in APISIX after a start.
pub(crate) type Index = PersistentMap<Arc<[u8]>, Arc<[Identity]>>;

impl Identity {
    /// `credential` of `consumer`, which stands in the resource `resource_key`.
    #[must_use]
    pub fn new(
        consumer: Arc<ConsumerInfo>,
        credential_id: Option<Arc<str>>,
        resource_key: Arc<str>,
        credential: CompiledCredential,
    ) -> Self {
        Self { consumer, credential_id, resource_key, credential }
    }
}

impl Consumers {
    /// Whose the credential of the plugin called `authenticator`, which came at run time, with this key is, and what it
    /// says.
    #[must_use]
    pub fn find_named(
        &self,
        authenticator: &str,
        key: &[u8],
    ) -> Option<(&Identity, &(dyn Any + Send + Sync))> {
        let named =
            |of: &AuthenticatorId| matches!(of, AuthenticatorId::Name(name) if **name == *authenticator);
        let (_, index) = self.indexes.iter().find(|(of, _)| named(of))?;
        let identity = index.get(key)?.last()?;
        Some((identity, &*identity.credential.data))
    }

    /// All credentials of the plugin called `authenticator`, which came at run time: their keys, whose they are, and what
    /// they say.
    pub fn all_named(
        &self,
        authenticator: &str,
    ) -> impl Iterator<Item = (&[u8], &Identity, &(dyn Any + Send + Sync))> {
        let named =
            |of: &AuthenticatorId| matches!(of, AuthenticatorId::Name(name) if **name == *authenticator);
        let index = self.indexes.iter().find(|(of, _)| named(of)).map(|(_, index)| index);
        index.into_iter().flat_map(Index::iter).filter_map(|(key, found)| {
            let identity = found.last()?;
            Some((&**key, identity, &*identity.credential.data))
        })
    }

    /// Changes with every change of a consumer or a credential: what is derived from all of them is kept until then. 0
    /// where there has been none.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    fn changed(&mut self) {
        static REVISIONS: AtomicU64 = AtomicU64::new(1);
        self.revision = REVISIONS.fetch_add(1, Ordering::Relaxed);
    }

    /// The consumer called `name`.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<ConsumerInfo>> {
        self.by_name.get(name)
    }

    /// How many consumers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Puts a consumer in place, or takes it out; its credentials are put and taken by themselves.
    pub fn set(&mut self, name: &str, consumer: Option<Arc<ConsumerInfo>>) {
        self.changed();
        match consumer {
            Some(consumer) => self.by_name.insert(name.into(), consumer),
            None => self.by_name.remove(name),
        };
    }

    /// Makes `identity` findable.
    pub fn add(&mut self, identity: Identity) {
        self.changed();
        let authenticator = identity.credential.authenticator.clone();
        let key = Arc::clone(&identity.credential.key);
        if self.index(&authenticator).is_none() {
            self.indexes.push((authenticator.clone(), Index::default()));
        }
        let Some((_, index)) = self.indexes.iter_mut().find(|(of, _)| *of == authenticator) else { return };
        let others = index.get(&*key).map(|found| found.to_vec()).unwrap_or_default();
        let mut all: Vec<_> =
            others.into_iter().filter(|other| other.resource_key != identity.resource_key).collect();
        let at = all.partition_point(|other| other.resource_key < identity.resource_key);
        all.insert(at, identity);
        index.insert(key, all.into());
    }

    /// Takes out what [`Self::add`] put in for `credential` of the resource `resource_key`.
    pub fn remove(&mut self, resource_key: &str, credential: &CompiledCredential) {
        self.changed();
        let index = self.indexes.iter_mut().find(|(of, _)| *of == credential.authenticator);
        let Some((_, index)) = index else { return };
        let Some(found) = index.get(&*credential.key) else { return };
        let left: Vec<_> =
            found.iter().filter(|other| &*other.resource_key != resource_key).cloned().collect();
        if left.is_empty() {
            index.remove(&*credential.key);
        } else {
            index.insert(Arc::clone(&credential.key), left.into());
        }
    }

    pub(crate) fn index(&self, authenticator: &AuthenticatorId) -> Option<&Index> {
        self.indexes.iter().find(|(of, _)| of == authenticator).map(|(_, index)| index)
    }
}
