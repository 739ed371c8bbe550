//! A Rust file as the rules see it: code without comments, string literals apart, tests marked.
//!
//! A lexer, not a parser: `syn` would double the build of this crate, and the rules ask only for words, literals and
//! the extent of functions.

/// A lexed file.
pub(super) struct RustSource {
    /// The code of each line; comments and the contents of literals are blanks.
    code: Vec<String>,
    /// String literals with the line (from 1) on which they start.
    literals: Vec<(usize, String)>,
    /// Which lines only tests run.
    in_test: Vec<bool>,
}

/// A function with a body.
#[derive(Debug, PartialEq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Where `fn` stands, from 1.
    pub(super) line: usize,
    /// From `fn` to the closing brace, both counted.
    pub(super) lines: usize,
}

impl RustSource {
    /// Lexes `text`; `test_file` when all of it is test code.
    pub(super) fn new(text: &str, test_file: bool) -> Self {
        let mut lexer = Lexer { text: text.as_bytes(), at: 0, code: String::new(), literals: Vec::new() };
        lexer.run();
        let code: Vec<String> = lexer.code.lines().map(str::to_owned).collect();
        let in_test = if test_file { vec![true; code.len()] } else { test_lines(&lexer.code, code.len()) };
        Self { code, literals: lexer.literals, in_test }
    }

    /// The code outside tests: line number from 1, and the line without comments and literals.
    pub(super) fn product_code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.all_code().filter(|(line, _)| !self.is_test(*line))
    }

    /// The code of the whole file, as [`Self::product_code`].
    pub(super) fn all_code(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.code.iter().map(String::as_str))
    }

    /// The string literals outside tests.
    pub(super) fn product_literals(&self) -> impl Iterator<Item = (usize, &str)> {
        self.literals
            .iter()
            .filter(|(line, _)| !self.is_test(*line))
            .map(|(line, text)| (*line, text.as_str()))
    }

    /// The functions outside tests that have a body, in the order in which they start.
    pub(super) fn product_functions(&self) -> Vec<Function> {
        let code = self.code.join("\n");
        let mut functions = Vec::new();
        for (start, _) in code.match_indices("fn ") {
            if start > 0 && is_word(code.as_bytes()[start - 1]) {
                continue;
            }
            let name: String =
                code[start + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let line = line_of(&code, start);
            if name.is_empty() || self.is_test(line) {
                continue;
            }
            if let Some(end) = end_of_item(&code, start).filter(|end| code.as_bytes()[*end] == b'}') {
                functions.push(Function { name, line, lines: line_of(&code, end) - line + 1 });
            }
        }
        functions
    }

    fn is_test(&self, line: usize) -> bool {
        self.in_test.get(line - 1).copied().unwrap_or(false)
    }
}

/// Whether `code` has `word` and it is not part of a longer word.
pub(super) fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(start, _)| {
        let bytes = code.as_bytes();
        let before = start.checked_sub(1).is_none_or(|i| !is_word(bytes[i]));
        before && bytes.get(start + word.len()).is_none_or(|next| !is_word(*next))
    })
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The line, from 1, of the byte at `at`.
fn line_of(code: &str, at: usize) -> usize {
    code[..at].bytes().filter(|byte| *byte == b'\n').count() + 1
}

/// Marks the lines of each item under `#[cfg(test)]`.
fn test_lines(code: &str, count: usize) -> Vec<bool> {
    let mut marks = vec![false; count];
    for (start, _) in code.match_indices("#[cfg(test)]") {
        let end = end_of_item(code, start).unwrap_or(code.len() - 1);
        marks[line_of(code, start) - 1..line_of(code, end)].fill(true);
    }
    marks
}

/// Where the item that starts at `start` ends: its closing brace, or its `;`.
fn end_of_item(code: &str, start: usize) -> Option<usize> {
    let mut braces = 0_usize;
    // `;` inside `[u8; 4]` ends nothing.
    let mut brackets = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b'{' => braces += 1,
            b'}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && brackets == 0 {
                    return Some(offset);
                }
            }
            b';' if braces == 0 && brackets == 0 => return Some(offset),
            _ => {}
        }
    }
    None
}

struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// What has been read so far: ASCII only, as many lines as the text.
    code: String,
    literals: Vec<(usize, String)>,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while let Some(&byte) = self.text.get(self.at) {
            let rest = &self.text[self.at..];
            match byte {
                b'/' if rest.starts_with(b"//") => self.blank(line_comment(rest)),
                b'/' if rest.starts_with(b"/*") => self.blank(block_comment(rest)),
                b'"' => self.literal(1, string(rest), 1),
                b'r' if !self.follows_word() && raw_hashes(rest).is_some() => {
                    let hashes = raw_hashes(rest).unwrap_or(0);
                    self.literal(2 + hashes, raw_string(rest, hashes), 1 + hashes);
                }
                b'\'' => self.blank(character(rest)),
                _ => {
                    self.code.push(if byte.is_ascii() { char::from(byte) } else { '?' });
                    self.at += 1;
                }
            }
        }
    }

    /// Whether the byte before belongs to a word other than the prefix of a byte or C string.
    fn follows_word(&self) -> bool {
        let before = &self.text[..self.at];
        match before {
            [.., a, b'b' | b'c'] => is_word(*a),
            [b'b' | b'c'] | [] => false,
            [.., a] => is_word(*a),
        }
    }

    /// Skips `length` bytes and leaves blanks, keeping line breaks.
    fn blank(&mut self, length: usize) {
        let end = (self.at + length.max(1)).min(self.text.len());
        for byte in &self.text[self.at..end] {
            self.code.push(if *byte == b'\n' { '\n' } else { ' ' });
        }
        self.at = end;
    }

    /// Notes the literal of `length` bytes, quotes and all, whose contents stand between `open` and `close` bytes.
    fn literal(&mut self, open: usize, length: usize, close: usize) {
        let line = self.code.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let end = (self.at + length).min(self.text.len());
        let contents = self.text.get(self.at + open..end.saturating_sub(close)).unwrap_or_default();
        self.literals.push((line, String::from_utf8_lossy(contents).into_owned()));
        self.blank(length);
    }
}

fn line_comment(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a string with escapes, both quotes counted.
fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The number of `#` when `rest` starts a raw string.
fn raw_hashes(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    (rest.get(1 + hashes) == Some(&b'"')).then_some(hashes)
}

/// The length of a raw string, from `r` to its last `#`.
fn raw_string(rest: &[u8], hashes: usize) -> usize {
    let mut at = 2 + hashes;
    while at < rest.len() {
        let closing = rest.get(at + 1..at + 1 + hashes);
        if rest[at] == b'"' && closing.is_some_and(|tail| tail.iter().all(|byte| *byte == b'#')) {
            return at + 1 + hashes;
        }
        at += 1;
    }
    rest.len()
}

/// The length of a character literal; 1 for the quote of a lifetime.
fn character(rest: &[u8]) -> usize {
    let text = String::from_utf8_lossy(&rest[1..rest.len().min(13)]).into_owned();
    let first = text.chars().next();
    match first {
        // `\u{10ffff}` is the longest escape; the search starts behind the escaped character, which may be `'`.
        Some('\\') => text.get(2..).and_then(|tail| tail.find('\'')).map_or(1, |end| end + 4),
        Some(c) if text[c.len_utf8()..].starts_with('\'') => c.len_utf8() + 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
