//! From a request's path to what stands in the file system: `try_files`, folders and their index.

use crate::document::{Found, slot};
use crate::path::below_root;
use crate::root::Opened;
use crate::site::{Last, Site, Try};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// What a path led to.
pub(crate) enum Target {
    /// A file.
    File(Box<Found>),
    /// A folder that was asked for without its slash.
    Slash,
    /// A folder to be listed.
    Listing(File),
    /// Nothing that is served.
    Status(u16),
}

/// Looks `path` up: decoded, dots resolved.
///
/// # Errors
/// Those of the file system that say nothing about the path: too many open files, a broken disk.
pub(crate) fn target(site: &Site, path: &[u8]) -> io::Result<Target> {
    let Some(path) = stripped(site, path) else { return Ok(Target::Status(404)) };
    for candidate in &site.tries {
        let wanted = candidate.path(path);
        // A slash that only the pattern has: the folder exists, but is seen under another path.
        let added = matches!(candidate, Try::Around(..)) && wanted.ends_with(b"/") && !path.ends_with(b"/");
        if let Some(target) = looked_up(site, &wanted, added)? {
            return Ok(target);
        }
    }
    match &site.last {
        Last::Status(status) => Ok(Target::Status(*status)),
        Last::Path(path) => Ok(looked_up(site, path, false)?.unwrap_or(Target::Status(404))),
    }
}

/// The file at `path` alone, for an error page; nothing where there is none.
pub(crate) fn page(site: &Site, path: &[u8]) -> io::Result<Option<Box<Found>>> {
    Ok(match looked_up(site, path, false)? {
        Some(Target::File(found)) => Some(found),
        _ => None,
    })
}

fn stripped<'p>(site: &Site, path: &'p [u8]) -> Option<&'p [u8]> {
    match path.strip_prefix(site.strip_prefix.as_slice())? {
        b"" if !site.strip_prefix.is_empty() => Some(b"/"),
        rest => rest.starts_with(b"/").then_some(rest),
    }
}

/// What stands at one path; `None` where the next one is to be tried.
fn looked_up(site: &Site, path: &[u8], slash_added: bool) -> io::Result<Option<Target>> {
    let Ok(below) = below_root(path, site.hidden) else { return Ok(None) };
    let as_folder = path.ends_with(b"/");
    let opened = match site.root.open(below) {
        Ok(opened) => opened,
        Err(error) => return absent(error),
    };
    match (opened.folder, as_folder) {
        (false, false) => Ok(Some(Target::File(Box::new(found(site, below.to_owned(), opened))))),
        (false, true) | (true, false) => Ok(None),
        (true, true) if slash_added => Ok(Some(Target::Slash)),
        (true, true) => folder(site, below, opened).map(Some),
    }
}

fn folder(site: &Site, below: &Path, opened: Opened) -> io::Result<Target> {
    for name in &site.index {
        let path = if below == Path::new(".") { name.clone() } else { below.join(name) };
        match site.root.open(&path) {
            Ok(index) if !index.folder => return Ok(Target::File(Box::new(found(site, path, index)))),
            Ok(_) => {}
            Err(error) => {
                if let Some(target) = absent(error)? {
                    return Ok(target);
                }
            }
        }
    }
    Ok(if site.autoindex { Target::Listing(opened.file) } else { Target::Status(403) })
}

/// The opened file with its precompressed forms.
fn found(site: &Site, path: PathBuf, opened: Opened) -> Found {
    let mut siblings = [const { None }; 3];
    for encoding in &site.precompressed {
        let mut name = path.clone().into_os_string();
        name.push(encoding.suffix());
        // One that can't be opened is as good as none.
        if let Some(sibling) = site.root.open(Path::new(&name)).ok().filter(|sibling| !sibling.folder) {
            siblings[slot(*encoding)] = Some((sibling.file, sibling.identity));
        }
    }
    Found { path, file: opened.file, identity: opened.identity, siblings }
}

/// What an error says about a path: nothing there, not allowed, or no answer at all.
fn absent(error: io::Error) -> io::Result<Option<Target>> {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound, PermissionDenied};
    match error.kind() {
        NotFound | NotADirectory | InvalidFilename => Ok(None),
        PermissionDenied => Ok(Some(Target::Status(403))),
        _ => Err(error),
    }
}
