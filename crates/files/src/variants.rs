//! What was compressed, kept for all workers: a file is compressed once, not once per request or worker.

use crate::root::Identity;
use model::resource::Encoding;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of compressed files kept by default: a few thousand pages of a usual site.
pub const VARIANT_BYTES_DEFAULT: usize = 64 * 1024 * 1024;

/// What names a variant: a file's content, the encoding, and the level it was compressed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The file.
    pub identity: Identity,
    /// The encoding.
    pub encoding: Encoding,
    /// The level, in the encoding's own numbers.
    pub level: i32,
}

/// A variant; `None` for a file that doesn't get smaller.
pub type Variant = Option<Arc<[u8]>>;

/// The compressed variants of the process, bounded in bytes. Asked when a worker first needs a variant of a file, never
/// on a request that finds it in the worker's own cache: so a lock is good enough.
#[derive(Debug)]
pub struct Variants {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_key: HashMap<Key, (u64, Variant)>,
    /// Keys by the last time they were asked for, as a serial number.
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    bytes: usize,
}

/// What one entry costs besides its bytes: the two maps' nodes, roughly.
const ENTRY_BYTES: usize = 256;

impl Variants {
    /// An empty cache of at most so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Mutex::default() }
    }

    /// The variant, where it is known.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Variant> {
        let kept = &mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (used, variant) = kept.by_key.get_mut(key)?;
        kept.by_use.remove(used);
        kept.uses += 1;
        *used = kept.uses;
        kept.by_use.insert(*used, *key);
        Some(variant.clone())
    }

    /// Keeps a variant; the ones unused for the longest go where it gets too much. One that is alone too large is not
    /// kept.
    pub fn insert(&self, key: Key, variant: Variant) {
        let cost = cost(&variant);
        if cost > self.bytes_max {
            return;
        }
        let kept = &mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let used = kept.uses;
        kept.bytes += cost;
        kept.by_use.insert(used, key);
        if let Some((old, replaced)) = kept.by_key.insert(key, (used, variant)) {
            kept.by_use.remove(&old);
            kept.bytes -= self::cost(&replaced);
        }
        while kept.bytes > self.bytes_max {
            let Some((_, oldest)) = kept.by_use.pop_first() else { break };
            if let Some((_, gone)) = kept.by_key.remove(&oldest) {
                kept.bytes -= self::cost(&gone);
            }
        }
    }
}

impl Default for Variants {
    fn default() -> Self {
        Self::new(VARIANT_BYTES_DEFAULT)
    }
}

fn cost(variant: &Variant) -> usize {
    ENTRY_BYTES + variant.as_ref().map_or(0, |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(inode: u64) -> Key {
        let identity = Identity { device: 1, inode, length: 9, modified_s: 0, modified_ns: 0 };
        Key { identity, encoding: Encoding::Gzip, level: 6 }
    }

    fn variant(bytes: usize) -> Variant {
        Some(vec![0; bytes].into())
    }

    #[test]
    fn the_longest_unused_go_first() {
        let variants = Variants::new(3 * (ENTRY_BYTES + 100));
        for inode in 0..3 {
            variants.insert(key(inode), variant(100));
        }
        assert!(variants.get(&key(0)).is_some());
        variants.insert(key(3), variant(100));
        let left: Vec<_> = (0..4).filter(|inode| variants.get(&key(*inode)).is_some()).collect();
        assert_eq!(left, [0, 2, 3]);
        variants.insert(key(9), variant(10_000));
        assert!(variants.get(&key(9)).is_none(), "too large to be kept");
        assert_eq!(variants.get(&key(0)), Some(variant(100)), "and nothing else went for it");
    }

    #[test]
    fn a_variant_replaces_itself_and_none_is_an_answer() {
        let variants = Variants::new(ENTRY_BYTES * 4);
        variants.insert(key(1), variant(100));
        variants.insert(key(1), None);
        assert_eq!(variants.get(&key(1)), Some(None));
        assert_eq!(variants.kept.lock().unwrap().bytes, ENTRY_BYTES);
    }
}
