//! Server names, exact and with a wildcard, to whatever they name: a persistent map.
//!
//! A copy shares everything with its original, and a change copies one of [`SHARDS`] parts: with 100,000 names about a
//! hundred entries and the list of parts, some microseconds, however many snapshots hold older versions.

use std::collections::HashMap;
use std::sync::Arc;

/// Parts of the map. The list of them (8 KiB) and one part are copied by a change; at 100,000 names a part is no larger.
const SHARDS: usize = 1024;

/// Names to values. Several owners may claim one name: the one whose key comes first has it.
#[derive(Debug)]
pub(crate) struct Names<T> {
    shards: Arc<[Arc<Shard<T>>]>,
    /// Suffix patterns that begin inside a label (`*shop.com`), which few configurations have.
    odd: usize,
    len: usize,
    seed: u64,
}

/// By name, or by what follows the asterisk of a pattern.
type Shard<T> = HashMap<Key, Vec<(Arc<str>, Arc<T>)>>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    suffix: bool,
    text: Box<str>,
}

impl<T> Names<T> {
    /// Gives `name` to the resource `owner`.
    pub(crate) fn insert(&mut self, name: &str, owner: &Arc<str>, value: &Arc<T>) {
        let key = Key::of(name);
        let odd = key.is_odd();
        let claims = self.shard_mut(&key).entry(key).or_default();
        match claims.binary_search_by(|(other, _)| other.cmp(owner)) {
            Ok(at) => claims[at].1 = Arc::clone(value),
            Err(at) => {
                claims.insert(at, (Arc::clone(owner), Arc::clone(value)));
                self.len += 1;
                self.odd += usize::from(odd);
            }
        }
    }

    /// Takes `name` from the resource `owner`.
    pub(crate) fn remove(&mut self, name: &str, owner: &str) {
        let key = Key::of(name);
        let shard = self.shard_mut(&key);
        let Some(claims) = shard.get_mut(&key) else { return };
        let Some(at) = claims.iter().position(|(other, _)| &**other == owner) else { return };
        claims.remove(at);
        if claims.is_empty() {
            shard.remove(&key);
        }
        self.len -= 1;
        self.odd -= usize::from(key.is_odd());
    }

    /// What `name`, in lower case, means: an exact entry before the longest pattern. An asterisk stands for at most one
    /// label, unless the pattern is nothing else.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<T>> {
        if self.len == 0 {
            return None;
        }
        if let Some(found) = self.get(false, name) {
            return Some(found);
        }
        let label = name.find('.').unwrap_or(name.len());
        let from = if self.odd > 0 { 1 } else { label };
        (from..=label)
            .filter(|at| *at < name.len() && name.is_char_boundary(*at))
            .find_map(|at| self.get(true, &name[at..]))
            .or_else(|| self.get(true, ""))
    }

    fn get(&self, suffix: bool, text: &str) -> Option<&Arc<T>> {
        // An owned key would be an allocation per look: names are compared in place.
        let key = Borrowed { suffix, text };
        let claims = self.shards[self.index(&key)].get(&key as &dyn Lookup)?;
        claims.first().map(|(_, value)| value)
    }

    fn index(&self, key: &Borrowed<'_>) -> usize {
        (stdx::hash::hash(self.seed ^ u64::from(key.suffix), key.text.as_bytes()) as usize) % SHARDS
    }

    fn shard_mut(&mut self, key: &Key) -> &mut Shard<T> {
        let index = self.index(&Borrowed { suffix: key.suffix, text: &key.text });
        Arc::make_mut(&mut Arc::make_mut(&mut self.shards)[index])
    }
}

impl<T> Clone for Names<T> {
    fn clone(&self) -> Self {
        Self { shards: Arc::clone(&self.shards), ..*self }
    }
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        let empty: Arc<Shard<T>> = Arc::new(HashMap::new());
        let shards = std::iter::repeat_n(empty, SHARDS).collect();
        Self { shards, odd: 0, len: 0, seed: stdx::hash::seed() }
    }
}

impl Key {
    fn of(name: &str) -> Self {
        match name.strip_prefix('*') {
            Some(rest) => Self { suffix: true, text: rest.into() },
            None => Self { suffix: false, text: name.into() },
        }
    }

    fn is_odd(&self) -> bool {
        self.suffix && !self.text.is_empty() && !self.text.starts_with('.')
    }
}

/// A key that is looked for without being owned.
struct Borrowed<'k> {
    suffix: bool,
    text: &'k str,
}

/// What [`Key`] and [`Borrowed`] have in common, so that one finds the other in a table.
trait Lookup {
    fn parts(&self) -> (bool, &str);
}

impl Lookup for Key {
    fn parts(&self) -> (bool, &str) {
        (self.suffix, &self.text)
    }
}

impl Lookup for Borrowed<'_> {
    fn parts(&self) -> (bool, &str) {
        (self.suffix, self.text)
    }
}

impl<'k> std::borrow::Borrow<dyn Lookup + 'k> for Key {
    fn borrow(&self) -> &(dyn Lookup + 'k) {
        self
    }
}

impl std::hash::Hash for dyn Lookup + '_ {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // As derived for `Key`.
        let (suffix, text) = self.parts();
        suffix.hash(state);
        text.hash(state);
    }
}

impl PartialEq for dyn Lookup + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Lookup + '_ {}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(entries: &[(&str, &str)]) -> Names<String> {
        let mut names = Names::default();
        for (name, owner) in entries {
            names.insert(name, &(*owner).into(), &Arc::new((*owner).to_owned()));
        }
        names
    }

    #[test]
    fn the_most_specific_name_wins() {
        let names = names(&[
            ("a.test.com", "exact"),
            ("*.test.com", "wildcard"),
            ("*.b.test.com", "deeper"),
            ("*shop.com", "suffix"),
            ("z.com", "2"),
            ("z.com", "1"),
        ]);
        for (name, expected) in [
            ("a.test.com", Some("exact")),
            ("c.test.com", Some("wildcard")),
            ("test.com", None),
            ("x.b.test.com", Some("deeper")),
            ("x.y.test.com", None),
            ("myshop.com", Some("suffix")),
            ("a.myshop.com", None),
            ("z.com", Some("1")),
            ("", None),
            ("*", None),
        ] {
            assert_eq!(names.find(name).map(|owner| owner.as_str()), expected, "{name}");
        }
    }

    #[test]
    fn a_lone_asterisk_takes_what_is_left() {
        let names = names(&[("*", "any"), ("*.a.com", "wildcard")]);
        for (name, expected) in [("b.a.com", "wildcard"), ("x.y.z", "any"), ("localhost", "any")] {
            assert_eq!(names.find(name).map(|owner| owner.as_str()), Some(expected), "{name}");
        }
    }

    #[test]
    fn a_copy_keeps_what_it_was_taken_with() {
        let mut names = names(&[("a.com", "1"), ("a.com", "2"), ("*.a.com", "1")]);
        let before = names.clone();
        names.remove("a.com", "1");
        names.remove("*.a.com", "1");
        names.remove("never.com", "1");
        assert_eq!(names.find("a.com").map(|owner| owner.as_str()), Some("2"));
        assert_eq!(names.find("b.a.com"), None);
        assert_eq!(before.find("a.com").map(|owner| owner.as_str()), Some("1"));
        assert_eq!(before.find("b.a.com").map(|owner| owner.as_str()), Some("1"));
        names.remove("a.com", "2");
        assert_eq!((names.len, names.find("a.com")), (0, None));
    }
}
