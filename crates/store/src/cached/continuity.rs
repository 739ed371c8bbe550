//! Whether what a config source answers can have come from the configuration in use by ordinary changes.
//!
//! A watch proves it: every change is seen. After a gap only the contents are left to compare, and an etcd whose data
//! was lost, or restored from a backup, answers like any other. etcd derives its cluster id from its flags, so an emptied
//! member often keeps it; revisions and the entries themselves tell more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use model::Kind;

use crate::{Entry, Listing};

/// A listing that keeps less than one in so many resources counts as a loss...
const LOSS_DIVISOR: usize = 10;

/// ...where there were at least so many: below that, an operator may well have deleted nine of ten by hand.
const LOSS_RESOURCES_MIN: usize = 10;

/// Why a listing can't continue the configuration in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Another cluster answered.
    OtherCluster { found: u64, expected: u64 },
    /// The revision is below one that was seen already.
    Older { found: u64, expected: u64 },
    /// An entry claims to be older than the last revision seen, and was not there then.
    OtherHistory { key: Arc<str> },
    /// Most resources are gone, or all of them, and nobody saw them being deleted.
    Loss { left: usize, of: usize },
}

/// How a listing continues the configuration in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Continuity {
    /// The resources are the same, or there were none.
    Same,
    /// It may be what became of them.
    Plausible,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherCluster { found, expected } => {
                write!(f, "it belongs to another cluster (id {found:016x} instead of {expected:016x})")
            }
            Self::Older { found, expected } => {
                write!(f, "it was emptied or rolled back: revision {found} after {expected}")
            }
            Self::OtherHistory { key } => {
                write!(f, "it was replaced: its history of {key} is not the one seen before")
            }
            Self::Loss { left: 0, of } => write!(f, "it is empty: all {of} resources are gone"),
            Self::Loss { left, of } => write!(f, "{} of {of} resources are gone at once", of - left),
        }
    }
}

/// Returns how many of the keys belong to resources: APISIX keeps others beside them.
pub(crate) fn resources<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> usize {
    entries.into_iter().filter(|entry| is_resource(entry)).count()
}

fn is_resource(entry: &Entry) -> bool {
    Kind::parse_key(&entry.key).is_some()
}

/// Judges `found` against the entries of `cluster` at `revision`.
///
/// # Errors
/// Why it can't be what they became.
pub(crate) fn judge(
    cluster: u64,
    revision: u64,
    entries: &BTreeMap<Arc<str>, Entry>,
    found: &Listing,
) -> Result<Continuity, Fault> {
    let of = resources(entries.values());
    if of == 0 {
        return Ok(Continuity::Same);
    }
    let mut listed = found.entries.iter().filter(|entry| is_resource(entry));
    let same = |entry: &Entry| entries.get(&entry.key).is_some_and(|held| held.value == entry.value);
    if resources(&found.entries) == of && listed.all(same) {
        return Ok(Continuity::Same);
    }
    if cluster != 0 && found.cluster != 0 && cluster != found.cluster {
        return Err(Fault::OtherCluster { found: found.cluster, expected: cluster });
    }
    if found.revision < revision {
        return Err(Fault::Older { found: found.revision, expected: revision });
    }
    let foreign = |entry: &&Entry| match entries.get(&entry.key) {
        Some(held) if entry.mod_revision <= revision => {
            held.mod_revision != entry.mod_revision || held.value != entry.value
        }
        Some(held) if entry.create_revision <= revision => held.create_revision != entry.create_revision,
        Some(_) => false,
        None => entry.create_revision <= revision,
    };
    if let Some(entry) = found.entries.iter().find(foreign) {
        return Err(Fault::OtherHistory { key: Arc::clone(&entry.key) });
    }
    let left =
        found.entries.iter().filter(|entry| is_resource(entry) && entries.contains_key(&entry.key)).count();
    let lost = left == 0 && resources(&found.entries) == 0;
    if lost || (of >= LOSS_RESOURCES_MIN && left * LOSS_DIVISOR < of) {
        return Err(Fault::Loss { left, of });
    }
    Ok(Continuity::Plausible)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, created: u64, modified: u64) -> Entry {
        let value = format!("{{\"r\":{modified}}}").into_bytes().into();
        Entry {
            key: key.into(),
            value,
            create_revision: created,
            mod_revision: modified,
            expires_at_ms: None,
        }
    }

    fn verdict(cluster: u64, revision: u64, entries: Vec<Entry>) -> Option<Fault> {
        let held = [entry("/routes/1", 2, 2), entry("/routes/2", 3, 7), entry("/gen_id", 4, 4)];
        let held = held.into_iter().map(|entry| (Arc::clone(&entry.key), entry)).collect();
        judge(5, 9, &held, &Listing { revision, entries, cluster }).err()
    }

    #[test]
    fn only_descendants_of_the_configuration_in_use_pass() {
        let (one, two) = (|| entry("/routes/1", 2, 2), || entry("/routes/2", 3, 7));
        let older = |found| Some(Fault::Older { found, expected: 9 });
        let replaced = |key: &str| Some(Fault::OtherHistory { key: key.into() });
        for (case, cluster, revision, entries, expected) in [
            ("unchanged", 5, 9, vec![one(), two()], None),
            (
                "changed, deleted and added",
                5,
                12,
                vec![entry("/routes/1", 2, 11), entry("/routes/3", 12, 12)],
                None,
            ),
            ("deleted and made again", 5, 12, vec![entry("/routes/1", 11, 11), two()], None),
            ("the same in another cluster", 6, 3, vec![one(), two()], None),
            ("another cluster", 6, 20, vec![one()], Some(Fault::OtherCluster { found: 6, expected: 5 })),
            ("no cluster known", 0, 10, vec![one()], None),
            ("emptied", 5, 1, vec![], older(1)),
            ("rolled back", 5, 6, vec![one(), entry("/routes/2", 3, 3)], older(6)),
            ("emptied and written to", 5, 30, vec![entry("/routes/9", 2, 2)], replaced("/routes/9")),
            ("filled again", 5, 30, vec![one(), entry("/routes/2", 4, 28)], replaced("/routes/2")),
            ("an old value", 5, 30, vec![one(), entry("/routes/2", 3, 3)], replaced("/routes/2")),
            ("nothing left", 5, 30, vec![], Some(Fault::Loss { left: 0, of: 2 })),
            ("no resource left", 5, 30, vec![entry("/gen_id", 4, 4)], Some(Fault::Loss { left: 0, of: 2 })),
        ] {
            assert_eq!(verdict(cluster, revision, entries), expected, "{case}");
        }
    }

    #[test]
    fn a_loss_of_more_than_nine_tenths_is_a_fault() {
        let held: BTreeMap<Arc<str>, Entry> = (0..30)
            .map(|n| entry(&format!("/routes/{n}"), n + 2, n + 2))
            .map(|entry| (Arc::clone(&entry.key), entry))
            .collect();
        let left = |count| {
            let entries = held.values().take(count).cloned().collect();
            judge(5, 40, &held, &Listing { revision: 50, entries, cluster: 5 }).err()
        };
        assert_eq!((left(3), left(2)), (None, Some(Fault::Loss { left: 2, of: 30 })));
    }

    #[test]
    fn where_nothing_is_in_use_everything_passes() {
        let found = Listing { revision: 1, entries: vec![entry("/routes/1", 1, 1)], cluster: 9 };
        assert_eq!(judge(5, 9, &BTreeMap::new(), &found), Ok(Continuity::Same));
    }
}
