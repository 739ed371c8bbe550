//! What stops a piece of work on the file, before it is known to whom it is told.

use std::any::Any;
use std::io::ErrorKind;
use std::path::Path;

use crate::StoreError;

/// Either the engine's failure or an answer that is itself an error.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The engine failed. Boxed: it is large, and rare.
    Engine(Box<redb::Error>),
    /// The work is done, and its result is a refusal.
    Answer(StoreError),
}

impl Fault {
    /// The error that callers see, for the store at `path`.
    pub(crate) fn at(self, path: &Path) -> StoreError {
        let engine = match self {
            Self::Answer(error) => return error,
            Self::Engine(engine) => engine,
        };
        let path = path.to_owned();
        match *engine {
            // The file ends before what its header promises.
            redb::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
                StoreError::Damaged { path, detail: "it is cut off".to_owned() }
            }
            redb::Error::Io(error) => StoreError::Io { path, detail: error.to_string() },
            redb::Error::DatabaseAlreadyOpen => StoreError::Locked { path, holder: None },
            redb::Error::DatabaseClosed | redb::Error::PreviousIo => {
                StoreError::Unavailable(format!("{}: {engine}", path.display()))
            }
            redb::Error::UpgradeRequired(_) => StoreError::Foreign { path, detail: engine.to_string() },
            _ => StoreError::Damaged { path, detail: engine.to_string() },
        }
    }
}

/// redb trusts what its checksums have proved; a page that changes under it afterwards may make it panic. What it
/// says then is the detail of [`StoreError::Damaged`].
pub(crate) fn damaged_by_panic(path: &Path, panic: &(dyn Any + Send)) -> StoreError {
    let words =
        panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    StoreError::Damaged { path: path.to_owned(), detail: words.unwrap_or("unreadable page").to_owned() }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Answer(error)
    }
}

impl From<redb::Error> for Fault {
    fn from(error: redb::Error) -> Self {
        Self::Engine(Box::new(error))
    }
}

impl From<redb::StorageError> for Fault {
    fn from(error: redb::StorageError) -> Self {
        redb::Error::from(error).into()
    }
}

impl From<redb::TableError> for Fault {
    fn from(error: redb::TableError) -> Self {
        redb::Error::from(error).into()
    }
}

impl From<redb::TransactionError> for Fault {
    fn from(error: redb::TransactionError) -> Self {
        redb::Error::from(error).into()
    }
}

impl From<redb::CommitError> for Fault {
    fn from(error: redb::CommitError) -> Self {
        redb::Error::from(error).into()
    }
}

impl From<redb::DatabaseError> for Fault {
    fn from(error: redb::DatabaseError) -> Self {
        redb::Error::from(error).into()
    }
}
