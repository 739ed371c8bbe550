//! A place with a name and a size where entries are kept.

use crate::changes::Changes;
use crate::disk::{Disk, Proof};
use crate::fetch::{Fetches, Signal, locked};
use crate::index::Index;
use crate::{Entry, Fetch, Landing, Message, VARIANTS_MAX, ZoneSpec};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What an entry takes in memory besides its bytes: maps, counts, the entry's own fields.
const OVERHEAD_BYTES: u64 = 512;

/// How long a start waits for what is found again on disk: enough for some ten thousand files.
const TAKE_OVER: Duration = Duration::from_secs(1);

/// A zone. All workers share it: one lock, held for a look into a table; nothing is read, written or sent under it.
pub struct Zone {
    index: Mutex<Index<Variants>>,
    changes: Changes,
    fetches: Arc<Fetches>,
    disk: Option<Disk>,
}

/// The entries of one key, for requests that differ in what `Vary` names.
type Variants = Vec<Kept>;

#[derive(Clone)]
struct Kept {
    key: Arc<[u8]>,
    entry: Arc<Entry>,
    place: Place,
    weight: u64,
}

#[derive(Clone)]
enum Place {
    Memory(Message),
    Disk(Arc<Proof>),
}

/// What a zone has for a request.
pub enum Found {
    /// Nothing.
    Nothing,
    /// An entry.
    Ready(Arc<Entry>, Message),
    /// An entry that has to be read: `None` when that turns out to be damaged.
    Reading(Arc<Entry>, Pin<Box<dyn Future<Output = Option<Message>>>>),
}

impl Zone {
    /// The zone that `spec` describes. What an earlier process left on disk is found again, on a thread of the zone.
    ///
    /// # Errors
    /// When its folder can't be used.
    pub fn open(spec: &ZoneSpec) -> io::Result<Arc<Self>> {
        let count = |bytes: u64| usize::try_from(bytes / OVERHEAD_BYTES).unwrap_or(usize::MAX);
        let (weight_max, disk) = match &spec.disk {
            None => (spec.memory_bytes, None),
            Some(disk) => (disk.bytes, Some(Disk::open(&disk.path, &disk.levels)?)),
        };
        let index = Mutex::new(Index::new(weight_max, count(spec.memory_bytes)));
        let zone = Arc::new(Self { index, changes: Changes::new(), fetches: Arc::default(), disk });
        let (done, taken_over) = sync_channel(1);
        if zone.with_disk(move |zone, disk| {
            zone.take_over(disk);
            // Nobody may be waiting any more.
            let _ = done.try_send(());
        }) {
            // What takes longer goes on meanwhile; what is not found yet is fetched.
            let _ = taken_over.recv_timeout(TAKE_OVER);
        }
        Ok(zone)
    }

    /// What there is for a request for `uri` with this key whose fields `field` gives.
    pub fn find<V: AsRef<[u8]>>(
        self: &Arc<Self>,
        key: &[u8],
        uri: &[u8],
        field: impl Fn(&str) -> Option<V>,
    ) -> Found {
        let mut index = locked(&self.index);
        let variants = index.get(key);
        let kept = variants.and_then(|all| all.iter().find(|kept| kept.entry.answers(&field))).cloned();
        drop(index);
        match kept {
            None => Found::Nothing,
            Some(Kept { entry, .. }) if self.changes.since(uri, entry.generation) => {
                self.remove(key, &entry);
                Found::Nothing
            }
            Some(Kept { entry, place: Place::Memory(message), .. }) => Found::Ready(entry, message),
            Some(Kept { entry, place: Place::Disk(proof), .. }) => {
                let reading = self.read(key, &entry, proof);
                Found::Reading(entry, reading)
            }
        }
    }

