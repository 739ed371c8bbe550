//! SPDX licence expressions, as far as packages use them: `OR`, `AND`, `WITH`, parentheses, and the old `/`.

use std::collections::BTreeSet;

/// Whether who may choose only among `allowed` can take what `expression` offers. A licence with an exception is allowed
/// where the two are named together.
///
/// # Errors
/// When it is no expression.
pub(super) fn allowed(expression: &str, allowed: &BTreeSet<String>) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    if words.is_empty() {
        return Err("no licence is named".to_owned());
    }
    let result = any(&mut words, allowed, 0)?;
    match words.last() {
        None => Ok(result),
        Some(word) => Err(format!("`{word}` is in the way")),
    }
}

/// How deep parentheses go: expressions of packages have one or two levels.
const DEPTH_MAX: usize = 16;

fn any(words: &mut Vec<&str>, allowed: &BTreeSet<String>, depth: usize) -> Result<bool, String> {
    let mut result = all(words, allowed, depth)?;
    while words.pop_if(|word| *word == "OR").is_some() {
        result |= all(words, allowed, depth)?;
    }
    Ok(result)
}

fn all(words: &mut Vec<&str>, allowed: &BTreeSet<String>, depth: usize) -> Result<bool, String> {
    let mut result = one(words, allowed, depth)?;
    while words.pop_if(|word| *word == "AND").is_some() {
        result &= one(words, allowed, depth)?;
    }
    Ok(result)
}

fn one(words: &mut Vec<&str>, allowed: &BTreeSet<String>, depth: usize) -> Result<bool, String> {
    match words.pop() {
        Some("(") if depth < DEPTH_MAX => {
            let result = any(words, allowed, depth + 1)?;
            words.pop_if(|word| *word == ")").map(|_| result).ok_or_else(|| "a `)` is missing".to_owned())
        }
        None | Some("OR" | "AND" | "WITH" | "(" | ")") => Err("a licence is missing".to_owned()),
        Some(licence) if words.pop_if(|word| *word == "WITH").is_some() => {
            let exception = words.pop().ok_or_else(|| "an exception is missing".to_owned())?;
            Ok(allowed.contains(&format!("{licence} WITH {exception}")))
        }
        Some(licence) => Ok(allowed.contains(licence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_with_their_precedence() {
        let policy: BTreeSet<String> =
            ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
        for (expression, expected) in [
            ("MIT", Some(true)),
            ("GPL-3.0-only", Some(false)),
            ("MIT OR GPL-3.0-only", Some(true)),
            ("MIT AND GPL-3.0-only", Some(false)),
            ("GPL-2.0-only OR MIT AND ISC", Some(true)),
            ("GPL-2.0-only AND MIT OR ISC", Some(true)),
            ("GPL-2.0-only AND (MIT OR ISC)", Some(false)),
            ("(MIT OR GPL-2.0-only) AND ISC", Some(true)),
            ("MIT/GPL-2.0-only", Some(true)),
            ("Apache-2.0 WITH LLVM-exception", Some(true)),
            ("Apache-2.0 WITH Classpath-exception-2.0", Some(false)),
            ("Apache-2.0", Some(false)),
            ("mit", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("MIT ISC", None),
            ("(MIT", None),
            ("MIT)", None),
            ("MIT WITH", None),
        ] {
            assert_eq!(allowed(expression, &policy).ok(), expected, "{expression}");
        }
        assert!(allowed(&"(".repeat(100_000), &policy).is_err());
    }
}
