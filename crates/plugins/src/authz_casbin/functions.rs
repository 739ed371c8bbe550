//! The functions of matchers, compiled with their pattern.

use crate::text;
use ipnet::IpNet;
use pcre2::bytes::Regex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The regular expressions of an enforcer: rules often have the same.
#[derive(Default)]
pub(super) struct Patterns(HashMap<String, Arc<Regex>>);

/// A function and its pattern.
pub(super) enum Pattern {
    /// `keyMatch`: a text that begins so.
    Prefix(String),
    /// `keyMatch` without a star.
    Exact(String),
    /// A text in which the expression matches.
    Regex(Arc<Regex>),
    /// `keyMatch4`: as above, with groups that have to be equal.
    Named(Arc<Regex>, Vec<(usize, usize)>),
    /// `keyMatch5`: what is before the query.
    Path(Arc<Regex>),
    Net(IpNet),
}

impl Pattern {
    /// Compiles the function called `name`; `None` where there is no such function.
    pub(super) fn compile(
        name: &str,
        pattern: &str,
        patterns: &mut Patterns,
    ) -> Option<Result<Self, String>> {
        Some(match name {
            "keyMatch" => Ok(match pattern.split_once('*') {
                Some((prefix, _)) => Self::Prefix(prefix.to_owned()),
                None => Self::Exact(pattern.to_owned()),
            }),
            "keyMatch2" => patterns.find(&keys(pattern, Some(':'), '\0').0).map(Self::Regex),
            "keyMatch3" => patterns.find(&keys(pattern, None, '{').0).map(Self::Regex),
            "keyMatch4" => {
                let (regex, equal) = keys(pattern, None, '{');
                patterns.find(&regex).map(|regex| Self::Named(regex, equal))
            }
            "keyMatch5" => patterns.find(&keys(pattern, None, '{').0).map(Self::Path),
            "regexMatch" => patterns.find(pattern).map(Self::Regex),
            "globMatch" => patterns.find(&glob(pattern)).map(Self::Regex),
            "ipMatch" => {
                let net = pattern.parse::<IpNet>().or_else(|_| pattern.parse::<IpAddr>().map(IpNet::from));
                net.map(Self::Net).map_err(|_| format!("ipMatch: no address or network: {pattern}"))
            }
            _ => return None,
        })
    }

    /// Whether `text` matches. An expression that takes too long doesn't.
    pub(super) fn matches(&self, text: &str) -> bool {
        let is_match = |regex: &Regex, text: &str| regex.is_match(text.as_bytes()).unwrap_or(false);
        match self {
            Self::Prefix(prefix) => text.starts_with(prefix.as_str()),
            Self::Exact(exact) => text == exact,
            Self::Regex(regex) => is_match(regex, text),
            Self::Path(regex) => is_match(regex, text.split('?').next().unwrap_or_default()),
            Self::Named(regex, equal) => match regex.captures(text.as_bytes()) {
                Ok(Some(groups)) => {
                    let group = |at: usize| groups.get(at).map(|group| group.as_bytes());
                    equal.iter().all(|(one, other)| group(*one) == group(*other))
                }
                _ => false,
            },
            Self::Net(net) => text.parse().is_ok_and(|address: IpAddr| net.contains(&address)),
        }
    }
}

impl Patterns {
    fn find(&mut self, pattern: &str) -> Result<Arc<Regex>, String> {
        if let Some(known) = self.0.get(pattern) {
            return Ok(Arc::clone(known));
        }
        let regex = Arc::new(text::regex(pattern, false, "").map_err(|error| error.message)?);
        self.0.insert(pattern.to_owned(), Arc::clone(&regex));
        Ok(regex)
    }
}

/// The expression of a pattern with `/*` for any rest, and with names: after `sign` up to the next slash, or in braces
/// where `brace` is one. Also the pairs of groups that have the same name.
fn keys(pattern: &str, sign: Option<char>, brace: char) -> (String, Vec<(usize, usize)>) {
    let (mut regex, mut names, mut equal) = ("\\A".to_owned(), Vec::<&str>::new(), Vec::new());
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let name_end = match c {
            c if Some(c) == sign => Some(after.find('/').unwrap_or(after.len())).filter(|end| *end > 0),
            c if c == brace => after.find('}').filter(|end| *end > 0 && !after[..*end].contains('/')),
            _ => None,
        };
        if let Some(end) = name_end {
            let name = &after[..end];
            names.push(name);
            if let Some(first) = names.iter().position(|other| *other == name)
                && first + 1 < names.len()
            {
                equal.push((first + 1, names.len()));
            }
            regex.push_str("([^/]+)");
            rest = &after[end + usize::from(c == brace)..];
        } else if let Some(after) = rest.strip_prefix("/*") {
            regex.push_str("/(?s:.*)");
            // The star's own group must not shift the names': it has none.
            rest = after;
        } else {
            push_literal(c, &mut regex);
            rest = after;
        }
    }
    regex.push_str("\\z");
    (regex, equal)
}

