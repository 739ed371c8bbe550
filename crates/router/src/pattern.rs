//! What the paths and hosts of a route look like, and how they become keys of the tree.
//!
//! `radixtree_uri_with_parameter` will add one thing here: a path is cut at the first `:` of a segment as well, and
//! the glob then says what its parameters held.

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

/// The rest of a pattern from its first `*` segment on: `*/edit` of `/doc/*/edit`. Segments that begin with `*` stand
/// for any text, slashes and all; those that begin with `:` for one segment that is not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob(Box<[Segment]>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Any,
    One,
    Text(Box<[u8]>),
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
    /// lua-resty-radixtree.
    pub(crate) fn parse(path: &'p str) -> Self {
        let Some(star) = path.find('*') else { return Self { key: path, exact: true, glob: None } };
        let (key, tail) = path.split_at(star);
        let begins_segment = key.is_empty() || key.ends_with('/');
        let glob = (begins_segment && tail.contains('/')).then(|| Glob::parse(tail));
        Self { key, exact: false, glob }
    }
}

impl HostPattern {
    /// `foo.com`, `*.foo.com`, or `*`; the caller has put it in lower case.
    pub(crate) fn parse(host: &str) -> Self {
        let suffix = host.rsplit_once('*').map(|(_, suffix)| suffix);
        Self { key: suffix.unwrap_or(host).bytes().rev().collect(), exact: suffix.is_none() }
    }
}

impl Glob {
    fn parse(tail: &str) -> Self {
        let segment = |text: &str| match text.as_bytes() {
            [b'*', ..] => Segment::Any,
            [b':', ..] => Segment::One,
            text => Segment::Text(text.into()),
        };
        Self(tail.split('/').map(segment).collect())
    }

    /// Whether `rest`, the path from the first `*` on, fits. Of several `*` only the last one met is ever taken back,
    /// so this takes at most segments times segments steps.
    pub(crate) fn matches(&self, rest: &[u8]) -> bool {
        let (mut segments, mut want) = (Some(rest), 0);
        let mut retry: Option<(usize, Option<&[u8]>)> = None;
        loop {
            let (head, tail) = match segments {
                Some(text) => split_segment(text),
                None if want == self.0.len() => return true,
                // The path is used up: giving a `*` more of it leaves even less for the rest.
                None => return false,
            };
            let fits = match self.0.get(want) {
                Some(Segment::Any) => {
                    retry = Some((want + 1, tail));
                    true
                }
                Some(Segment::One) => !head.is_empty(),
                Some(Segment::Text(text)) => head == &**text,
                None => false,
            };
            if fits {
                (segments, want) = (tail, want + 1);
                continue;
            }
            // The last `*` takes one segment more.
            let Some((after, Some(from))) = retry else { return false };
            let (_, tail) = split_segment(from);
            (segments, want) = (tail, after);
            retry = Some((after, tail));
        }
    }
}

/// The first segment, and what follows its slash if it has one.
fn split_segment(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b'/') {
        Some(slash) => (&text[..slash], Some(&text[slash + 1..])),
        None => (text, None),
    }
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
            let pattern = PathPattern::parse(path);
            assert_eq!((pattern.key, pattern.exact, pattern.glob.is_some()), (key, exact, glob), "{path}");
        }
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
            let parsed = PathPattern::parse(pattern);
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
