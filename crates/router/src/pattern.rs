//! What the paths and hosts of a route look like, and how they become keys of the tree.

use crate::glob::Glob;

/// A path as a route names it, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathPattern<'p> {
    /// What a request's path equals, or begins with.
    pub(crate) key: &'p str,
    /// Whether it equals.
    pub(crate) exact: bool,
    /// What must hold for the rest of the path.
    pub(crate) glob: Option<Glob>,
}

/// A host as a route names it, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HostPattern {
    /// The host, or what it ends in, last byte first.
    pub(crate) key: Vec<u8>,
    /// Whether it is the whole host.
    pub(crate) exact: bool,
}

impl<'p> PathPattern<'p> {
    /// Every text is a pattern. A `*` makes it a prefix; one inside a segment (`/a*b`) ends the pattern there, as in
    /// lua-resty-radixtree. With `params` a segment that begins with `:` is a parameter. (There lua-resty-radixtree
    /// takes a `:` inside a segment, as in `/a:b`, for the end of the pattern, and any path that begins with `/a` for a
    /// match; here it is a byte like any other.)
    pub(crate) fn parse(path: &'p str, params: bool) -> Self {
        let param = params.then(|| path.find("/:").map(|slash| slash + 1)).flatten();
        let star = path.find('*');
        let Some(at) = param.into_iter().chain(star).min() else {
            return Self { key: path, exact: true, glob: None };
        };
        let (key, tail) = path.split_at(at);
        let begins_segment = key.is_empty() || key.ends_with('/');
        let glob = (begins_segment && (tail.contains('/') || param == Some(at))).then(|| Glob::parse(tail));
        Self { key, exact: false, glob }
    }
}

impl HostPattern {
    /// `foo.com`, `*.foo.com`, or `*`; the caller has put it in lower case.
    pub(crate) fn parse(host: &str) -> Self {
        let suffix = host.rsplit_once('*').map(|(_, suffix)| suffix);
        Self { key: suffix.unwrap_or(host).bytes().rev().collect(), exact: suffix.is_none() }
    }

    /// Whether `host`, in lower case, is one of those.
    pub(crate) fn fits(&self, host: &[u8]) -> bool {
        let same = host.iter().rev().zip(&self.key).all(|(a, b)| a == b);
        same && (if self.exact { host.len() == self.key.len() } else { host.len() >= self.key.len() })
    }
}

/// What the parameter `name` of `pattern`, a route's path that fitted `path`, stands for: `7` for `id` where
/// `/user/:id` met `/user/7`; a `*` without a name is called `:ext`. `None` where the pattern has no such parameter.
#[must_use]
pub fn uri_param<'p>(pattern: &str, path: &'p [u8], name: &str) -> Option<&'p [u8]> {
    let at = (0..pattern.len()).find(|at| opens(pattern.as_bytes(), *at))?;
    Glob::parse(pattern.get(at..)?).param(path.get(at..)?, name)
}

/// Whether a segment that stands for more than itself begins at `at`.
fn opens(pattern: &[u8], at: usize) -> bool {
    matches!(pattern[at], b'*' | b':') && (at == 0 || pattern[at - 1] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_exact_or_prefixes() {
        for (path, key, exact, glob) in [
            ("/a", "/a", true, false),
            ("/a:b", "/a:b", true, false),
            ("/a*", "/a", false, false),
            ("/a/*", "/a/", false, false),
            ("/a/*rest", "/a/", false, false),
            ("/a*b", "/a", false, false),
            ("/a*/b", "/a", false, false),
            ("*", "", false, false),
            ("/a/*/b", "/a/", false, true),
            ("", "", true, false),
        ] {
            let pattern = PathPattern::parse(path, false);
            assert_eq!((pattern.key, pattern.exact, pattern.glob.is_some()), (key, exact, glob), "{path}");
        }
    }

    #[test]
    fn with_parameters_a_colon_opens_a_segment() {
        for (path, key, exact, fitting, other) in [
            ("/a/:id", "/a/", false, "/a/7", "/a/7/8"),
            ("/a/:id/b", "/a/", false, "/a/7/b", "/a/7/c"),
            ("/a/:id/*rest", "/a/", false, "/a/7/b/c", "/a//b"),
            ("/a/*/:id", "/a/", false, "/a/x/7", "/a/7"),
            ("/a/b:c", "/a/b:c", true, "", ""),
        ] {
            let pattern = PathPattern::parse(path, true);
            assert_eq!((pattern.key, pattern.exact), (key, exact), "{path}");
            let fits = |path: &str| {
                pattern.glob.as_ref().is_none_or(|glob| glob.matches(&path.as_bytes()[pattern.key.len()..]))
            };
            assert!(exact || (fits(fitting) && !fits(other)), "{path}");
        }
        assert_eq!(uri_param("/a/:id", b"/a/7", "id"), Some(&b"7"[..]));
        assert_eq!(uri_param("/a/*", b"/a/7/8", ":ext"), Some(&b"7/8"[..]));
        assert_eq!(uri_param("/a", b"/a", "id"), None);
    }

    #[test]
    fn globs_match_whole_paths() {
        for (pattern, path, expected) in [
            ("/a/*/b", "/a/x/b", true),
            ("/a/*/b", "/a/x/y/b", true),
            ("/a/*/b", "/a//b", true),
            ("/a/*/b", "/a/b", false),
            ("/a/*/b", "/a/x/b/", false),
            ("/a/*/b", "/a/x/b/y/b", true),
            ("/a/*/b", "/a/x/bb", false),
            ("/a/*/b/*", "/a/x/b/", true),
            ("/a/*/b/*", "/a/x/c/b/y/z", true),
            ("/a/*/b/*/c", "/a/x/b/y/b/c", true),
            ("/a/*/b/*/c", "/a/x/b/c", false),
            ("/a/*/:id", "/a/x/1", true),
            ("/a/*/:id", "/a/x/", false),
            ("/a/*/:id/c", "/a/x/1/c", true),
            ("/a/*/:id/c", "/a/x//c", false),
            ("/a/*/", "/a/x/", true),
            ("/a/*/", "/a/x", false),
        ] {
            let parsed = PathPattern::parse(pattern, false);
            let rest = path.strip_prefix(parsed.key).expect("the tables' paths begin with the key");
            let glob = parsed.glob.expect("the table's patterns have one");
            assert_eq!(glob.matches(rest.as_bytes()), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn hosts_are_exact_or_suffixes() {
        for (host, key, exact) in [
            ("foo.com", "moc.oof", true),
            ("*.foo.com", "moc.oof.", false),
            ("*foo", "oof", false),
            ("*", "", false),
        ] {
            assert_eq!(HostPattern::parse(host), HostPattern { key: key.into(), exact }, "{host}");
        }
    }
}
