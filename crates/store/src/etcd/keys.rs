//! Between the store's keys and those in etcd: `/routes/1` is `/apisix/routes/1` there, as APISIX has it.

use std::sync::Arc;

use super::message::KeyValue;
use crate::limits::VALUE_BYTES_MAX;
use crate::txn::check_key;
use crate::{Change, Entry};

/// What APISIX writes where a directory begins.
const DIRECTORY: &[u8] = b"init_dir";

/// The part of etcd that is the store, and the part beside it that is Tidegate's own.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    /// `/apisix`
    prefix: String,
    /// `/tidegate/apisix`
    own: String,
}

impl Keys {
    /// For a prefix without a slash at its end.
    pub(crate) fn new(prefix: &str) -> Self {
        let prefix = prefix.trim_end_matches('/').to_owned();
        let own = format!("/tidegate{prefix}");
        Self { prefix, own }
    }

    /// A store key in etcd.
    pub(crate) fn to_etcd(&self, key: &str) -> Vec<u8> {
        [self.prefix.as_bytes(), key.as_bytes()].concat()
    }

    /// First key and end of the store's keys that begin with `prefix`; of all where it is empty.
    pub(crate) fn range(&self, prefix: &str) -> (Vec<u8>, Vec<u8>) {
        // `/apisix2` is somebody else's.
        let first = self.to_etcd(if prefix.is_empty() { "/" } else { prefix });
        let end = after(&first);
        (first, end)
    }

    /// A store key of what stands in etcd; `None` for what can't be one.
    pub(crate) fn to_store<'k>(&self, key: &'k [u8]) -> Option<&'k str> {
        let key = std::str::from_utf8(key.strip_prefix(self.prefix.as_bytes())?).ok()?;
        check_key(key).is_ok().then_some(key)
    }

    /// A key of Tidegate's own.
    pub(crate) fn own(&self, name: &str) -> Vec<u8> {
        format!("{}/{name}", self.own).into_bytes()
    }

    /// The entry that stands in etcd; `None` for APISIX's marks of directories and for what no gateway can have
    /// written, which are nobody's configuration.
    pub(crate) fn entry(&self, kv: &KeyValue) -> Option<Entry> {
        let Some(key) = self.to_store(&kv.key) else {
            tracing::warn!(key = %kv.key.escape_ascii(), "a key in etcd is skipped: it can be no resource's");
            return None;
        };
        if key.ends_with('/') && &kv.value[..] == DIRECTORY {
            return None;
        }
        if kv.value.len() > VALUE_BYTES_MAX {
            tracing::warn!(key, bytes = kv.value.len(), "a value in etcd is skipped: it is too large");
            return None;
        }
        Some(Entry {
            key: key.into(),
            value: Arc::from(&kv.value[..]),
            create_revision: revision(kv.create_revision),
            mod_revision: revision(kv.mod_revision),
            expires_at_ms: None,
        })
    }

    /// What an event means for the store. A value that is skipped counts as gone: what was there before it is.
    pub(crate) fn change(&self, deleted: bool, kv: &KeyValue) -> Option<Change> {
        let key = self.to_store(&kv.key)?;
        match (deleted, self.entry(kv)) {
            (false, Some(entry)) => Some(Change::Put(entry)),
            (false, None) if key.ends_with('/') => None,
            _ => Some(Change::Delete { key: key.into(), revision: revision(kv.mod_revision) }),
        }
    }
}

/// etcd's signed revisions, which are never negative.
pub(crate) fn revision(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}

/// A revision for etcd. One that no `i64` holds has not happened.
pub(crate) fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

/// The first key after all that begin with `prefix`.
pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    // etcd's word for "to the very end".
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(key: &[u8], value: &'static [u8]) -> KeyValue {
        KeyValue { key: key.to_vec(), create_revision: 3, mod_revision: 4, value: value.into() }
    }

    #[test]
    fn keys_map_to_apisixs_and_back() {
        let keys = Keys::new("/apisix/");
        assert_eq!(keys.to_etcd("/routes/1"), b"/apisix/routes/1");
        assert_eq!(keys.to_store(b"/apisix/routes/1"), Some("/routes/1"));
        assert_eq!(keys.range(""), (b"/apisix/".to_vec(), b"/apisix0".to_vec()));
        assert_eq!(keys.range("/routes/"), (b"/apisix/routes/".to_vec(), b"/apisix/routes0".to_vec()));
        assert_eq!(keys.own("log/1"), b"/tidegate/apisix/log/1");
        assert_eq!(after(&[7, 255, 255]), [8]);
        assert_eq!(after(&[255]), [0]);
    }

    #[test]
    fn what_is_no_resource_is_skipped() {
        let keys = Keys::new("/apisix");
        for (key, value, is_entry) in [
            (&b"/apisix/routes/1"[..], &b"{}"[..], true),
            (b"/apisix/routes/", b"init_dir", false),
            (b"/apisix/routes/\xff", b"{}", false),
            (b"/apisix/a\nb", b"{}", false),
            (b"/other/routes/1", b"{}", false),
            (b"/apisix/broken", b"{", true),
        ] {
            assert_eq!(keys.entry(&kv(key, value)).is_some(), is_entry, "{}", key.escape_ascii());
        }
        assert!(keys.change(false, &kv(b"/apisix/routes/", b"init_dir")).is_none());
        assert!(matches!(
            keys.change(true, &kv(b"/apisix/routes/1", b"")),
            Some(Change::Delete { revision: 4, .. })
        ));
    }
}
