//! The first operation of a GraphQL document: what it is, its name, its top-level fields.
//!
//! Reads the document's tokens to its end, so that what is no GraphQL is told apart; it does not check types, names of
//! directives or anything else that needs a schema.

use serde_json::Value;

/// Brackets may nest this deep: queries that people write stay below twenty.
const DEPTH_MAX: usize = 1000;

/// What conditions may ask about a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    /// `query`, `mutation` or `subscription`; empty where the document begins with a fragment.
    pub(crate) kind: &'static str,
    /// Empty where it has none.
    pub(crate) name: String,
    /// The names of its top-level fields, a list of strings.
    pub(crate) root_fields: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Name(&'t str),
    /// A bracket or another sign of one byte.
    Sign(u8),
    Spread,
    /// A number or a string, whatever it says.
    Literal,
}

/// The first definition of `document`; `None` where it is no GraphQL.
pub(crate) fn first_operation(document: &str) -> Option<Operation> {
    let tokens = tokens(document)?;
    let mut definitions = definitions(&tokens)?;
    definitions.swap_remove(0).into()
}

/// How many definitions `document` has: operations and fragments. `None` where it is no GraphQL.
#[must_use]
pub fn definition_count(document: &str) -> Option<usize> {
    definitions(&tokens(document)?).map(|all| all.len())
}

/// All definitions of a document: something before `{`, and a balanced selection set.
fn definitions(tokens: &[Token<'_>]) -> Option<Vec<Operation>> {
    let mut all = Vec::new();
    let mut rest = tokens;
    while !rest.is_empty() {
        let (kind, name) = match rest {
            [Token::Sign(b'{'), ..] => ("query", ""),
            [Token::Name(word), Token::Name(name), ..] => (kind(word)?, *name),
            [Token::Name(word), Token::Sign(b'{' | b'(' | b'@'), ..] => (kind(word)?, ""),
            _ => return None,
        };
        let open = selection_set(rest)?;
        let close = open + closing(&rest[open..])?;
        let root_fields = root_fields(&rest[open + 1..close])?;
        all.push(Operation { kind, name: name.to_owned(), root_fields });
        rest = &rest[close + 1..];
    }
    (!all.is_empty()).then_some(all)
}

fn kind(word: &str) -> Option<&'static str> {
    ["query", "mutation", "subscription"]
        .into_iter()
        .find(|kind| *kind == word)
        .or_else(|| (word == "fragment").then_some(""))
}

