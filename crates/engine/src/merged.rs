//! Chains with consumers' plugins merged in, kept by each worker for the pairs of route and consumer that it meets.

use plugin::{Chain, ConsumerInfo};
use snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Pairs that one worker keeps. A chain of ten plugins takes about 2 KB, so this is 8 MB a worker at most.
const CHAINS_MAX: usize = 4096;

/// A worker's merged chains.
#[derive(Default)]
pub(crate) struct MergedChains {
    /// By the serials of route, consumer and group, which name their content for the life of the process.
    chains: RefCell<HashMap<[u64; 3], Rc<Chain>>>,
    /// Where the snapshot stands for which chains were kept last. Only so that chains of the past go: serials alone
    /// would do to find the right one.
    snapshot: Cell<usize>,
}

/// The group that a consumer names does not exist.
#[derive(Debug)]
pub(crate) struct NoGroup;

impl MergedChains {
    /// `route`'s chain with the plugins of `consumer` and its group merged in; `None` where they have none. `serial` is
    /// the route's.
    ///
    /// # Errors
    /// When the consumer's group does not exist.
    pub(crate) fn chain(
        &self,
        snapshot: &Arc<Snapshot>,
        serial: u64,
        route: &Chain,
        consumer: &ConsumerInfo,
    ) -> Result<Option<Rc<Chain>>, NoGroup> {
        let plugins = &snapshot.consumer_plugins;
        let group = match consumer.group_id.as_str() {
            "" => None,
            id => Some(plugins.group(id).ok_or(NoGroup)?),
        };
        let of_group = group.map(|group| &*group.plugins).unwrap_or_default();
        let own = plugins.of(consumer);
        if own.is_empty() && of_group.is_empty() {
            return Ok(None);
        }
        self.forget_others(snapshot);
        let mut chains = self.chains.borrow_mut();
        if chains.len() >= CHAINS_MAX {
            chains.clear();
        }
        let key = [serial, consumer.serial, group.map_or(0, |group| group.serial)];
        let merged = chains.entry(key).or_insert_with(|| Rc::new(route.under(own, of_group)));
        Ok(Some(Rc::clone(merged)))
    }

    /// Lets go of chains that were kept for another snapshot than this one, and with them of its plugins.
    pub(crate) fn forget_others(&self, snapshot: &Arc<Snapshot>) {
        let place = Arc::as_ptr(snapshot).addr();
        if self.snapshot.replace(place) != place {
            self.chains.borrow_mut().clear();
        }
    }
}
