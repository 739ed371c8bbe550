//! Opening a file on trial: what is written stays in memory until it is known that the file is sound.
//!
//! After a crash redb recovers the file, and writes to it, before it can know whether there is anything to recover. A
//! damaged file must stay as it was found: it is the operator's evidence, and may be all that is left.

use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

/// A file that is written to only once it is [kept](Trial::keep). Clones are the same file.
#[derive(Debug, Clone)]
pub(crate) struct Trial(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: FileBackend,
    on_trial: AtomicBool,
    /// What was done on trial, in order: a few writes of a recovery, so looking through all of them is quick.
    done: Mutex<Vec<Done>>,
}

#[derive(Debug)]
enum Done {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
    Sync,
}

impl Trial {
    /// Begins a trial of `file`.
    pub(crate) fn new(file: FileBackend) -> Self {
        Self(Arc::new(Inner { file, on_trial: AtomicBool::new(true), done: Mutex::default() }))
    }

    /// Ends the trial: does to the file what was done on trial, in the same order, so that a crash in between is one
    /// that redb can recover from. From then on the file is written to directly.
    ///
    /// # Errors
    /// When the file can't be written.
    pub(crate) fn keep(&self) -> io::Result<()> {
        let mut done = self.0.done();
        for done in done.drain(..) {
            match done {
                Done::Write { offset, bytes } => self.0.file.write(offset, &bytes)?,
                Done::SetLen(length) => self.0.file.set_len(length)?,
                Done::Sync => self.0.file.sync_data()?,
            }
        }
        self.0.on_trial.store(false, Ordering::Release);
        Ok(())
    }
}

impl Inner {
    fn done(&self) -> std::sync::MutexGuard<'_, Vec<Done>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is done on trial; `None` once the file is kept.
    fn on_trial(&self, done: impl FnOnce() -> Done) -> Option<()> {
        self.on_trial.load(Ordering::Acquire).then(|| self.done().push(done()))
    }
}

impl StorageBackend for Trial {
    fn len(&self) -> io::Result<u64> {
        let length = self.0.file.len()?;
        Ok(self.0.done().iter().fold(length, |length, done| match done {
            Done::SetLen(length) => *length,
            Done::Write { offset, bytes } => length.max(offset + bytes.len() as u64),
            Done::Sync => length,
        }))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if !self.0.on_trial.load(Ordering::Acquire) {
            return self.0.file.read(offset, out);
        }
        if offset.checked_add(out.len() as u64).is_none_or(|end| self.len().is_ok_and(|length| end > length))
        {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let there = self.0.file.len()?.saturating_sub(offset);
        let there = usize::try_from(there).map_or(out.len(), |there| there.min(out.len()));
        let (from_file, beyond) = out.split_at_mut(there);
        if !from_file.is_empty() {
            self.0.file.read(offset, from_file)?;
        }
        beyond.fill(0);
        for done in &*self.0.done() {
            match done {
                Done::Write { offset: at, bytes } => lay_over(out, offset, bytes, *at),
                Done::SetLen(length) => {
                    let kept = usize::try_from(length.saturating_sub(offset)).unwrap_or(out.len());
                    out.iter_mut().skip(kept).for_each(|byte| *byte = 0);
                }
                Done::Sync => {}
            }
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.on_trial(|| Done::SetLen(length)).map_or_else(|| self.0.file.set_len(length), Ok)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.on_trial(|| Done::Sync).map_or_else(|| self.0.file.sync_data(), Ok)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let done = || Done::Write { offset, bytes: data.to_vec() };
        self.0.on_trial(done).map_or_else(|| self.0.file.write(offset, data), Ok)
    }

    fn close(&self) -> io::Result<()> {
        self.0.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.file.query_lock_range(start, end)
    }
}

/// Copies those of `bytes`, which stand at `at`, that fall into `out`, which stands at `offset`.
fn lay_over(out: &mut [u8], offset: u64, bytes: &[u8], at: u64) {
    let (begin, end) = (at.max(offset), (at + bytes.len() as u64).min(offset + out.len() as u64));
    if begin >= end {
        return;
    }
    // Both differences are within a slice's length.
    let place = |from: u64| usize::try_from(begin - from).unwrap_or(usize::MAX);
    let length = usize::try_from(end - begin).unwrap_or(usize::MAX);
    let (target, source) = (out.get_mut(place(offset)..), bytes.get(place(at)..));
    if let (Some(target), Some(source)) = (target, source) {
        target.iter_mut().zip(source).take(length).for_each(|(to, from)| *to = *from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, Vec<u8>),
        SetLen(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let write =
            (0..80u64, prop::collection::vec(1u8.., 1..20)).prop_map(|(at, bytes)| Step::Write(at, bytes));
        prop::collection::vec(prop_oneof![write, (0..100u64).prop_map(Step::SetLen)], 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
        /// On trial it reads as the file would, the file stays as it was, and kept it is what was read.
        #[test]
        fn a_trial_is_what_the_file_would_be(steps in steps(), at in 0..60u64, length in 1..40usize) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("file");
            let before: Vec<u8> = (100..164).collect();
            fs::write(&path, &before).unwrap();
            let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
            let trial = Trial::new(FileBackend::new(file).unwrap());
            let mut model = before.clone();
            for step in &steps {
                match step {
                    Step::Write(at, bytes) => {
                        trial.write(*at, bytes).unwrap();
                        let end = *at as usize + bytes.len();
                        if model.len() < end {
                            model.resize(end, 0);
                        }
                        model[*at as usize..end].copy_from_slice(bytes);
                    }
                    Step::SetLen(length) => {
                        trial.set_len(*length).unwrap();
                        model.resize(*length as usize, 0);
                    }
                }
            }
            prop_assert_eq!(trial.len().unwrap(), model.len() as u64);
            let mut out = vec![0xee; length];
            let read = trial.read(at, &mut out).is_ok().then_some(&out[..]);
            prop_assert_eq!(read, model.get(at as usize..at as usize + length));
            prop_assert_eq!(&fs::read(&path).unwrap(), &before);
            trial.keep().unwrap();
            prop_assert_eq!(&fs::read(&path).unwrap(), &model);
            let mut whole = vec![0; model.len()];
            trial.read(0, &mut whole).unwrap();
            prop_assert_eq!(whole, model);
        }
    }
}
