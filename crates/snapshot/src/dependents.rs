//! Who names whom: from a resource to those that take something from it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// From the store key of a resource, which need not exist, to the keys of those that name it.
#[derive(Debug, Default)]
pub(crate) struct Dependents(HashMap<Arc<str>, BTreeSet<Arc<str>>>);

impl Dependents {
    /// Notes that `from` names `to`.
    pub(crate) fn add(&mut self, from: &Arc<str>, to: &Arc<str>) {
        self.0.entry(Arc::clone(to)).or_default().insert(Arc::clone(from));
    }

    /// Notes that `from` no longer names `to`.
    pub(crate) fn remove(&mut self, from: &Arc<str>, to: &Arc<str>) {
        if let Some(names) = self.0.get_mut(to) {
            names.remove(from);
            if names.is_empty() {
                self.0.remove(to);
            }
        }
    }

    /// The keys `changed` and all that depend on them, directly or through another (route -> service -> upstream).
    pub(crate) fn closure(&self, changed: BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
        let mut pending: Vec<Arc<str>> = changed.iter().map(Arc::clone).collect();
        let mut reached = changed;
        while let Some(key) = pending.pop() {
            for name in self.0.get(&key).into_iter().flatten() {
                if reached.insert(Arc::clone(name)) {
                    pending.push(Arc::clone(name));
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reaches_those_that_depend_through_others() {
        let key = |key: &str| Arc::<str>::from(key);
        let (route, other, service, upstream) =
            (key("/routes/1"), key("/routes/2"), key("/services/1"), key("/upstreams/1"));
        let mut dependents = Dependents::default();
        dependents.add(&route, &service);
        dependents.add(&service, &upstream);
        dependents.add(&other, &upstream);
        let reached = dependents.closure([Arc::clone(&upstream)].into());
        assert_eq!(reached, [&route, &other, &service, &upstream].map(Arc::clone).into());
        assert_eq!(
            dependents.closure([Arc::clone(&service)].into()),
            [&route, &service].map(Arc::clone).into()
        );

        dependents.remove(&service, &upstream);
        assert_eq!(
            dependents.closure([Arc::clone(&upstream)].into()),
            [&other, &upstream].map(Arc::clone).into()
        );
    }
}
