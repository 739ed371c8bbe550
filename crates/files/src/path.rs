//! From a request's path to a path below a root, or to a refusal.
//!
//! The path comes decoded once and with its dots resolved; what could still mean something else to a file system is
//! refused here, and the kernel is told once more not to leave the root ([`crate::root`]).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The longest path that is looked up: Linux's `PATH_MAX` with room for a suffix (`.gz`) and the closing NUL.
const PATH_BYTES_MAX: usize = 4096 - 16;

/// Why a path names no file. Clients get 404 for all of them: that something exists is told to nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It climbs, or has an empty segment, a backslash or a control character.
    Unclean,
    /// A segment begins with a dot.
    Hidden,
    /// Longer than any path of the file system.
    TooLong,
}

/// The path below the root; the root itself is `.`. A trailing slash is dropped: whether it stood there is the caller's
/// to know.
///
/// `.well-known` (RFC 8615) is not hidden, wherever `hidden` files are refused.
///
/// # Errors
/// What must not be looked up.
pub fn below_root(path: &[u8], hidden: bool) -> Result<&Path, Refusal> {
    if path.len() > PATH_BYTES_MAX {
        return Err(Refusal::TooLong);
    }
    let inner = path.strip_prefix(b"/").ok_or(Refusal::Unclean)?;
    let inner = inner.strip_suffix(b"/").unwrap_or(inner);
    if inner.is_empty() {
        return if path == b"/" { Ok(Path::new(".")) } else { Err(Refusal::Unclean) };
    }
    for segment in inner.split(|byte| *byte == b'/') {
        let unclean = matches!(segment, b"" | b"." | b"..")
            || segment.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\');
        if unclean {
            return Err(Refusal::Unclean);
        }
        if !hidden && segment.starts_with(b".") && segment != b".well-known" {
            return Err(Refusal::Hidden);
        }
    }
    Ok(Path::new(OsStr::from_bytes(inner)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Component;

    #[test]
    fn clean_paths_lose_their_slash_and_others_are_refused() {
        let cases: &[(&[u8], Result<&str, Refusal>)] = &[
            (b"/", Ok(".")),
            (b"/a.txt", Ok("a.txt")),
            (b"/a/b/", Ok("a/b")),
            (b"/...", Err(Refusal::Hidden)),
            (b"/.well-known/acme-challenge/x", Ok(".well-known/acme-challenge/x")),
            (b"/.git/config", Err(Refusal::Hidden)),
            (b"/a/.env", Err(Refusal::Hidden)),
            (b"", Err(Refusal::Unclean)),
            (b"a", Err(Refusal::Unclean)),
            (b"//", Err(Refusal::Unclean)),
            (b"//etc/passwd", Err(Refusal::Unclean)),
            (b"/a//b", Err(Refusal::Unclean)),
            (b"/..", Err(Refusal::Unclean)),
            (b"/a/../../b", Err(Refusal::Unclean)),
            (b"/./a", Err(Refusal::Unclean)),
            (b"/..\\..\\win.ini", Err(Refusal::Unclean)),
            (b"/a\0.html", Err(Refusal::Unclean)),
            (b"/a\n", Err(Refusal::Unclean)),
        ];
        for (path, expected) in cases {
            let found = below_root(path, false).map(|path| path.to_str().unwrap());
            assert_eq!(found, *expected, "{:?}", String::from_utf8_lossy(path));
        }
        assert_eq!(below_root(b"/.git/config", true), Ok(Path::new(".git/config")));
        assert_eq!(below_root(&[b"/".as_slice(), &vec![b'a'; 5000]].concat(), true), Err(Refusal::TooLong));
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_root(path in "[/.a\\\\%]{0,24}") {
            for hidden in [false, true] {
                if let Ok(found) = below_root(path.as_bytes(), hidden) {
                    let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
                    prop_assert!(found.components().all(plain), "{found:?}");
                }
            }
        }
    }
}
