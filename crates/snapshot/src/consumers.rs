//! Consumers, their credentials and groups, as requests look them up. A change touches the entries of what changed.

use crate::link::{Resources, next_serial};
use crate::resource::{Form, Resource};
use model::Kind;
use plugin::{
    CompiledCredential, CompiledPlugin, ConsumerGroup, ConsumerInfo, ConsumerPlugins, Consumers, Identity,
    Stored,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The consumers of the next snapshot.
#[derive(Debug, Default)]
pub(crate) struct ConsumerIndex {
    pub(crate) consumers: Consumers,
    pub(crate) plugins: ConsumerPlugins,
    /// What each resource put into the index, so that it can be taken out again.
    indexed: HashMap<Arc<str>, Arc<[CompiledCredential]>>,
}

impl ConsumerIndex {
    /// Takes in what `resources` has for `key` now, which is that of a consumer, a credential or a group. Of a consumer
    /// and its credentials the consumer goes first: their order as keys.
    pub(crate) fn relink(&mut self, kind: Kind, key: &Arc<str>, id: &str, resources: &Resources) {
        let resource = resources.get(key);
        match (kind, resource.map(|resource| &resource.form)) {
            (Kind::ConsumerGroup, _) => {
                let group =
                    resource.map(|found| ConsumerGroup { serial: next_serial(), plugins: plugins(found) });
                self.plugins.set_group(id, group.map(Arc::new));
            }
            (Kind::Consumer, Some(Form::Consumer(form))) => {
                let plugins = resource.map(plugins).unwrap_or_default();
                let stored = resource.map(|found| Stored::new(Arc::clone(&found.value)));
                let info = Arc::new(ConsumerInfo {
                    serial: next_serial(),
                    name: id.to_owned(),
                    group_id: form.group_id.clone(),
                    labels: form.labels.clone(),
                    stored: stored.unwrap_or_default(),
                    has_plugins: !plugins.is_empty(),
                });
                self.plugins.set(id, plugins);
                self.consumers.set(id, Some(Arc::clone(&info)));
                self.index(key, &form.credentials, Some((info, None)));
            }
            (Kind::Consumer, _) => {
                self.consumers.set(id, None);
                self.plugins.set(id, Arc::default());
                self.index(key, &Arc::default(), None);
            }
            (_, Some(Form::Credential(form))) => {
                let (name, credential_id) = Kind::Credential.split_id(id).unwrap_or_default();
                let owner = self.consumers.named(name).map(Arc::clone);
                if owner.is_none() {
                    tracing::error!(key = &**key, "a credential of a consumer that does not exist");
                }
                let owner = owner.map(|consumer| (consumer, Some(Arc::from(credential_id))));
                self.index(key, &form.credentials, owner);
            }
            _ => self.index(key, &Arc::default(), None),
        }
    }

    /// Makes `credentials` those of the resource `key`; none without an owner.
    fn index(
        &mut self,
        key: &Arc<str>,
        credentials: &Arc<[CompiledCredential]>,
        owner: Option<(Arc<ConsumerInfo>, Option<Arc<str>>)>,
    ) {
        for credential in self.indexed.remove(key).iter().flat_map(|before| before.iter()) {
            self.consumers.remove(key, credential);
        }
        let Some((consumer, credential_id)) = owner.filter(|_| !credentials.is_empty()) else { return };
        for credential in credentials.iter() {
            let (consumer, credential_id) = (Arc::clone(&consumer), credential_id.clone());
            self.consumers.add(Identity::new(consumer, credential_id, Arc::clone(key), credential.clone()));
        }
        self.indexed.insert(Arc::clone(key), Arc::clone(credentials));
    }
}

fn plugins(resource: &Resource) -> Arc<[CompiledPlugin]> {
    resource.plugins.iter().map(|bound| bound.plugin.clone()).collect()
}
