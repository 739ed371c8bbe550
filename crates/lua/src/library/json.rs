//! Reads JSON into Lua values with lua-cjson's tolerance and error messages.

use std::borrow::Cow;

use mlua::{IntoLua, Lua, LuaString, Table, Value};

use super::natives::Natives;

/// Levels of nesting that a document may have, whatever `decode_max_depth` says: every level is a frame of about
/// 300 bytes on the worker's stack, 300 KB together.
const DEPTH_MAX: usize = 1000;

/// Adds `json_decode(text, depth_max, array_metatable, lenient_numbers)`, which returns a value, or `nil` and a message.
pub(super) fn open(natives: &Natives<'_>) -> mlua::Result<()> {
    type Arguments = (LuaString, usize, Option<Table>, bool);
    natives.function("json_decode", |lua, (text, depth_max, array_metatable, lenient_numbers): Arguments| {
        let text = text.as_bytes();
        let settings = Settings { depth_max: depth_max.min(DEPTH_MAX), array_metatable, lenient_numbers };
        match decode(lua, &text, &settings) {
            Ok(value) => Ok((value, None)),
            Err(Stop::Syntax(message)) => Ok((Value::Nil, Some(message))),
            Err(Stop::Vm(error)) => Err(error),
        }
    })
}

/// How a document is read.
struct Settings {
    depth_max: usize,
    /// The metatable that arrays get.
    array_metatable: Option<Table>,
    /// Whether `NaN`, `Infinity` and hexadecimal numbers are numbers.
    lenient_numbers: bool,
}

/// Why reading stopped.
enum Stop {
    Syntax(String),
    /// The VM failed, for example for lack of memory.
    Vm(mlua::Error),
}

impl From<mlua::Error> for Stop {
    fn from(error: mlua::Error) -> Self {
        Self::Vm(error)
    }
}

/// A token, or what is wrong where one is expected.
enum Token<'t> {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Cow<'t, [u8]>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Bad(&'static str),
}

impl Token<'_> {
    /// The token's name in lua-cjson's messages.
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Bad(message) => message,
        }
    }
}

/// Where in its parent a value belongs.
enum Place<'k> {
    Name(&'k [u8]),
    Index(i64),
}

impl Place<'_> {
    fn put(&self, parent: &Table, value: impl IntoLua) -> mlua::Result<()> {
        match self {
            Self::Name(name) => parent.raw_set(LuaString::wrap(name), value),
            Self::Index(index) => parent.raw_set(*index, value),
        }
    }
}

/// Reads the one value that `text` is.
fn decode(lua: &Lua, text: &[u8], settings: &Settings) -> Result<Value, Stop> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(Stop::Syntax("JSON parser does not support UTF-16 or UTF-32".to_owned()));
    }
    let mut reader = Reader { lua, text, at: 0, token_at: 0, depth: 0, settings };
    let token = reader.next();
    // The root gets a place too, so that there is one way to read a value.
    let value = match token {
        Token::ObjectBegin | Token::ArrayBegin => {
            let root = lua.create_table()?;
            reader.fill(&root, matches!(token, Token::ArrayBegin))?;
            Value::Table(root)
        }
        Token::String(bytes) => Value::String(lua.create_string(&bytes)?),
        Token::Number(number) => Value::Number(number),
        Token::Boolean(boolean) => Value::Boolean(boolean),
        Token::Null => Value::NULL,
        other => return Err(reader.expected("value", &other)),
    };
    match reader.next() {
        Token::End => Ok(value),
        other => Err(reader.expected("the end", &other)),
    }
}

struct Reader<'t> {
    lua: &'t Lua,
    text: &'t [u8],
    at: usize,
    /// Where the last token begins, or where it is wrong.
    token_at: usize,
    depth: usize,
    settings: &'t Settings,
}

