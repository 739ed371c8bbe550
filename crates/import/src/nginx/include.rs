//! Patterns of files, as `include` takes them.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Whether a path is a pattern, and not a file's name.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?'])
}

/// The files and folders whose paths match, in their order; each part of the path may be a pattern.
pub(super) fn matching(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let name = match part {
            Component::Normal(name) => name.to_str().filter(|name| is_pattern(name)),
            _ => None,
        };
        found = found
            .into_iter()
            .flat_map(|folder| match name {
                Some(name) => entries(&folder, name),
                None => vec![folder.join(part)],
            })
            .filter(|path| path.as_os_str().is_empty() || path.exists())
            .collect();
    }
    found
}

/// What in `folder` matches a pattern.
fn entries(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    // Relative to where the process stands, as any other relative path.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let suits = |name: &str| {
        // As in a shell: a hidden name has to be asked for as one.
        (!name.starts_with('.') || pattern.starts_with('.')) && matches(pattern.as_bytes(), name.as_bytes())
    };
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(suits))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Whether a name matches a pattern with `*` and `?`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut rest) = (0, 0);
    // Where the last star stands, and what it takes: one byte more each time that what follows fails.
    let mut star = None;
    while at < name.len() {
        match pattern.get(rest) {
            Some(b'*') => {
                star = Some((rest, at));
                rest += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[at] => (at, rest) = (at + 1, rest + 1),
            _ => {
                let Some((stands, taken)) = star else { return false };
                star = Some((stands, taken + 1));
                (at, rest) = (taken + 1, stands + 1);
            }
        }
    }
    pattern[rest..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "ac", false),
            ("*ab", "aab", true),
            ("?.conf", "a.conf", true),
            ("?.conf", ".conf", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn folders_may_be_patterns_too() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["b/x.conf", "a/y.conf", "a/.hidden.conf", "a/z.txt"] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = matching(&folder.path().join("*/*.conf"));
        assert_eq!(found, [folder.path().join("a/y.conf"), folder.path().join("b/x.conf")]);
        assert!(matching(&folder.path().join("none/*")).is_empty());
    }
}
