//! The plugins of consumers and of their groups.

use crate::chain::body_need;
use crate::{CompiledPlugin, ConsumerInfo};
use model::var::BodyNeed;
use std::sync::Arc;
use stdx::PersistentMap;

/// What consumers have in common.
#[derive(Debug, Clone, Default)]
pub struct ConsumerGroup {
    /// Names this compiled form, as a consumer's does.
    pub serial: u64,
    /// Its plugins; a consumer's own take precedence.
    pub plugins: Arc<[CompiledPlugin]>,
}

/// The plugins of a snapshot's consumers and groups. Cheap to clone; a change costs no more than what changes.
#[derive(Debug, Clone, Default)]
pub struct ConsumerPlugins {
    /// By the consumer's name; none is empty.
    own: PersistentMap<Arc<str>, Arc<[CompiledPlugin]>>,
    groups: PersistentMap<Arc<str>, Arc<ConsumerGroup>>,
    body_need: BodyNeed,
}

impl ConsumerPlugins {
    /// The plugins of `consumer`, those that authenticate left out: they have done their part once it is known.
    #[must_use]
    pub fn of(&self, consumer: &ConsumerInfo) -> &[CompiledPlugin] {
        if !consumer.has_plugins {
            return &[];
        }
        self.own.get(consumer.name.as_str()).map(|plugins| &**plugins).unwrap_or_default()
    }

    /// The consumer group `id`.
    #[must_use]
    pub fn group(&self, id: &str) -> Option<&Arc<ConsumerGroup>> {
        self.groups.get(id)
    }

    /// Puts the plugins of the consumer called `name` in place; none take the earlier ones out.
    pub fn set(&mut self, name: &str, plugins: Arc<[CompiledPlugin]>) {
        self.note_need(&plugins);
        if plugins.is_empty() {
            self.own.remove(name);
        } else {
            self.own.insert(name.into(), plugins);
        }
    }

    /// Puts a group in place, or takes it out.
    pub fn set_group(&mut self, id: &str, group: Option<Arc<ConsumerGroup>>) {
        match group {
            Some(group) => {
                self.note_need(&group.plugins);
                self.groups.insert(id.into(), group)
            }
            None => self.groups.remove(id),
        };
    }

    /// What the conditions of consumers' plugins ask about the request's body. Who the consumer is shows when the body has
    /// been read, so this is said for all of them, and also when the last that asked is gone: it costs time alone.
    #[must_use]
    #[inline]
    pub fn body_need(&self) -> BodyNeed {
        self.body_need
    }

    fn note_need(&mut self, plugins: &[CompiledPlugin]) {
        self.body_need = self.body_need.or(body_need(plugins));
    }
}
