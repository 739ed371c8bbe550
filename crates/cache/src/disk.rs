//! A zone's folder, and the threads that read and write it: no worker ever waits for a disk.

use crate::fetch::locked;
use crate::file::{self, About, Stamp};
use crate::{Entry, Message};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// Threads of a zone: while one waits for the disk, the other goes on.
const THREADS: usize = 2;

/// Jobs that wait. Where the disk can't keep up, responses are not kept, and those on it are fetched anew.
const JOBS_MAX: usize = 1024;

/// How the name of a file begins that is still being written.
const UNFINISHED: &str = ".writing-";

type Job = Box<dyn FnOnce() + Send>;

/// A folder of entries.
#[derive(Debug)]
pub(crate) struct Disk {
    root: PathBuf,
    /// How many characters of a file's name, from its end, name each folder above it: nginx's `levels`.
    levels: Vec<usize>,
    jobs: SyncSender<Job>,
    /// Writes begun: two of the same entry at one time are two files until each is whole.
    writes: AtomicU64,
}

/// Which state of an entry's file has been found sound: what was checked once need not be read again to be sent.
#[derive(Debug, Default)]
pub(crate) struct Proof(Mutex<Option<Stamp>>);

impl Disk {
    /// The folder at `root`, made where there is none.
    ///
    /// # Errors
    /// When it can't be made, or others may write to it.
    pub(crate) fn open(root: &Path, levels: &[usize]) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        let (folder, own) = (fs::metadata(root)?, fs::metadata("/proc/self")?);
        // What others put there would be sent to clients.
        if folder.uid() != own.uid() || folder.mode() & 0o022 != 0 {
            let message = "the folder belongs to somebody else, or others may write to it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        let (jobs, waiting) = sync_channel::<Job>(JOBS_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..THREADS {
            let waiting = Arc::clone(&waiting);
            std::thread::Builder::new().name(format!("cache-{number}")).spawn(move || work(&waiting))?;
        }
        Ok(Self { root: root.to_owned(), levels: levels.to_vec(), jobs, writes: AtomicU64::new(0) })
    }

    /// Does something on a thread of the zone, if one gets to it in time; whether it will.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.jobs.try_send(Box::new(job)).is_ok()
    }

    /// Writes an entry: a reader finds the old file or the whole new one. How long it is, and that it is sound.
    pub(crate) fn write(&self, key: &[u8], entry: &Entry, message: &Message) -> io::Result<(u64, Proof)> {
        let name = file::name(key, entry);
        let about = About { key: key.to_vec(), entry: entry.clone() };
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.root.join(format!("{UNFINISHED}{}-{number}", std::process::id()));
        let path = self.path(&name);
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let write = || {
            let mut file = File::create(&unfinished)?;
            file::write(&mut file, &about, message)?;
            fs::rename(&unfinished, &path)?;
            Stamp::of(&file)
        };
        let written = write();
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written.map(|stamp| (stamp.length(), Proof(Mutex::new(Some(stamp)))))
    }

    /// Reads an entry's message; `None` where its file is gone, damaged or another's. A file that is not as it was when
    /// it was written or last checked is checked whole.
    pub(crate) fn read(&self, key: &[u8], entry: &Entry, proof: &Proof) -> Option<Message> {
        let file = File::open(self.path(&file::name(key, entry))).ok()?;
        let stamp = Stamp::of(&file).ok()?;
        let known = *locked(&proof.0);
        let (about, message) = file::read(file, stamp, known == Some(stamp))?;
        *locked(&proof.0) = Some(stamp);
        (about.key == key && about.entry == *entry).then_some(message)
    }

    /// Deletes an entry's file.
    pub(crate) fn delete(&self, key: &[u8], entry: &Entry) {
        let _ = fs::remove_file(self.path(&file::name(key, entry)));
    }

    /// What is there, with each file's length, the one written first first. What is no entry's file is left alone; what is
    /// a broken one's is deleted.
    pub(crate) fn inventory(&self) -> Vec<(About, u64)> {
        let mut files = Vec::new();
        self.look_through(&self.root, 0, &mut files);
        files.sort_by_key(|(modified, ..)| *modified);
        files.into_iter().map(|(_, about, length)| (about, length)).collect()
    }

    fn look_through(&self, folder: &Path, depth: usize, files: &mut Vec<(SystemTime, About, u64)>) {
        for item in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (name, path) = (item.file_name(), item.path());
            let Some(name) = name.to_str() else { continue };
            let Ok(metadata) = item.metadata() else { continue };
            if metadata.is_dir() && depth < self.levels.len() {
                self.look_through(&path, depth + 1, files);
            } else if metadata.is_file() && depth == 0 && name.starts_with(UNFINISHED) {
                let _ = fs::remove_file(&path);
            } else if metadata.is_file() && is_name(name) {
                let about = File::open(&path).ok().and_then(|mut file| file::peek(&mut file, metadata.len()));
                match about.filter(|about| path == self.path(&file::name(&about.key, &about.entry))) {
                    Some(about) => {
                        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                        files.push((modified, about, metadata.len()));
                    }
                    None => drop(fs::remove_file(&path)),
                }
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        let mut path = self.root.clone();
        let mut end = name.len();
        for level in &self.levels {
            let start = end.saturating_sub(*level);
            path.push(&name[start..end]);
            end = start;
        }
        path.push(name);
        path
    }
}

fn is_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    loop {
        let job = locked(waiting).recv();
        match job {
            Ok(job) => job(),
            // The zone is gone.
            Err(_) => return,
        }
    }
}
