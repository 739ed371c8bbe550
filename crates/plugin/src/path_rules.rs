//! The path of a request as routes and plugins see it.

use std::borrow::Cow;
use wire::NormalisedPath;

/// What becomes of a request's path, which is normalised as nginx does it in any case. The upstream gets the client's
/// target unless a plugin changes it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathRules {
    /// A slash at its end is taken away (`apisix.delete_uri_tail_slash`).
    pub delete_tail_slash: bool,
    /// Parameters of segments (`/a;b=c/d`) are taken away, as servlet containers do
    /// (`apisix.normalize_uri_like_servlet`).
    pub like_servlet: bool,
    /// Routes are matched against a path in which an encoded slash stays `%2F` (`apisix.match_uri_encoded_slash`).
    pub match_encoded_slash: bool,
}

impl PathRules {
    /// Of a path and its normal form: the path as `$uri` has it, `None` where it is not acceptable; and what routes are
    /// matched against, where that is not the same.
    #[inline]
    #[must_use]
    pub fn apply<'p>(
        self,
        path: &'p [u8],
        normal: Option<NormalisedPath<'p>>,
    ) -> (Option<NormalisedPath<'p>>, Option<Vec<u8>>) {
        if self == Self::default() { (normal, None) } else { by_rules(path, normal, self) }
    }
}

#[cold]
fn by_rules<'p>(
    path: &'p [u8],
    normal: Option<NormalisedPath<'p>>,
    rules: PathRules,
) -> (Option<NormalisedPath<'p>>, Option<Vec<u8>>) {
    let Some(mut uri) = normal else { return (None, None) };
    if rules.like_servlet {
        match without_parameters(&uri) {
            Ok(Some(bare)) => uri = Cow::Owned(bare),
            Ok(None) => {}
            Err(BadSegment) => return (None, None),
        }
    }
    // The root is a slash, and not an empty path: there the rule would leave nothing to match.
    if rules.delete_tail_slash && uri.len() > 1 && uri.ends_with(b"/") {
        uri = Cow::Owned(uri[..uri.len() - 1].to_vec());
    }
    let kept = rules.match_encoded_slash.then(|| keeping_slashes(path, &uri)).flatten();
    (Some(uri), kept)
}

/// A segment that only its parameters keep from being another one: `..;a=b`.
#[derive(Debug, PartialEq, Eq)]
struct BadSegment;

/// `path` without the parameters of its segments (`;` and what follows it), as a servlet container sees it; `None` where
/// it has none. What would name another resource than it seems to is refused: `/a/..;/b`, `/a/;x/b`.
fn without_parameters(path: &[u8]) -> Result<Option<Vec<u8>>, BadSegment> {
    if !path.contains(&b';') {
        return Ok(None);
    }
    let count = path.iter().filter(|byte| **byte == b'/').count() + 1;
    let mut bare = Vec::with_capacity(count);
    for (at, segment) in path.split(|byte| *byte == b'/').enumerate() {
        let Some(semicolon) = segment.iter().position(|byte| *byte == b';') else {
            bare.push(segment);
            continue;
        };
        let name = &segment[..semicolon];
        let empty_inside = name.is_empty() && at + 1 < count;
        if empty_inside || matches!(name.to_ascii_lowercase().as_slice(), b"." | b".." | b"%2e" | b"%2e%2e") {
            return Err(BadSegment);
        }
        bare.push(name);
    }
    Ok(Some(bare.join(&b'/')))
}

/// `path` as sent, decoded but for its encoded slashes, which are written `%2F`. `None` where it has none, or where more
/// than decoding makes `uri` of it (dot segments, say): then there is no telling which slash is which.
fn keeping_slashes(path: &[u8], uri: &[u8]) -> Option<Vec<u8>> {
    let digit = |at: usize| path.get(at).and_then(|digit| char::from(*digit).to_digit(16));
    let (mut kept, mut plain) = (Vec::with_capacity(path.len()), Vec::with_capacity(path.len()));
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        let (byte, length) = match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => (u8::try_from(high << 4 | low).ok()?, 3),
            _ => (byte, 1),
        };
        plain.push(byte);
        match (byte, length) {
            (b'/', 3) => kept.extend_from_slice(b"%2F"),
            _ => kept.push(byte),
        }
        at += length;
    }
    (plain == uri && kept != plain).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::normalise_path;

    fn paths(path: &str, rules: PathRules) -> (Option<String>, Option<String>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let path = path.as_bytes();
        let (uri, matched) = rules.apply(path, normalise_path(path));
        (uri.map(|uri| text(&uri)), matched.map(|matched| text(&matched)))
    }

    #[test]
    fn slashes_at_the_end_go_where_the_rule_says_so() {
        let rules = PathRules { delete_tail_slash: true, ..PathRules::default() };
        for (path, with, without) in
            [("/a/", "/a", "/a/"), ("/a", "/a", "/a"), ("/", "/", "/"), ("/a//", "/a", "/a/")]
        {
            assert_eq!(paths(path, rules).0.as_deref(), Some(with), "{path}");
            assert_eq!(paths(path, PathRules::default()).0.as_deref(), Some(without), "{path}");
        }
    }

    #[test]
    fn parameters_of_segments_go_and_what_hides_behind_them_is_refused() {
        let rules = PathRules { like_servlet: true, ..PathRules::default() };
        for (path, expected) in [
            ("/a/b;a=b/hello", Some("/a/b/hello")),
            ("/a/b;a=b;c=d/hello;e", Some("/a/b/hello")),
            ("/a;", Some("/a")),
            ("/a/;x", Some("/a/")),
            ("/a/b", Some("/a/b")),
            ("/a/;x/b", None),
            ("/a/..;/b", None),
            ("/a/.;x/b", None),
            ("/a/%2e;/b", None),
            ("/a/%252E;/b", None),
            ("/a/%252e%252E;/b", None),
        ] {
            assert_eq!(paths(path, rules).0.as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn an_encoded_slash_stays_one_for_the_match_alone() {
        let rules = PathRules { match_encoded_slash: true, ..PathRules::default() };
        for (path, uri, matched) in [
            ("/a%2Fb/c", "/a/b/c", Some("/a%2Fb/c")),
            ("/a%2fb%41", "/a/bA", Some("/a%2FbA")),
            ("/a%41", "/aA", None),
            ("/a/b", "/a/b", None),
            ("/x%2Fy/../..", "/", None),
            ("/a%2F%2Fb", "/a/b", None),
        ] {
            let expected = (Some(uri.to_owned()), matched.map(str::to_owned));
            assert_eq!(paths(path, rules), expected, "{path}");
        }
        assert_eq!(paths("/%zz", rules), (None, None));
    }
}
