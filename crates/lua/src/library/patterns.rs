//! Compiled regular expressions, by their text and options.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use pcre2::bytes::{CaptureLocations, Regex, RegexBuilder};

/// Patterns that a VM keeps, as many as OpenResty's `lua_regex_cache_max_entries`. At about 4 KB each with machine code
/// that is 4 MB.
const PATTERNS_MAX: usize = 1024;

/// Bytes of a pattern. PCRE2's own limit is 64 KiB of compiled code.
const PATTERN_BYTES_MAX: usize = 64 << 10;

/// Steps of backtracking from one position in the subject: PCRE2 gives up with an error after these. PCRE2's default is
/// ten times as many, about 0.1 s, which a client could make a worker spend on each request.
const STEPS_MAX: usize = 1_000_000;

/// Stack of a match in machine code. Reserved, not allocated, until a match needs it.
const STACK_BYTES_MAX: usize = 256 << 10;

/// The options of `ngx.re` that change what a pattern matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Options {
    anchored: bool,
    caseless: bool,
    dotall: bool,
    duplicate_names: bool,
    extended: bool,
    multiline: bool,
    pub(super) utf: bool,
}

impl Options {
    /// Reads the letters; the error is one that isn't an option.
    pub(super) fn parse(letters: &[u8]) -> Result<Self, char> {
        let mut options = Self::default();
        for letter in letters {
            match letter {
                b'a' => options.anchored = true,
                b'i' => options.caseless = true,
                b's' => options.dotall = true,
                b'D' => options.duplicate_names = true,
                b'x' => options.extended = true,
                b'm' => options.multiline = true,
                b'u' | b'U' => options.utf = true,
                // Compiling to machine code and caching happen always. `d` asks for another algorithm, `J` for
                // JavaScript's syntax: the one that PCRE2 has by default is used for both.
                b'j' | b'o' | b'd' | b'J' => {}
                other => return Err(char::from(*other)),
            }
        }
        Ok(options)
    }
}

/// A compiled pattern.
pub(super) struct Pattern {
    pub(super) regex: Regex,
    pub(super) options: Options,
    /// Whether a match has to begin where the search does, and the pattern itself can't say so.
    anchored: bool,
    locations: RefCell<CaptureLocations>,
    used: Cell<bool>,
}

/// The bounds of a match and of its groups.
pub(super) type Groups = Vec<Option<(usize, usize)>>;

impl Pattern {
    fn compile(text: &[u8], options: Options) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!(
                "pcre_compile() failed: the pattern has more than {PATTERN_BYTES_MAX} bytes"
            ));
        }
        let shown = String::from_utf8_lossy(text);
        let text = match str::from_utf8(text) {
            Ok(text) => text.to_owned(),
            Err(_) if options.utf => {
                return Err(format!("pcre_compile() failed: the pattern is not valid UTF-8 in \"{shown}\""));
            }
            Err(_) => hexadecimal(text),
        };
        // A pattern that begins with verbs can't get anything before them, nor one with an open quotation after it.
        let wrapped = options.anchored && !text.starts_with("(*") && !text.contains("\\Q");
        let names = if options.duplicate_names { "(?J)" } else { "" };
        let (before, after) = match (wrapped, options.extended) {
            (false, _) => (names.to_owned(), ""),
            (true, false) => (format!("{names}\\G(?:"), ")"),
            // The end of the line ends a comment.
            (true, true) => (format!("{names}\\G(?:"), "\n)"),
        };
        let before = format!("(*LIMIT_MATCH={STEPS_MAX}){before}");
        let built = RegexBuilder::new()
            .caseless(options.caseless)
            .dotall(options.dotall)
            .extended(options.extended)
            .multi_line(options.multiline)
            .utf(options.utf)
            .jit_if_available(true)
            .max_jit_stack_size(Some(STACK_BYTES_MAX))
            .build(&format!("{before}{text}{after}"));
        let regex = built.map_err(|error| compile_error(&error, &text, before.len()))?;
        let locations = RefCell::new(regex.capture_locations());
        Ok(Self { regex, options, anchored: options.anchored && !wrapped, locations, used: Cell::new(true) })
    }

    /// The first match from byte `from` on.
    ///
    /// # Errors
    /// A limit of PCRE2 was reached, or the subject of a UTF pattern isn't UTF-8.
    pub(super) fn find(&self, subject: &[u8], from: usize) -> Result<Option<Groups>, String> {
        if from > subject.len() {
            return Ok(None);
        }
        // No Lua code runs meanwhile, so nobody else has it.
        let mut locations = self.locations.borrow_mut();
        let found = self.regex.captures_read_at(&mut locations, subject, from);
        let found = found.map_err(|error| format!("pcre_exec() failed: {} ({error})", error.code()))?;
        if !found.is_some_and(|found| !self.anchored || found.start() == from) {
            return Ok(None);
        }
        Ok(Some((0..self.regex.captures_len()).map(|group| locations.get(group)).collect()))
    }

    /// Where to search on after a match that ended at `end`: one character later if the match was empty.
    pub(super) fn following(&self, subject: &[u8], (start, end): (usize, usize)) -> usize {
        if start < end {
            return end;
        }
        let mut next = end + 1;
        while self.options.utf && subject.get(next).is_some_and(|byte| byte & 0xC0 == 0x80) {
            next += 1;
        }
        next
    }
}