impl<'t> Reader<'t> {
    /// Reads the members of the object or array that was begun into `table`.
    fn fill(&mut self, table: &Table, array: bool) -> Result<(), Stop> {
        self.depth += 1;
        if self.depth > self.settings.depth_max {
            let message = "Found too many nested data structures";
            return Err(Stop::Syntax(format!("{message} ({}) at character {}", self.depth, self.at)));
        }
        if array {
            self.elements(table)?;
        } else {
            self.members(table)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn members(&mut self, table: &Table) -> Result<(), Stop> {
        let mut token = self.next();
        if matches!(token, Token::ObjectEnd) {
            return Ok(());
        }
        loop {
            let Token::String(name) = token else { return Err(self.expected("object key string", &token)) };
            match self.next() {
                Token::Colon => {}
                other => return Err(self.expected("colon", &other)),
            }
            token = self.next();
            self.value(table, &Place::Name(&name), token)?;
            match self.next() {
                Token::ObjectEnd => return Ok(()),
                Token::Comma => token = self.next(),
                other => return Err(self.expected("comma or object end", &other)),
            }
        }
    }

    fn elements(&mut self, table: &Table) -> Result<(), Stop> {
        if let Some(metatable) = &self.settings.array_metatable {
            table.set_metatable(Some(metatable.clone()))?;
        }
        let mut token = self.next();
        if matches!(token, Token::ArrayEnd) {
            return Ok(());
        }
        for index in 1.. {
            self.value(table, &Place::Index(index), token)?;
            match self.next() {
                Token::ArrayEnd => break,
                Token::Comma => token = self.next(),
                other => return Err(self.expected("comma or array end", &other)),
            }
        }
        Ok(())
    }

    /// Puts the value that `token` is or begins into `parent`.
    fn value(&mut self, parent: &Table, place: &Place<'_>, token: Token<'t>) -> Result<(), Stop> {
        match token {
            Token::String(bytes) => place.put(parent, LuaString::wrap(&bytes))?,
            Token::Number(number) => place.put(parent, number)?,
            Token::Boolean(boolean) => place.put(parent, boolean)?,
            Token::Null => place.put(parent, Value::NULL)?,
            Token::ObjectBegin | Token::ArrayBegin => {
                let child = self.lua.create_table()?;
                place.put(parent, &child)?;
                self.fill(&child, matches!(token, Token::ArrayBegin))?;
            }
            other => return Err(self.expected("value", &other)),
        }
        Ok(())
    }

    fn expected(&self, what: &str, found: &Token<'_>) -> Stop {
        Stop::Syntax(format!("Expected {what} but found {} at character {}", found.name(), self.token_at + 1))
    }

    fn next(&mut self) -> Token<'t> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.token_at = self.at;
        let Some(&first) = self.text.get(self.at) else { return Token::End };
        let single = match first {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => return self.number(),
            _ => return self.word(),
        };
        self.at += 1;
        single
    }

    fn word(&mut self) -> Token<'t> {
        let rest = &self.text[self.at..];
        for (word, token) in
            [(&b"true"[..], Token::Boolean(true)), (b"false", Token::Boolean(false)), (b"null", Token::Null)]
        {
            if rest.starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        let unsigned = rest.strip_prefix(b"+").unwrap_or(rest);
        let named = unsigned
            .get(..3)
            .is_some_and(|word| word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan"));
        if self.settings.lenient_numbers && named { self.number() } else { Token::Bad("invalid token") }
    }

    fn number(&mut self) -> Token<'t> {
        let rest = &self.text[self.at..];
        match if self.settings.lenient_numbers { lenient_number(rest) } else { strict_number(rest) } {
            Some((number, length)) => {
                self.at += length;
                Token::Number(number)
            }
            None => Token::Bad("invalid number"),
        }
    }

    fn string(&mut self) -> Token<'t> {
        let text = self.text;
        let begin = self.at + 1;
        let mut at = begin;
        let mut unescaped: Option<Vec<u8>> = None;
        loop {
            let rest = &text[at..];
            let plain = memchr::memchr3(b'"', b'\\', 0, rest).unwrap_or(rest.len());
            if let Some(bytes) = &mut unescaped {
                bytes.extend_from_slice(&rest[..plain]);
            }
            at += plain;
            self.token_at = at;
            match text.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    self.token_at = begin - 1;
                    return Token::String(unescaped.map_or(Cow::Borrowed(&text[begin..at]), Cow::Owned));
                }
                Some(b'\\') => {}
                _ => return Token::Bad("unexpected end of string"),
            }
            let bytes = unescaped.get_or_insert_with(|| text[begin..at].to_vec());
            match text.get(at + 1) {
                Some(b'u') => match unicode_escape(&text[at..]) {
                    Some((character, length)) => {
                        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                        at += length;
                    }
                    None => return Token::Bad("invalid unicode escape code"),
                },
                escaped => match escaped.copied().and_then(short_escape) {
                    Some(byte) => {
                        bytes.push(byte);
                        at += 2;
                    }
                    None => return Token::Bad("invalid escape code"),
                },
            }
        }
    }
}

