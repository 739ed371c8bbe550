//! Texts as nginx and APISIX encode and substitute them.

use model::ConfigError;
use model::pattern::{self, PatternOptions};
use pcre2::bytes::{Captures, Regex};
pub(crate) use plugin::{encode_controls, encode_path};
use std::borrow::Cow;

/// Steps that a user's expression may take on one text. Some 10 ms: what takes longer is a mistake or an attack.
const MATCH_STEPS_MAX: u32 = 1_000_000;

/// A user's regular expression, of PCRE as in nginx, with its replacement.
pub(crate) struct Substitution {
    regex: Regex,
    replacement: Vec<Piece>,
}

enum Piece {
    Text(Vec<u8>),
    Group(usize),
}

/// A user's regular expression.
///
/// # Errors
/// When it is none; the path is `path`.
pub(crate) fn regex(pattern: &str, caseless: bool, path: &str) -> Result<Regex, ConfigError> {
    pattern::compile(pattern, PatternOptions { caseless, jit: true, steps_max: MATCH_STEPS_MAX })
        .map_err(|error| ConfigError::new(path, format!("pcre_compile() failed: {error} in \"{pattern}\"")))
}

impl Substitution {
    /// `replacement` names groups of `pattern` as `$1` or `${1}`; `$$` is a dollar sign.
    ///
    /// # Errors
    /// When the pattern is no regular expression or the replacement uses `$` for anything else.
    pub(crate) fn compile(
        pattern: &str,
        replacement: &str,
        caseless: bool,
        path: &str,
    ) -> Result<Self, ConfigError> {
        let pieces = pieces(replacement).ok_or_else(|| {
            ConfigError::new(path, format!("invalid use of `$` in the replacement \"{replacement}\""))
        })?;
        Ok(Self { regex: regex(pattern, caseless, path)?, replacement: pieces })
    }

    /// The first match in `text` and the text with it replaced; `None` where nothing matches.
    ///
    /// # Errors
    /// When matching takes too long.
    pub(crate) fn first<'t>(&self, text: &'t [u8]) -> Result<Option<(Captures<'t>, Vec<u8>)>, pcre2::Error> {
        let Some(captures) = self.regex.captures(text)? else { return Ok(None) };
        let mut out = Vec::with_capacity(text.len());
        let (start, end) = captures.get(0).map_or((0, 0), |whole| (whole.start(), whole.end()));
        out.extend_from_slice(&text[..start]);
        self.replace(&captures, &mut out);
        out.extend_from_slice(&text[end..]);
        Ok(Some((captures, out)))
    }

    /// The text with every match replaced.
    ///
    /// # Errors
    /// When matching takes too long.
    pub(crate) fn all(&self, text: &[u8]) -> Result<Vec<u8>, pcre2::Error> {
        let mut out = Vec::with_capacity(text.len());
        let mut after = 0;
        for captures in self.regex.captures_iter(text) {
            let captures = captures?;
            let Some(whole) = captures.get(0) else { break };
            out.extend_from_slice(&text[after..whole.start()]);
            self.replace(&captures, &mut out);
            after = whole.end();
        }
        out.extend_from_slice(&text[after..]);
        Ok(out)
    }

    fn replace(&self, captures: &Captures<'_>, out: &mut Vec<u8>) {
        for piece in &self.replacement {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Group(number) => {
                    out.extend_from_slice(captures.get(*number).map_or(b"", |group| group.as_bytes()));
                }
            }
        }
    }
}

fn pieces(replacement: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = replacement;
    while let Some((text, after)) = rest.split_once('$') {
        pieces.push(Piece::Text(text.as_bytes().to_vec()));
        if let Some(after) = after.strip_prefix('$') {
            pieces.push(Piece::Text(b"$".to_vec()));
            rest = after;
            continue;
        }
        let (digits, after) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => after.split_at(after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len())),
        };
        pieces.push(Piece::Group(digits.parse().ok()?));
        rest = after;
    }
    pieces.push(Piece::Text(rest.as_bytes().to_vec()));
    Some(pieces)
}

/// A query argument's value, decoded as nginx's Lua module does: `+` is a space.
pub(crate) fn decode_arg(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.iter().any(|byte| matches!(byte, b'+' | b'%')) {
        return Cow::Borrowed(value);
    }
    let spaced: Vec<u8> = value.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    Cow::Owned(percent_encoding::percent_decode(&spaced).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substitutions_know_groups() {
        for (pattern, replacement, text, first, all) in [
            ("^/a/(.*)$", "/b/$1", "/a/c", Some("/b/c"), "/b/c"),
            ("o", "0", "foo", Some("f0o"), "f00"),
            ("(x)(y)?", "[${1}$2]", "xxy", Some("[x]xy"), "[x][xy]"),
            ("a", "$$", "ba", Some("b$"), "b$"),
            ("z", "", "ba", None, "ba"),
        ] {
            let substitution = Substitution::compile(pattern, replacement, false, "").expect("valid");
            let got = substitution.first(text.as_bytes()).expect("short").map(|(_, text)| text);
            assert_eq!(got.as_deref(), first.map(str::as_bytes), "{pattern}");
            assert_eq!(substitution.all(text.as_bytes()).expect("short"), all.as_bytes(), "{pattern}");
        }
        assert!(Substitution::compile("(", "", false, "").is_err());
        assert!(Substitution::compile("a", "$x", false, "").is_err());
    }

    #[test]
    fn arguments_are_decoded() {
        assert_eq!(&*decode_arg(b"a+b%2Bc"), b"a b+c");
    }
}
