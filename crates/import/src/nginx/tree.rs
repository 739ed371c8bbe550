//! nginx's configuration language: directives, blocks, quotes, comments, includes.

use document::{Diagnostic, Position, codes};
use glob::{MatchOptions, Pattern, glob_with};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Files that a configuration may include, itself among them: a file for each of some thousand sites, with pieces that
/// they share.
const FILES_MAX: usize = 16_384;

/// How deep files may include each other: more is a loop.
const INCLUDES_MAX: usize = 16;

/// The longest file that is read.
pub(super) const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Bytes of all files together, as often as they are included: 10,000 sites of 6 KB.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// A hidden file has to be asked for as one.
const LIKE_A_SHELL: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// How deep blocks may be nested.
const DEPTH_MAX: usize = 32;

/// A directive.
#[derive(Debug, Clone)]
pub(crate) struct Directive {
    pub(crate) place: Place,
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    /// What stands in its braces; `None` where it has none.
    pub(crate) block: Option<Vec<Directive>>,
}

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: Rc<Path>,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Directive {
    /// The directive as it was written, without its block.
    pub(crate) fn text(&self) -> String {
        let mut text = self.name.clone();
        for arg in &self.args {
            text.push(' ');
            if arg.is_empty() || arg.contains(|c: char| c.is_whitespace() || ";{}".contains(c)) {
                text.push_str(&format!("{arg:?}"));
            } else {
                text.push_str(arg);
            }
        }
        text
    }

    pub(crate) fn block(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    pub(crate) fn arg(&self, at: usize) -> &str {
        self.args.get(at).map_or("", String::as_str)
    }
}

impl Place {
    fn error(&self, message: impl Into<String>) -> Box<Diagnostic> {
        let error = Diagnostic::error(codes::NGINX_SYNTAX, message);
        Box::new(
            error.file(self.file.to_string_lossy()).at(Position { line: self.line, column: self.column }),
        )
    }
}

/// Reads a file and all that it includes. Relative paths are relative to the first file's folder, as nginx's are to its
/// prefix.
pub(crate) fn read(path: &Path) -> Result<Vec<Directive>, Box<Diagnostic>> {
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut reader = Reader { folder, files: 0, bytes: 0, nested: 0, alone: false };
    let start = Place { file: path.into(), line: 1, column: 1 };
    reader.file(path, &start, 0)
}

/// Reads a text called `name`. Its includes are directives without effect: no file is opened.
pub(crate) fn read_text(name: &Path, text: &str) -> Result<Vec<Directive>, Box<Diagnostic>> {
    let mut reader = Reader { folder: PathBuf::new(), files: 0, bytes: 0, nested: 0, alone: true };
    reader.directives(&mut tokens(&name.into(), text)?, 0, None)
}

struct Reader {
    folder: PathBuf,
    files: usize,
    /// Bytes read so far.
    bytes: usize,
    /// Includes that the file being read stands in.
    nested: usize,
    /// Whether no file is opened.
    alone: bool,
}

impl Reader {
    fn file(&mut self, path: &Path, from: &Place, depth: usize) -> Result<Vec<Directive>, Box<Diagnostic>> {
        self.files += 1;
        if self.files > FILES_MAX || self.nested > INCLUDES_MAX {
            return Err(from.error("too many files are included: does one include itself?"));
        }
        let unreadable =
            |error: std::io::Error| from.error(format!("{} can't be read: {error}", path.display()));
        // Comments may be in any encoding.
        let bytes = stdx::file::read(path, FILE_BYTES_MAX).map_err(unreadable)?;
        self.bytes += bytes.len();
        if self.bytes > BYTES_MAX {
            return Err(from.error(format!("all files together are larger than {BYTES_MAX} bytes")));
        }
        let mut tokens = tokens(&path.into(), &String::from_utf8_lossy(&bytes))?;
        self.nested += 1;
        let directives = self.directives(&mut tokens, depth, None)?;
        self.nested -= 1;
        Ok(directives)
    }

    /// Directives up to the end of the block that began at `opened`, or of the file.
    fn directives(
        &mut self,
        tokens: &mut Tokens,
        depth: usize,
        opened: Option<&Place>,
    ) -> Result<Vec<Directive>, Box<Diagnostic>> {
        let mut directives = Vec::new();
        loop {
            let Some((place, token)) = tokens.list.pop_front() else {
                return match opened {
                    None => Ok(directives),
                    Some(place) => Err(place.error("this block is never closed: a } is missing")),
                };
            };
            match token {
                Token::Word(name) => {
                    let directive = self.directive(place, name, tokens, depth)?;
                    let included =
                        match directive.name == "include" && directive.block.is_none() && !self.alone {
                            true => self.include(&directive, depth)?,
                            false => Vec::new(),
                        };
                    directives.push(directive);
                    directives.extend(included);
                }
                Token::Close if opened.is_some() => return Ok(directives),
                Token::Close => return Err(place.error("this } closes nothing")),
                Token::Open => return Err(place.error("a block needs a name before its {")),
                Token::End => return Err(place.error("this ; ends nothing")),
            }
        }
    }

    fn directive(
        &mut self,
        place: Place,
        name: String,
        tokens: &mut Tokens,
        depth: usize,
    ) -> Result<Directive, Box<Diagnostic>> {
        let mut args = Vec::new();
        loop {
            match tokens.list.pop_front() {
                Some((_, Token::Word(word))) => args.push(word),
                Some((_, Token::End)) => return Ok(Directive { place, name, args, block: None }),
                Some((open, Token::Open)) => {
                    if depth == DEPTH_MAX {
                        return Err(open.error(format!("blocks are nested deeper than {DEPTH_MAX}")));
                    }
                    let block = self.directives(tokens, depth + 1, Some(&open))?;
                    return Ok(Directive { place, name, args, block: Some(block) });
                }
                Some((_, Token::Close)) | None => {
                    return Err(place.error(format!("`{name}` is never ended: a ; is missing")));
                }
            }
        }
    }

    /// What an `include` brings. A pattern that matches nothing brings nothing; a file that is missing is a mistake,
    /// unless it is the table of types, which is built in.
    fn include(&mut self, directive: &Directive, depth: usize) -> Result<Vec<Directive>, Box<Diagnostic>> {
        let name = directive.arg(0);
        // As in nginx, what has one of these is a pattern.
        if !name.contains(['*', '?', '[']) {
            let path = self.folder.join(name);
            if path.ends_with("mime.types") && !path.exists() {
                return Ok(Vec::new());
            }
            return self.file(&path, &directive.place, depth);
        }
        // The folder's own name is no pattern, whatever is in it.
        let pattern = Path::new(&Pattern::escape(&self.folder.to_string_lossy())).join(name);
        let files = glob_with(&pattern.to_string_lossy(), LIKE_A_SHELL).map_err(|error| {
            directive.place.error(format!("`{name}` is no pattern of files: {}", error.msg))
        })?;
        let mut all = Vec::new();
        // Folders that can't be read have no files.
        for file in files.flatten() {
            all.extend(self.file(&file, &directive.place, depth)?);
        }
        Ok(all)
    }
}

enum Token {
    Word(String),
    End,
    Open,
    Close,
}

struct Tokens {
    list: VecDeque<(Place, Token)>,
}

fn tokens(file: &Rc<Path>, text: &str) -> Result<Tokens, Box<Diagnostic>> {
    let mut scanner =
        Scanner { file: Rc::clone(file), characters: text.chars().peekable(), line: 1, column: 1 };
    let mut list = VecDeque::new();
    while let Some(&character) = scanner.characters.peek() {
        let place = scanner.place();
        match character {
            ' ' | '\t' | '\r' | '\n' => {
                scanner.next();
            }
            '#' => while scanner.next().is_some_and(|character| character != '\n') {},
            ';' | '{' | '}' => {
                scanner.next();
                let token = match character {
                    ';' => Token::End,
                    '{' => Token::Open,
                    _ => Token::Close,
                };
                list.push_back((place, token));
            }
            '"' | '\'' => {
                let word = scanner.quoted(&place, character)?;
                list.push_back((place, Token::Word(word)));
            }
            _ => {
                let word = scanner.word();
                list.push_back((place, Token::Word(word)));
            }
        }
    }
    Ok(Tokens { list })
}

struct Scanner<'t> {
    file: Rc<Path>,
    characters: std::iter::Peekable<std::str::Chars<'t>>,
    line: u32,
    column: u32,
}