    /// Keeps an entry, in place of the one for the same requests. `fetch` ends when it can be found.
    pub fn keep(self: &Arc<Self>, key: &[u8], entry: Entry, message: Message, fetch: Option<Fetch>) {
        let entry = Arc::new(entry);
        if self.disk.is_none() {
            let weight = (key.len() + message.head.len()) as u64 + message.body.length() + OVERHEAD_BYTES;
            self.insert(Kept { key: key.into(), entry, place: Place::Memory(message), weight });
            return;
        }
        let key: Arc<[u8]> = key.into();
        self.with_disk(move |zone, disk| {
            match disk.write(&key, &entry, &message) {
                Ok((weight, proof)) => {
                    zone.insert(Kept { key, entry, place: Place::Disk(Arc::new(proof)), weight });
                }
                Err(error) => tracing::error!(%error, folder = ?disk, "a response can't be kept on disk"),
            }
            drop(fetch);
        });
    }

    /// Forgets all entries of a key; whether there were any.
    pub fn purge(self: &Arc<Self>, key: &[u8]) -> bool {
        let gone = locked(&self.index).remove(key);
        let found = gone.is_some();
        self.discard(gone.unwrap_or_default());
        found
    }

    /// The generation that an entry belongs to whose upstream is asked now.
    pub fn generation(&self) -> u64 {
        self.changes.generation()
    }

    /// What `uri` names has been changed: entries fetched for it so far, and those under way, answer nobody any longer
    /// (RFC 9111 section 4.4), whatever their keys.
    pub fn invalidate(&self, uri: &[u8]) {
        self.changes.note(uri);
    }

    /// Forgets one entry that turned out to be of no use.
    pub fn remove(self: &Arc<Self>, key: &[u8], entry: &Arc<Entry>) {
        let gone = self.forget(key, entry);
        self.discard(gone);
    }

    /// The right to fetch what `key` names, or what to wait for where somebody else does.
    ///
    /// # Errors
    /// Where somebody else fetches it.
    pub fn fetch(&self, key: &[u8]) -> Result<Fetch, Landing> {
        self.fetches.begin(key)
    }

    fn read(
        self: &Arc<Self>,
        key: &[u8],
        entry: &Arc<Entry>,
        proof: Arc<Proof>,
    ) -> Pin<Box<dyn Future<Output = Option<Message>>>> {
        let (signal, place) = (Arc::new(Signal::default()), Arc::new(Mutex::new(None)));
        let key: Arc<[u8]> = key.into();
        let (read_key, read_entry) = (Arc::clone(&key), Arc::clone(entry));
        let (raised, filled) = (Arc::clone(&signal), Arc::clone(&place));
        let begun = self.with_disk(move |zone, disk| {
            let message = disk.read(&read_key, &read_entry, &proof);
            if message.is_none() {
                tracing::warn!(folder = ?disk, "a response on disk is damaged or gone: it is fetched anew");
                zone.forget(&read_key, &read_entry);
            }
            *locked(&filled) = message;
            raised.raise();
        });
        Box::pin(async move {
            if begun {
                Landing(signal).await;
            }
            locked(&place).take()
        })
    }

    /// Takes one entry out that turned out to be of no use.
    fn forget(&self, key: &[u8], entry: &Arc<Entry>) -> Variants {
        let mut index = locked(&self.index);
        let Some(variants) = index.remove(key) else { return Variants::new() };
        let (gone, stays): (Variants, Variants) =
            variants.into_iter().partition(|kept| Arc::ptr_eq(&kept.entry, entry));
        if !stays.is_empty() {
            let weight = stays.iter().map(|kept| kept.weight).sum();
            index.put(key, stays, weight);
        }
        gone
    }

    fn insert(self: &Arc<Self>, kept: Kept) {
        let names = |entry: &Entry| entry.vary.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let key = Arc::clone(&kept.key);
        let mut index = locked(&self.index);
        let variants = index.remove(&key).unwrap_or_default();
        // Where the response varies by other fields than before, one couldn't tell which of them answers.
        let (mut gone, mut stays): (Variants, Variants) =
            variants.into_iter().partition(|old| names(&old.entry) != names(&kept.entry));
        // Its place in memory, or its file, is the new one's.
        stays.retain(|old| old.entry.vary != kept.entry.vary);
        if stays.len() >= VARIANTS_MAX {
            gone.push(stays.remove(0));
        }
        stays.push(kept);
        let weight = stays.iter().map(|kept| kept.weight).sum();
        gone.extend(index.put(&key, stays, weight).into_iter().flatten());
        drop(index);
        self.discard(gone);
    }