fn short_escape(byte: u8) -> Option<u8> {
    Some(match byte {
        b'"' | b'\\' | b'/' => byte,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    })
}

/// The character that `text`, which begins with `\u`, names, and the escape's length.
fn unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    };
    let first = unit(0)?;
    if (0xD800..0xDC00).contains(&first) {
        let second = unit(6).filter(|unit| (0xDC00..0xE000).contains(unit))?;
        let character = char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))?;
        return Some((character, 12));
    }
    Some((char::from_u32(first)?, 6))
}

/// A number of RFC 8259 section 6 at the start of `text`, and its length.
fn strict_number(text: &[u8]) -> Option<(f64, usize)> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [b'0', b'0'..=b'9' | b'x' | b'X', ..] => None,
        [b'0'..=b'9', ..] => decimal(text),
        _ => None,
    }
}

/// A number as C's `strtod` reads it.
fn lenient_number(text: &[u8]) -> Option<(f64, usize)> {
    let (sign, sign_length) = match text.first() {
        Some(b'-') => (-1.0, 1),
        Some(b'+') => (1.0, 1),
        _ => (1.0, 0),
    };
    let rest = &text[sign_length..];
    let begins = |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    for (word, value) in [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)] {
        if begins(word) {
            return Some((sign * value, sign_length + word.len()));
        }
    }
    if begins(b"0x")
        && let Some((value, length)) = hexadecimal(&rest[2..])
    {
        return Some((sign * value, sign_length + 2 + length));
    }
    decimal(text)
}

/// The digits of a hexadecimal number of C, with its fraction and its exponent of two.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let digits = |from: usize| text.iter().skip(from).map_while(|byte| char::from(*byte).to_digit(16));
    let whole = digits(0).count();
    let mut value = digits(0).fold(0.0, |value, digit| value * 16.0 + f64::from(digit));
    let mut end = whole;
    if text.get(end) == Some(&b'.') {
        let fraction = digits(end + 1).count();
        let scaled = digits(end + 1).zip(1..).map(|(digit, place)| f64::from(digit) * 16_f64.powi(-place));
        value += scaled.sum::<f64>();
        end += 1 + fraction;
    }
    if whole == 0 {
        return None;
    }
    if let Some(b'p' | b'P') = text.get(end) {
        let negative = text.get(end + 1) == Some(&b'-');
        let signed = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent: Vec<u8> =
            text.iter().skip(end + 1 + signed).copied().take_while(u8::is_ascii_digit).take(9).collect();
        if let Some(power) = str::from_utf8(&exponent).ok().and_then(|digits| digits.parse::<i32>().ok()) {
            value *= 2_f64.powi(if negative { -power } else { power });
            end += 1 + signed + exponent.len();
        }
    }
    Some((value, end))
}

/// The longest decimal number at the start of `text`, and its length.
fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let run =
        |from: usize| text[from.min(text.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let sign = usize::from(text.first() == Some(&b'-'));
    let whole = run(sign);
    if whole == 0 {
        return None;
    }
    let mut end = sign + whole;
    // Up to 15 digits are exact in a double, without the general algorithm.
    if whole <= 15 && !matches!(text.get(end), Some(b'.' | b'e' | b'E')) {
        let value = text[sign..end].iter().fold(0_u64, |value, byte| value * 10 + u64::from(byte - b'0'));
        #[expect(clippy::cast_precision_loss, reason = "below 10^15, which a double holds exactly")]
        let value = value as f64;
        return Some((if sign == 1 { -value } else { value }, end));
    }
    if text.get(end) == Some(&b'.') {
        end += 1 + run(end + 1);
    }
    if let Some(b'e' | b'E') = text.get(end) {
        let signed = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent = run(end + 1 + signed);
        if exponent > 0 {
            end += 1 + signed + exponent;
        }
    }
    str::from_utf8(&text[..end]).ok()?.parse().ok().map(|value| (value, end))
}
