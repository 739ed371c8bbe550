//! The rules on an array's items.

use super::node::Node;
use super::walk::{First, Verdict, Walk};
use crate::schema::lua;
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// `items`, `additionalItems`, `minItems`, `maxItems` and `uniqueItems`.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// Schemas of the first items, one each.
    pub(super) tuple: Vec<Node>,
    /// Schema of the items after the tuple: of all, where there is none.
    pub(super) rest: Option<Node>,
    pub(super) min: Option<usize>,
    pub(super) max: Option<usize>,
    pub(super) unique: bool,
}

impl Items {
    /// `empty`: the value is an empty table, or was one before the defaults of its fields were filled in.
    pub(super) fn check(&self, value: &mut Value, empty: bool, walk: &mut Walk) -> Verdict {
        match value {
            Value::Array(items) => self.check_items(items, walk),
            _ if empty => self.check_items(&mut [], walk),
            _ => Ok(()),
        }
    }

    fn check_items(&self, items: &mut [Value], walk: &mut Walk) -> Verdict {
        let mut first = First::default();
        if let Some(min) = self.min.filter(|min| items.len() < *min) {
            first.note(walk.fault(format!("expect array to have at least {min} items")), walk)?;
        }
        if let Some(max) = self.max.filter(|max| items.len() > *max) {
            first.note(walk.fault(format!("expect array to have at most {max} items")), walk)?;
        }
        for (i, item) in items.iter_mut().enumerate() {
            let Some(node) = self.tuple.get(i).or(self.rest.as_ref()) else { break };
            let verdict = walk.at(&i.to_string(), |walk| node.check(item, walk)).map_err(|line| {
                let additional =
                    if i >= self.tuple.len() && !self.tuple.is_empty() { "additional " } else { "" };
                format!("failed to validate {additional}item {}: {line}", i + 1)
            });
            first.note(verdict, walk)?;
        }
        if self.unique {
            first.note(all_differ(items, walk), walk)?;
        }
        first.verdict()
    }
}

fn all_differ(items: &[Value], walk: &mut Walk) -> Verdict {
    let mut seen = HashMap::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        match seen.entry(lua::canonical(item)) {
            Entry::Vacant(free) => {
                free.insert(i + 1);
            }
            Entry::Occupied(earlier) => {
                let earlier = earlier.get();
                return walk
                    .fault(format!("expected unique items but items {earlier} and {} are equal", i + 1));
            }
        }
    }
    Ok(())
}
