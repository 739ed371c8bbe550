//! Opening files below a folder, and nowhere else.

use model::resource::Symlinks;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use stdx::Folders;

/// A folder whose files are served. Looked up anew for each file that is opened, so that a folder which was replaced
/// as a whole (a deployment by renaming) is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    folder: PathBuf,
    symlinks: Symlinks,
    /// Nothing outside of these is served, wherever the folder or a link leads.
    allowed: Folders,
}

/// What a path led to.
#[derive(Debug)]
pub struct Opened {
    /// The open file or folder.
    pub file: File,
    /// Whether it is a folder.
    pub folder: bool,
    /// What makes it this file and this content.
    pub identity: Identity,
}

/// Changes when a file's content does, as far as a file system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The file system.
    pub device: u64,
    /// The file there.
    pub inode: u64,
    /// Its length in bytes.
    pub length: u64,
    /// When it was written, in seconds since 1970.
    pub modified_s: i64,
    /// And the nanoseconds within that second.
    pub modified_ns: u64,
}

/// How files are opened: never waiting for a writer of a FIFO, never becoming the terminal of this process.
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl Root {
    /// The root at `folder`, which must be absolute; it need not exist yet. Files outside of `allowed` are not found.
    #[must_use]
    pub fn new(folder: PathBuf, symlinks: Symlinks, allowed: Folders) -> Self {
        Self { folder, symlinks, allowed }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens the file or folder at `path`, which [`crate::path::below_root`] gave.
    ///
    /// # Errors
    /// The operating system's; `NotFound` also for what is neither a file nor a folder, and for a link that leads where
    /// the policy forbids.
    pub fn open(&self, path: &Path) -> io::Result<Opened> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.folder, flags, Mode::empty())?;
        let file = match self.symlinks {
            Symlinks::Follow => rustix::fs::openat(&root, path, OPEN, Mode::empty()).map_err(refusal)?,
            Symlinks::Within => beneath(&root, path, ResolveFlags::empty())?,
            Symlinks::Deny => beneath(&root, path, ResolveFlags::NO_SYMLINKS)?,
        };
        // By the open file: the root itself may have been replaced by a link since it was checked.
        if !self.allowed.hold(&file) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let stat = rustix::fs::fstat(&file)?;
        let folder = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => false,
            FileType::Directory => true,
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Opened { file: file.into(), folder, identity: identity(&stat) })
    }

    /// The identity of what stands at `path` now: whether an open file is still the one that the path names.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn identity(&self, path: &Path) -> io::Result<Identity> {
        // One system call where links are followed anyway; otherwise opening is what keeps below the root.
        if self.symlinks == Symlinks::Follow {
            let full = self.folder.join(path);
            return Ok(identity(&rustix::fs::statat(rustix::fs::CWD, full, AtFlags::empty())?));
        }
        self.open(path).map(|opened| opened.identity)
    }
}

/// Opens `path` below `root`, the kernel watching that no link or rename leads out of it.
fn beneath(root: &OwnedFd, path: &Path, more: ResolveFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
    match rustix::fs::openat2(root, path, OPEN, Mode::empty(), resolve) {
        Ok(file) => Ok(file),
        // Kernels before 5.6, and sandboxes that don't know the call: step by step, without following any link.
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(root, path),
        Err(error) => Err(refusal(error)),
    }
}

/// What the kernel says of a link that leads in a circle or out of the root, and of what can't be opened as it is no file:
/// a socket, or a device without its driver.
fn refusal(error: Errno) -> io::Error {
    match error {
        Errno::XDEV | Errno::LOOP | Errno::NXIO | Errno::NODEV => io::ErrorKind::NotFound.into(),
        other => other.into(),
    }
}