/// The expression of a glob (Go's `path.Match`): `*` and `?` match no slash.
fn glob(pattern: &str) -> String {
    let mut regex = "\\A".to_owned();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '\\' => push_literal(chars.next().unwrap_or('\\'), &mut regex),
            '[' => {
                regex.push_str("(?!/)[");
                if chars.next_if(|c| matches!(c, '^' | '!')).is_some() {
                    regex.push('^');
                }
                for c in chars.by_ref() {
                    match c {
                        ']' => break,
                        '-' => regex.push('-'),
                        c => push_literal(c, &mut regex),
                    }
                }
                regex.push(']');
            }
            c => push_literal(c, &mut regex),
        }
    }
    regex.push_str("\\z");
    regex
}

/// `c` as an expression that matches it alone.
fn push_literal(c: char, regex: &mut String) {
    if c.is_ascii() && !c.is_ascii_alphanumeric() {
        regex.push('\\');
    }
    regex.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_match_as_casbins() {
        for (function, text, pattern, expected) in [
            ("keyMatch", "/foo", "/foo*", true),
            ("keyMatch", "/foo/bar", "/foo/*", true),
            ("keyMatch", "/foobar", "/foo/*", false),
            ("keyMatch", "/foo", "/foo", true),
            ("keyMatch", "/foo/", "/foo", false),
            ("keyMatch", "GET", "*", true),
            ("keyMatch2", "/resource1", "/:resource", true),
            ("keyMatch2", "/a/b", "/:resource", false),
            ("keyMatch2", "/alice/using/x", "/:id/using/:res", true),
            ("keyMatch2", "/alice/all", "/:id/*", true),
            ("keyMatch2", "/alice", "/:id/*", false),
            ("keyMatch2", "/aXb", "/a.b", false),
            ("keyMatch2", "/a\n", "/a", false),
            ("keyMatch3", "/proxy/myid/res", "/proxy/{id}/*", true),
            ("keyMatch3", "/proxy/", "/proxy/{id}", false),
            ("keyMatch4", "/parent/123/child/123", "/parent/{id}/child/{id}", true),
            ("keyMatch4", "/parent/123/child/456", "/parent/{id}/child/{id}", false),
            ("keyMatch4", "/parent/123/child/456", "/parent/{id}/child/{other}", true),
            ("keyMatch5", "/foo/bar?status=1", "/foo/{id}", true),
            ("keyMatch5", "/foo/bar", "/foo", false),
            ("regexMatch", "/topic/delete/0", "/topic/delete/[0-9]+", true),
            ("regexMatch", "/topic/edit", "^/topic/delete", false),
            ("globMatch", "/foo", "/*", true),
            ("globMatch", "/foo/bar", "/*", false),
            ("globMatch", "/foo/bar", "/foo/b?r", true),
            ("globMatch", "/a", "/[a-c]", true),
            ("globMatch", "/d", "/[!a-c]", true),
            ("globMatch", "//", "/[!a]", false),
            ("ipMatch", "10.1.2.3", "10.0.0.0/8", true),
            ("ipMatch", "11.1.2.3", "10.0.0.0/8", false),
            ("ipMatch", "nobody", "0.0.0.0/0", false),
            ("ipMatch", "::1", "::1", true),
        ] {
            let compiled = Pattern::compile(function, pattern, &mut Patterns::default()).expect("known");
            assert_eq!(compiled.expect("valid").matches(text), expected, "{function}({text:?}, {pattern:?})");
        }
        assert!(
            Pattern::compile("regexMatch", "(", &mut Patterns::default()).is_some_and(|found| found.is_err())
        );
        assert!(
            Pattern::compile("ipMatch", "x", &mut Patterns::default()).is_some_and(|found| found.is_err())
        );
        assert!(Pattern::compile("keyGet", "x", &mut Patterns::default()).is_none());
    }
}