/// Where the definition's selection set begins: at the first `{` outside the parentheses of its variables.
fn selection_set(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign(b'(') => depth += 1,
            Token::Sign(b')') => depth = depth.checked_sub(1)?,
            Token::Sign(b'{') if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// Where the bracket that `tokens` begin with is closed.
fn closing(tokens: &[Token<'_>]) -> Option<usize> {
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign(sign @ (b'{' | b'(' | b'[')) => {
                if open.len() == DEPTH_MAX {
                    return None;
                }
                open.push(*sign);
            }
            Token::Sign(sign @ (b'}' | b')' | b']')) => {
                // `{`, `[` and their counterparts are two apart, `(` and `)` one.
                if !matches!(sign.checked_sub(open.pop()?), Some(1 | 2)) {
                    return None;
                }
                if open.is_empty() {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// The names of the fields in a selection set; those of fragments are not known here and left out. `None` where it is
/// empty or begins otherwise than a selection does.
fn root_fields(tokens: &[Token<'_>]) -> Option<Value> {
    let mut fields = Vec::new();
    let mut rest = tokens;
    while let Some((first, mut after)) = rest.split_first() {
        match first {
            Token::Name(name) => {
                let mut field = *name;
                // `alias: name`
                if let [Token::Sign(b':'), Token::Name(name), tail @ ..] = after {
                    (field, after) = (*name, tail);
                }
                fields.push(Value::from(field));
            }
            Token::Spread => {}
            _ => return None,
        }
        // Arguments, directives, the type of a fragment and selections below belong to this one.
        let fragment = *first == Token::Spread;
        rest = skip_rest(after, fragment)?;
    }
    (!tokens.is_empty()).then(|| Value::Array(fields))
}

/// What follows a selection, whose name is read.
fn skip_rest<'t, 'd>(mut tokens: &'t [Token<'d>], fragment: bool) -> Option<&'t [Token<'d>]> {
    let mut names = fragment;
    loop {
        match tokens {
            [Token::Sign(b'{'), ..] => return tokens.get(closing(tokens)? + 1..),
            [Token::Sign(b'('), ..] => tokens = tokens.get(closing(tokens)? + 1..)?,
            [Token::Sign(b'@'), Token::Name(_), tail @ ..] => tokens = tail,
            [Token::Name("on"), Token::Name(_), tail @ ..] if names => tokens = tail,
            [Token::Name(_), tail @ ..] if names => tokens = tail,
            _ => return Some(tokens),
        }
        names = false;
    }
}

/// `None` where a byte can't begin a token.
fn tokens(document: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = document.trim_start_matches('\u{feff}');
    while let Some(first) = rest.bytes().next() {
        let take = |text: &str, part: fn(u8) -> bool| text.bytes().take_while(|byte| part(*byte)).count();
        let length = match first {
            b' ' | b'\t' | b'\r' | b'\n' | b',' => 1,
            b'#' => rest.find(['\r', '\n']).unwrap_or(rest.len()),
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => {
                let length = take(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
                tokens.push(Token::Name(&rest[..length]));
                length
            }
            b'0'..=b'9' | b'-' => {
                tokens.push(Token::Literal);
                take(rest, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.'))
            }
            b'"' => {
                tokens.push(Token::Literal);
                string(rest)?
            }
            b'.' if rest.starts_with("...") => {
                tokens.push(Token::Spread);
                3
            }
            b'{' | b'}' | b'(' | b')' | b'[' | b']' | b':' | b'=' | b'!' | b'@' | b'$' | b'&' | b'|' => {
                tokens.push(Token::Sign(first));
                1
            }
            _ => return None,
        };
        rest = &rest[length..];
    }
    Some(tokens)
}

/// The length of the string that `text` begins with: `"..."` or `"""..."""`.
fn string(text: &str) -> Option<usize> {
    let (quote, mut at) = if text.starts_with("\"\"\"") { ("\"\"\"", 3) } else { ("\"", 1) };
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(quote) {
            return Some(at + quote.len());
        }
        match rest.bytes().next()? {
            b'\\' if quote.len() == 3 => at += if rest.starts_with("\\\"\"\"") { 4 } else { 1 },
            b'\\' => at += 1 + rest[1..].chars().next()?.len_utf8(),
            b'\n' | b'\r' if quote.len() == 1 => return None,
            _ => at += rest.chars().next()?.len_utf8(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_operation_is_understood() {
        for (document, kind, name, fields) in [
            ("query repo { owner { name } }", "query", "repo", json!(["owner"])),
            ("{owner{name} repo}", "query", "", json!(["owner", "repo"])),
            ("query{owner{name}}", "query", "", json!(["owner"])),
            (
                "mutation m($e: Episode! = {a: [1]}, $r: R!) @d(x: 1) { create(e: $e, r: $r) { stars } }",
                "mutation",
                "m",
                json!(["create"]),
            ),
            (
                "subscription s { a: b(x: \"}\") @skip(if: true) c ...F ... on T { d } e }",
                "subscription",
                "s",
                json!(["b", "c", "e"]),
            ),
            ("# {\n\u{feff}query q, { a(s: \"\"\" } \\\"\"\" \"\"\") }", "query", "q", json!(["a"])),
            ("query a { x } query b { y }", "query", "a", json!(["x"])),
            ("fragment F on T { x }", "", "F", json!(["x"])),
        ] {
            let document = document.replace('\u{feff}', "");
            let operation = first_operation(&document).unwrap_or_else(|| panic!("{document}"));
            assert_eq!(
                (operation.kind, &*operation.name, &operation.root_fields),
                (kind, name, &fields),
                "{document}"
            );
        }
    }

    #[test]
    fn what_is_no_graphql_is_told_apart() {
        for document in [
            "",
            "AA",
            "query",
            "query {",
            "query { a ",
            "{ a } }",
            "{ (a }",
            "{}",
            "query { \"s }",
            "{ 1 }",
            "hello { a }",
            "{ a(b: [1) }",
            "{ a(b: [1}",
            "{ a{)}",
            "{ a { b )",
            "{ é }",
        ] {
            assert_eq!(first_operation(document), None, "{document}");
        }
        let deep = "{a".repeat(DEPTH_MAX + 1) + &"}".repeat(DEPTH_MAX + 1);
        assert_eq!(first_operation(&deep), None);
    }
}