impl Scanner<'_> {
    fn place(&self) -> Place {
        Place { file: Rc::clone(&self.file), line: self.line, column: self.column }
    }

    fn next(&mut self) -> Option<char> {
        let character = self.characters.next()?;
        if character == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(character)
    }

    fn quoted(&mut self, place: &Place, quote: char) -> Result<String, Box<Diagnostic>> {
        self.next();
        let mut word = String::new();
        loop {
            match self.next() {
                None => return Err(place.error("this quote is never closed")),
                Some(character) if character == quote => return Ok(word),
                Some('\\') => self.escaped(&mut word),
                Some(character) => word.push(character),
            }
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(&character) = self.characters.peek() {
            match character {
                // `${name}` is part of the word.
                '{' if word.ends_with('$') => {
                    while let Some(character) = self.next() {
                        word.push(character);
                        if character == '}' {
                            break;
                        }
                    }
                }
                ' ' | '\t' | '\r' | '\n' | ';' | '{' => break,
                '\\' => {
                    self.next();
                    self.escaped(&mut word);
                }
                _ => word.extend(self.next()),
            }
        }
        word
    }

    /// What stands behind a backslash: what nginx knows, or the backslash itself and what follows (regexes).
    fn escaped(&mut self, word: &mut String) {
        match self.next() {
            Some(plain @ ('"' | '\'' | '\\')) => word.push(plain),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(other) => word.extend(['\\', other]),
            None => word.push('\\'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn parse(text: &str) -> Result<Vec<Directive>, Box<Diagnostic>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nginx.conf");
        fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn words_quotes_and_blocks_are_read_as_nginx_reads_them() {
        let text = "worker_processes auto; # all\nhttp { log_format main '$a \"b\"' \"c\\\"d\";\n\
                    server { location ~ \\.php$ { return 200 ${host}x; } } }";
        let read = parse(text).unwrap();
        assert_eq!(read[0].text(), "worker_processes auto");
        let log = &read[1].block()[0];
        assert_eq!(log.args, ["main", "$a \"b\"", "c\"d"]);
        let location = &read[1].block()[1].block()[0];
        assert_eq!(location.args, ["~", "\\.php$"]);
        assert_eq!(location.block()[0].args, ["200", "${host}x"]);
        assert_eq!((location.place.line, location.place.column), (3, 10));
    }

    #[test]
    fn mistakes_name_their_place() {
        let cases = [
            ("http {", 1, 6, "never closed"),
            ("a b", 1, 1, "a ; is missing"),
            ("http { server { a b } }", 1, 17, "a ; is missing"),
            ("}", 1, 1, "closes nothing"),
            ("\n ;", 2, 2, "ends nothing"),
            ("{ }", 1, 1, "needs a name"),
            ("a 'b;", 1, 3, "quote is never closed"),
            ("include none.conf;", 1, 1, "can't be read"),
        ];
        for (text, line, column, words) in cases {
            let error = parse(text).unwrap_err();
            assert_eq!(error.at, Some(Position { line, column }), "{text:?}: {error}");
            assert!(error.message.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn includes_are_read_in_order_and_loops_end() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sites")).unwrap();
        for (name, text) in [
            ("nginx.conf", "include mime.types; include sit?s/*.conf; include none/*.conf;"),
            ("sites/b.conf", "b 1;"),
            ("sites/a.conf", "a 1;"),
            ("sites/.hidden.conf", "broken"),
            ("sites/c.conf~", "broken"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let names: Vec<_> =
            read(&folder.path().join("nginx.conf")).unwrap().into_iter().map(|d| d.name).collect();
        assert_eq!(names, ["include", "include", "a", "b", "include"]);
        fs::write(folder.path().join("nginx.conf"), "include */[a].conf;").unwrap();
        let names: Vec<_> =
            read(&folder.path().join("nginx.conf")).unwrap().into_iter().map(|d| d.name).collect();
        assert_eq!(names, ["include", "a"], "each part may be a pattern");
        fs::write(folder.path().join("nginx.conf"), "\n  include [a.conf;").unwrap();
        let error = read(&folder.path().join("nginx.conf")).unwrap_err();
        assert_eq!(error.at, Some(Position { line: 2, column: 3 }));
        fs::write(folder.path().join("loop.conf"), "include loop.conf;").unwrap();
        assert!(read(&folder.path().join("loop.conf")).unwrap_err().message.contains("itself"));
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "[a-z{};#'\"\\\\$ \n]{0,60}") {
            let _ = parse(&text);
        }
    }
}
