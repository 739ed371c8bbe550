//! Opening the file: whose it is, whether it is sound, and how a new one comes to be.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::backends::{FileBackend, InMemoryBackend};
use redb::{Builder, Database, Durability, ReadableDatabase, TableError, WriteTransaction};

use super::fault::{Fault, damaged_by_panic};
use super::tables::{Counters, LAYOUT, META, META_LAYOUT, Tables};
use super::trial::Trial;
use crate::StoreError;
use crate::limits::CACHE_BYTES;

/// Owner only: values hold keys, passwords and certificates.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// How a redb file begins.
const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";

/// The right to use the store at a path, held as long as this lives; a killed process gives it back.
///
/// redb locks its file as well. This lock stands before it so that creating the file is exclusive too, and because a
/// file of our own can name its holder.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock beside `path`, and creates the directory.
    pub(crate) fn take(path: &Path) -> Result<Self, StoreError> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            DirBuilder::new()
                .recursive(true)
                .mode(DIRECTORY_MODE)
                .create(directory)
                .map_err(|error| io_error(directory, &error))?;
        }
        let lock_path = path.with_added_extension("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(&lock_path)
            .map_err(|error| io_error(&lock_path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who holds it is a courtesy; the refusal stands without it.
                let _ = file.read_to_string(&mut holder);
                return Err(StoreError::Locked { path: path.to_owned(), holder: holder.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(io_error(&lock_path, &error)),
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|error| io_error(&lock_path, &error))?;
        Ok(Self { _file: file })
    }
}

/// Opens the store's file, or creates it if there is none. The caller holds the [`Lock`].
pub(crate) fn open_or_create(path: &Path) -> Result<Database, StoreError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => guarded(path, create),
        _ => open(path),
    }
}

/// Opens the store's file, which must be there. The caller holds the [`Lock`].
pub(crate) fn open(path: &Path) -> Result<Database, StoreError> {
    guarded(path, existing)
}

/// redb reports damage as an error where it looks for it, and panics in some places where it doesn't.
fn guarded(path: &Path, work: fn(&Path) -> Result<Database, Fault>) -> Result<Database, StoreError> {
    match catch_unwind(AssertUnwindSafe(|| work(path))) {
        Ok(result) => result.map_err(|fault| fault.at(path)),
        Err(panic) => Err(damaged_by_panic(path, &*panic)),
    }
}

/// Begins a transaction that is on the medium when it is committed.
///
/// Two-phase: with redb's default a commit is valid if its checksums are, so a damaged page of the newest commit
/// would silently bring back the one before it, an acknowledged write lost. It costs a second fsync.
pub(crate) fn begin_write(database: &Database) -> Result<WriteTransaction, Fault> {
    let mut txn = database.begin_write()?;
    txn.set_two_phase_commit(true);
    txn.set_durability(Durability::Immediate)
        .map_err(|error| StoreError::Unavailable(format!("no durable commit: {error:?}")))?;
    Ok(txn)
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    // The check reads the whole file, some 0.3 s for 100,000 routes. Without it damage shows as a panic much later.
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    builder
}

fn existing(path: &Path) -> Result<Database, Fault> {
    check_magic(path)?;
    keep_private(path);
    let file =
        OpenOptions::new().read(true).write(true).open(path).map_err(|error| io_error(path, &error))?;
    let trial = Trial::new(FileBackend::new(file)?);
    let database = builder().create_with_backend(trial.clone())?;
    let foreign = |detail: &str| StoreError::Foreign { path: path.to_owned(), detail: detail.to_owned() };
    let layout = match database.begin_read()?.open_table(META) {
        Ok(meta) => meta.get(META_LAYOUT)?.map(|guard| guard.value()),
        Err(TableError::Storage(error)) => return Err(error.into()),
        Err(_) => None,
    };
    match layout {
        None | Some(0) => Err(foreign("a redb database of another program").into()),
        Some(found) if found > LAYOUT => {
            Err(StoreError::Newer { path: path.to_owned(), found, supported: LAYOUT }.into())
        }
        Some(_) => {
            trial.keep().map_err(|error| io_error(path, &error))?;
            Ok(database)
        }
    }
}

/// Tells a file that never was a store from one that was: redb's own words don't.
fn check_magic(path: &Path) -> Result<(), StoreError> {
    let mut head = Vec::with_capacity(MAGIC.len());
    let file = File::open(path).map_err(|error| io_error(path, &error))?;
    if !file.metadata().map_err(|error| io_error(path, &error))?.is_file() {
        return Err(StoreError::Foreign { path: path.to_owned(), detail: "not a regular file".to_owned() });
    }
    file.take(MAGIC.len() as u64).read_to_end(&mut head).map_err(|error| io_error(path, &error))?;
    if head == MAGIC {
        return Ok(());
    }
    // An emptied or zeroed file once was a store more likely than not.
    if head.iter().all(|&byte| byte == 0) {
        return Err(StoreError::Damaged {
            path: path.to_owned(),
            detail: "its beginning is empty".to_owned(),
        });
    }
    Err(StoreError::Foreign { path: path.to_owned(), detail: "it does not begin like one".to_owned() })
}

/// A backup put back by hand often comes with wider permissions.
fn keep_private(path: &Path) {
    let tightened = fs::metadata(path).and_then(|metadata| {
        if metadata.permissions().mode() & 0o077 == 0 {
            return Ok(());
        }
        tracing::warn!(path = %path.display(), "the store was readable by others; it is now the owner's alone");
        fs::set_permissions(path, Permissions::from_mode(FILE_MODE))
    });
    if let Err(error) = tightened {
        tracing::warn!(path = %path.display(), %error, "the store's permissions can't be narrowed");
    }
}

/// A new store appears under its name only when it is complete, so that a crash in between leaves no half of one that
/// the next start would have to call damaged.
fn create(path: &Path) -> Result<Database, Fault> {
    let draft: PathBuf = path.with_added_extension("new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(&draft, &error).into()),
        _ => {}
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(&draft)
        .map_err(|error| io_error(&draft, &error))?;
    let database = builder().create_with_backend(FileBackend::new(file)?)?;
    begin(&database)?;
    fs::rename(&draft, path).map_err(|error| io_error(path, &error))?;
    let directory =
        path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The name is durable with the directory, not with the file.
    File::open(directory).and_then(|open| open.sync_all()).map_err(|error| io_error(directory, &error))?;
    Ok(database)
}

/// A store that lives as long as the process.
pub(crate) fn in_memory(name: &Path) -> Result<Database, StoreError> {
    let make = || -> Result<Database, Fault> {
        let database = builder().create_with_backend(InMemoryBackend::new())?;
        begin(&database)?;
        Ok(database)
    };
    make().map_err(|fault| fault.at(name))
}

/// Writes what makes an empty database an empty store.
fn begin(database: &Database) -> Result<(), Fault> {
    let txn = begin_write(database)?;
    {
        let mut tables = Tables::open(&txn)?;
        tables.meta.insert(META_LAYOUT, LAYOUT)?;
        Counters { revision: 0, compacted: 0, history_bytes: 0 }.write(&mut tables.meta)?;
    }
    txn.commit()?;
    Ok(())
}

fn io_error(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io { path: path.to_owned(), detail: error.to_string() }
}