fn step_by_step(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let mut at = rustix::fs::openat(root, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let name = match part {
            Component::Normal(name) => Path::new(name),
            Component::CurDir => Path::new("."),
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        let flags = match parts.peek() {
            Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            None => OPEN,
        };
        at =
            rustix::fs::openat(at.as_fd(), name, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(refusal)?;
    }
    Ok(at)
}

fn identity(stat: &Stat) -> Identity {
    Identity {
        device: stat.st_dev,
        inode: stat.st_ino,
        length: u64::try_from(stat.st_size).unwrap_or_default(),
        modified_s: stat.st_mtime,
        modified_ns: stat.st_mtime_nsec,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    /// A site with links of every kind, beside a secret.
    fn site() -> tempfile::TempDir {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(outer.path().join("secret"), "secret").unwrap();
        fs::write(root.join("a.txt"), "hello").unwrap();
        symlink("a.txt", root.join("inside")).unwrap();
        symlink("../a.txt", root.join("sub/up")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink(outer.path().join("secret"), root.join("absolute")).unwrap();
        symlink("..", root.join("parent")).unwrap();
        outer
    }

    #[test]
    fn links_lead_where_the_policy_allows() {
        let outer = site();
        let folder = outer.path().join("root");
        //          path             within deny   follow
        let cases = [
            ("a.txt", [true, true, true]),
            ("inside", [true, false, true]),
            ("sub/up", [true, false, true]),
            ("out", [false, false, true]),
            ("absolute", [false, false, true]),
            ("parent/secret", [false, false, true]),
            ("missing", [false, false, false]),
        ];
        for (path, expected) in cases {
            let policies = [Symlinks::Within, Symlinks::Deny, Symlinks::Follow];
            for (symlinks, expected) in policies.into_iter().zip(expected) {
                let root = Root::new(folder.clone(), symlinks, Folders::everything());
                let opened = root.open(Path::new(path));
                assert_eq!(opened.is_ok(), expected, "{path} {symlinks:?}");
                if let Err(error) = opened {
                    assert_eq!(error.kind(), io::ErrorKind::NotFound, "{path} {symlinks:?}");
                }
                assert_eq!(root.identity(Path::new(path)).is_ok(), expected, "{path} {symlinks:?}");
            }
        }
    }

    #[test]
    fn without_the_kernels_help_no_link_is_followed() {
        let outer = site();
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let root = rustix::fs::open(outer.path().join("root"), flags, Mode::empty()).unwrap();
        for (path, expected) in
            [("a.txt", true), ("sub", true), (".", true), ("inside", false), ("parent/secret", false)]
        {
            assert_eq!(step_by_step(&root, Path::new(path)).is_ok(), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_file_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        symlink("circle", folder.path().join("circle")).unwrap();
        for symlinks in [Symlinks::Within, Symlinks::Deny, Symlinks::Follow] {
            let root = Root::new(folder.path().to_owned(), symlinks, Folders::everything());
            for name in ["fifo", "socket", "circle"] {
                let kind = root.open(Path::new(name)).unwrap_err().kind();
                assert_eq!(kind, io::ErrorKind::NotFound, "{name} {symlinks:?}");
            }
            assert!(root.open(Path::new(".")).unwrap().folder);
        }
    }

    #[test]
    fn a_replaced_folder_is_seen_and_identities_differ() {
        let outer = tempfile::tempdir().unwrap();
        let (old, new, live) =
            (outer.path().join("old"), outer.path().join("new"), outer.path().join("live"));
        for (folder, text) in [(&old, "old"), (&new, "newer")] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("f"), text).unwrap();
        }
        symlink(&old, &live).unwrap();
        let root = Root::new(live.clone(), Symlinks::Within, Folders::everything());
        let first = root.open(Path::new("f")).unwrap();
        assert_eq!(root.identity(Path::new("f")).unwrap(), first.identity);
        fs::remove_file(&live).unwrap();
        symlink(&new, &live).unwrap();
        let mut second = root.open(Path::new("f")).unwrap();
        assert_ne!(second.identity, first.identity);
        let mut text = String::new();
        second.file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "newer");
    }

    #[test]
    fn nothing_outside_of_the_allowed_folders_is_opened() {
        let outer = tempfile::tempdir().unwrap();
        let (allowed, secret) = (outer.path().join("allowed"), outer.path().join("secret"));
        for folder in [&allowed, &secret] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("f"), "text").unwrap();
        }
        symlink(secret.join("f"), allowed.join("link")).unwrap();
        for symlinks in [Symlinks::Within, Symlinks::Deny, Symlinks::Follow] {
            let root = Root::new(allowed.clone(), symlinks, Folders::below([allowed.clone()]));
            assert!(root.open(Path::new("f")).is_ok(), "{symlinks:?}");
            assert_eq!(root.open(Path::new("link")).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
        // A root that was a folder when it was checked, and is a link now.
        let live = allowed.join("live");
        symlink(&secret, &live).unwrap();
        let root = Root::new(live, Symlinks::Within, Folders::below([allowed.clone()]));
        assert_eq!(root.open(Path::new("f")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
