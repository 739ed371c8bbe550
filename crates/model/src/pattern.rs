//! Regular expressions that users write: PCRE2's, as in nginx, with a bound on the steps of a match.
//!
//! The bound is a setting before the expression. A user's own `(*LIMIT_MATCH=)` would take its place, because PCRE2
//! keeps the last one stated (its manual says the lowest), so it is refused.

use std::fmt;

use pcre2::bytes::{Regex, RegexBuilder};

/// Why an expression can't be used.
#[derive(Debug, Clone)]
pub enum PatternError {
    /// It sets the match limit.
    SetsLimit,
    /// It is no regular expression. Offsets count from where the user's text begins.
    Syntax(pcre2::Error),
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetsLimit => f.write_str("(*LIMIT_MATCH=) is the gateway's to set"),
            Self::Syntax(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PatternError {}

/// How an expression is compiled.
#[derive(Debug, Clone, Copy)]
pub struct PatternOptions {
    /// Whether letters match in either case.
    pub caseless: bool,
    /// Whether it is compiled to machine code, which pays off for what runs with each request.
    pub jit: bool,
    /// Steps that a match may take, as PCRE2 counts them; a match that needs more is an error.
    pub steps_max: u32,
}

/// Compiles an expression.
///
/// # Errors
/// An expression that is none, or that sets the match limit.
pub fn compile(text: &str, options: PatternOptions) -> Result<Regex, PatternError> {
    if sets_match_limit(text) {
        return Err(PatternError::SetsLimit);
    }
    let PatternOptions { caseless, jit, steps_max } = options;
    let mut builder = RegexBuilder::new();
    builder.caseless(caseless).jit_if_available(jit);
    builder.build(&format!("(*LIMIT_MATCH={steps_max}){text}")).map_err(|error| {
        // Compiled once more for an offset that counts from where the user's own text begins.
        PatternError::Syntax(builder.build(text).err().unwrap_or(error))
    })
}

/// Returns whether the settings that `pattern` begins with, such as `(*UTF)`, state a match limit. Anywhere else it is
/// no setting.
fn sets_match_limit(pattern: &str) -> bool {
    let mut rest = pattern;
    while let Some((setting, after)) = rest.strip_prefix("(*").and_then(|rest| rest.split_once(')')) {
        if setting.starts_with("LIMIT_MATCH") {
            return true;
        }
        rest = after;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: PatternOptions = PatternOptions { caseless: false, jit: true, steps_max: 1000 };

    #[test]
    fn a_match_ends_at_the_limit_whatever_the_pattern_sets() {
        let runaway = format!("{}b", "a".repeat(100));
        for jit in [true, false] {
            let regex = compile("^(a+)+$", PatternOptions { jit, ..OPTIONS }).unwrap();
            assert!(regex.is_match(runaway.as_bytes()).is_err());
        }
        for text in ["(*LIMIT_MATCH=4000000000)a", "(*UTF)(*LIMIT_MATCH=9)a"] {
            assert!(matches!(compile(text, OPTIONS), Err(PatternError::SetsLimit)), "{text}");
        }
        assert!(compile("(*UTF)a(*LIMIT_MATCH=9)", OPTIONS).is_err(), "no setting, and no verb either");
    }

    #[test]
    fn offsets_count_from_the_users_text() {
        let error = compile("a(", OPTIONS).unwrap_err().to_string();
        assert!(error.contains("offset 2"), "{error}");
    }
}