    /// Deletes the files of entries that are kept no longer.
    fn discard(self: &Arc<Self>, gone: Variants) {
        if !gone.is_empty() {
            self.with_disk(move |_, disk| gone.iter().for_each(|kept| disk.delete(&kept.key, &kept.entry)));
        }
    }

    /// Finds again what an earlier process left on disk; what was written meanwhile is newer.
    fn take_over(self: &Arc<Self>, disk: &Disk) {
        for (about, weight) in disk.inventory() {
            let present = locked(&self.index)
                .get(&about.key)
                .is_some_and(|variants| variants.iter().any(|kept| kept.entry.vary == about.entry.vary));
            if !present {
                let (key, entry) = (about.key.into(), Arc::new(about.entry));
                self.insert(Kept { key, entry, place: Place::Disk(Arc::default()), weight });
            }
        }
    }

    /// Runs `job` on a thread of the zone's, where it has a disk; whether it will run.
    fn with_disk(self: &Arc<Self>, job: impl FnOnce(&Arc<Self>, &Disk) + Send + 'static) -> bool {
        let zone = Arc::clone(self);
        self.disk.as_ref().is_some_and(|disk| {
            disk.run(move || {
                if let Some(disk) = &zone.disk {
                    job(&zone, disk);
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskSpec;
    use std::path::Path;
    use std::task::{Context, Poll, Waker};
    use std::time::Instant;

    fn memory(bytes: u64) -> Arc<Zone> {
        Zone::open(&ZoneSpec { name: "m".to_owned(), memory_bytes: bytes, disk: None }).unwrap()
    }

    fn disk(path: &Path, bytes: u64) -> Arc<Zone> {
        let disk = DiskSpec { path: path.to_owned(), bytes, levels: vec![1, 2] };
        Zone::open(&ZoneSpec { name: "d".to_owned(), memory_bytes: 1 << 20, disk: Some(disk) }).unwrap()
    }

    fn entry(vary: &[(&str, Option<&str>)]) -> Entry {
        let own = |(name, value): &(&str, Option<&str>)| {
            ((*name).to_owned(), value.map(|value| value.as_bytes().to_vec()))
        };
        Entry {
            status: 200,
            made_ms: 1,
            lifetime_ms: 2,
            while_revalidating_ms: 0,
            if_error_ms: 0,
            must_revalidate: false,
            etag: None,
            last_modified: None,
            generation: 0,
            vary: vary.iter().map(own).collect(),
        }
    }

    fn message(body: &str) -> Message {
        Message { head: b"HTTP/1.1 200 OK\r\n\r\n"[..].into(), body: body.as_bytes().to_vec().into() }
    }

    /// The body that a request with these values gets, once what has to be read is read.
    fn body(zone: &Arc<Zone>, key: &[u8], accept: Option<&'static str>) -> Option<String> {
        let field = |name: &str| accept.filter(|_| name == "accept").map(str::as_bytes);
        let message = match zone.find(key, b"/", field) {
            Found::Nothing => return None,
            Found::Ready(_, message) => message,
            Found::Reading(_, mut reading) => loop {
                match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(message) => break message?,
                    Poll::Pending => std::thread::yield_now(),
                }
            },
        };
        let bytes = message.body.piece(0, &mut []).unwrap();
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// Waits for the zone's threads.
    fn eventually(what: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !what() {
            assert!(Instant::now() < deadline, "it does not come true");
            std::thread::yield_now();
        }
    }

    #[test]
    fn variants_of_a_key_stand_side_by_side() {
        let zone = memory(1 << 20);
        zone.keep(b"k", entry(&[("accept", Some("a"))]), message("1"), None);
        zone.keep(b"k", entry(&[("accept", None)]), message("2"), None);
        assert_eq!(body(&zone, b"k", Some("a")).as_deref(), Some("1"));
        assert_eq!(body(&zone, b"k", None).as_deref(), Some("2"));
        assert_eq!(body(&zone, b"k", Some("b")), None);
        zone.keep(b"k", entry(&[("accept", None)]), message("3"), None);
        assert_eq!(body(&zone, b"k", None).as_deref(), Some("3"));
        // It varies no longer: the others would hide this one.
        zone.keep(b"k", entry(&[]), message("4"), None);
        assert_eq!(body(&zone, b"k", Some("a")).as_deref(), Some("4"));
        for number in 0..=VARIANTS_MAX {
            let value = number.to_string();
            zone.keep(b"v", entry(&[("accept", Some(&value))]), message(&value), None);
        }
        assert_eq!((body(&zone, b"v", Some("0")), body(&zone, b"v", Some("1")).is_some()), (None, true));
        assert!(zone.purge(b"k") && !zone.purge(b"k"));
    }

    #[test]
    fn a_changed_uri_is_fetched_again_whatever_the_key() {
        let zone = memory(1 << 20);
        let before = zone.generation();
        for key in [b"a", b"b"] {
            zone.keep(key, entry(&[]), message("old"), None);
        }
        zone.invalidate(b"/other");
        assert_eq!(body(&zone, b"a", None).as_deref(), Some("old"));
        zone.invalidate(b"/");
        assert_eq!((body(&zone, b"a", None), body(&zone, b"b", None)), (None, None));
        // Asked for before the change, and here only now.
        zone.keep(b"a", Entry { generation: before, ..entry(&[]) }, message("late"), None);
        assert_eq!(body(&zone, b"a", None), None);
        zone.keep(b"a", Entry { generation: zone.generation(), ..entry(&[]) }, message("new"), None);
        assert_eq!(body(&zone, b"a", None).as_deref(), Some("new"));
    }

    #[test]
    fn a_zone_holds_no_more_than_its_size() {
        let zone = memory(3 * (OVERHEAD_BYTES + 200));
        for key in [b"a", b"b", b"c", b"d"] {
            zone.keep(key, entry(&[]), message(&"x".repeat(100)), None);
        }
        assert_eq!((body(&zone, b"a", None), body(&zone, b"d", None).is_some()), (None, true));
        zone.keep(b"e", entry(&[]), message(&"x".repeat(10_000)), None);
        assert_eq!(body(&zone, b"e", None), None);
    }

    #[test]
    fn what_is_on_disk_is_found_after_a_restart_unless_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("zone");
        let zone = disk(&root, 1 << 20);
        let fetch = zone.fetch(b"a").unwrap();
        zone.keep(b"a", entry(&[]), message("one"), Some(fetch));
        eventually(|| zone.fetch(b"a").is_ok());
        assert_eq!(body(&zone, b"a", None).as_deref(), Some("one"));
        zone.keep(b"b", entry(&[("accept", Some("x"))]), message("two"), None);
        eventually(|| body(&zone, b"b", Some("x")).is_some());
        std::fs::write(root.join(".writing-1-x"), "half").unwrap();
        drop(zone);

        let zone = disk(&root, 1 << 20);
        eventually(|| body(&zone, b"b", Some("x")).as_deref() == Some("two"));
        eventually(|| !root.join(".writing-1-x").exists());
        let disk = zone.disk.as_ref().unwrap();
        let mut files = Vec::new();
        for level in std::fs::read_dir(&root).unwrap().flatten() {
            for below in std::fs::read_dir(level.path()).unwrap().flatten() {
                files.extend(std::fs::read_dir(below.path()).unwrap().flatten().map(|file| file.path()));
            }
        }
        assert_eq!((files.len(), disk.inventory().len()), (2, 2));
        for file in &files {
            let mut bytes = std::fs::read(file).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::write(file, bytes).unwrap();
        }
        eventually(|| body(&zone, b"a", None).is_none());
        assert!(zone.purge(b"b"));
        eventually(|| disk.inventory().len() == 1);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let spec = DiskSpec { path: folder.path().to_owned(), bytes: 1, levels: vec![] };
        assert!(Zone::open(&ZoneSpec { name: "d".to_owned(), memory_bytes: 1, disk: Some(spec) }).is_err());
    }
}