fn compile_error(error: &pcre2::Error, text: &str, before: usize) -> String {
    // "PCRE2: error compiling pattern at offset 12: missing closing parenthesis"
    let full = error.to_string();
    let message = full.splitn(3, ": ").nth(2).unwrap_or(&full);
    let rest =
        error.offset().and_then(|at| text.get(at.checked_sub(before)?..)).filter(|rest| !rest.is_empty());
    let place = rest.map(|rest| format!(" at \"{rest}\"")).unwrap_or_default();
    format!("pcre_compile() failed: {message} in \"{text}\"{place}")
}

/// The pattern with its bytes beyond ASCII as escapes, because the compiler takes UTF-8 alone.
fn hexadecimal(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for &byte in text {
        if byte.is_ascii() {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// The patterns of a VM.
#[derive(Default)]
pub(super) struct Patterns {
    by_options: HashMap<Options, HashMap<Box<[u8]>, Rc<Pattern>>>,
    count: usize,
}

impl Patterns {
    /// The compiled pattern, from the cache if it is there.
    pub(super) fn compiled(&mut self, text: &[u8], options: Options) -> Result<Rc<Pattern>, String> {
        if let Some(pattern) = self.by_options.get(&options).and_then(|patterns| patterns.get(text)) {
            pattern.used.set(true);
            return Ok(Rc::clone(pattern));
        }
        let pattern = Rc::new(Pattern::compile(text, options)?);
        if self.count >= PATTERNS_MAX {
            self.evict();
        }
        self.by_options.entry(options).or_default().insert(text.into(), Rc::clone(&pattern));
        self.count += 1;
        Ok(pattern)
    }

    /// Drops the patterns that weren't used since the last eviction; all of them if that makes no room.
    fn evict(&mut self) {
        for patterns in self.by_options.values_mut() {
            patterns.retain(|_, pattern| pattern.used.replace(false));
        }
        self.count = self.by_options.values().map(HashMap::len).sum();
        if self.count >= PATTERNS_MAX {
            self.by_options.clear();
            self.count = 0;
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let mut patterns = Patterns::default();
        for number in 0..3 * PATTERNS_MAX {
            patterns.compiled(format!("a{number}").as_bytes(), Options::default()).unwrap();
            assert!(patterns.len() <= PATTERNS_MAX);
        }
        assert!(patterns.len() > 0);
    }

    #[test]
    fn an_exploding_pattern_ends_with_an_error() {
        let mut patterns = Patterns::default();
        let pattern = patterns.compiled(b"^(a+)+$", Options::default()).unwrap();
        let error =
            pattern.find(&[b'a'; 64].iter().copied().chain(*b"!").collect::<Vec<_>>(), 0).unwrap_err();
        assert!(error.starts_with("pcre_exec() failed: -47"), "{error}");
        assert!(Pattern::compile(&[b'a'; PATTERN_BYTES_MAX + 1], Options::default()).is_err());
    }
}
