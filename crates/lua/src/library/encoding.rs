//! Text encodings: Base64, percent-encoding, query strings, SQL strings, CRC-32.

use base64::Engine;
use base64::alphabet::{STANDARD as STANDARD_ALPHABET, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mlua::{IntoLuaMulti, Lua, LuaString, Table, Value};

use super::natives::Natives;

/// Query arguments that `ngx.decode_args` reads if the caller gives no number.
const ARGUMENTS_DEFAULT: usize = 100;

/// Padding may be left out, and the unused bits of the last character have any value, as in nginx.
const TOLERANT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&STANDARD_ALPHABET, TOLERANT);
const STANDARD_UNPADDED: GeneralPurpose =
    GeneralPurpose::new(&STANDARD_ALPHABET, TOLERANT.with_encode_padding(false));
const URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, TOLERANT.with_encode_padding(false));

/// Adds the functions.
pub(super) fn open(natives: &Natives<'_>) -> mlua::Result<()> {
    natives.function("base64_encode", |lua, (text, unpadded): (LuaString, Option<bool>)| {
        let engine = if unpadded.unwrap_or(false) { &STANDARD_UNPADDED } else { &STANDARD };
        lua.create_string(engine.encode(text.as_bytes()))
    })?;
    natives.function("base64_decode", |lua, text: LuaString| decoded(lua, &STANDARD, &text.as_bytes()))?;
    natives.function("base64url_encode", |lua, text: LuaString| {
        lua.create_string(URL.encode(text.as_bytes()))
    })?;
    natives.function("base64url_decode", |lua, text: LuaString| decoded(lua, &URL, &text.as_bytes()))?;
    natives.function("escape", |lua, (text, kind): (LuaString, usize)| {
        lua.create_string(escape(&text.as_bytes(), &ESCAPED[kind.min(ESCAPED.len() - 1)]))
    })?;
    natives.function("unescape", |lua, text: LuaString| lua.create_string(unescape(&text.as_bytes())))?;
    natives.function("decode_args", |lua, (text, count_max): (LuaString, Option<usize>)| {
        let (table, complete) = decode_args(lua, &text.as_bytes(), count_max.unwrap_or(ARGUMENTS_DEFAULT))?;
        (table, (!complete).then_some("truncated")).into_lua_multi(lua)
    })?;
    natives.function("quote_sql", |lua, text: LuaString| lua.create_string(quote_sql(&text.as_bytes())))?;
    natives.function("crc32", |_, text: LuaString| Ok(crc32fast::hash(&text.as_bytes())))?;
    natives.function("to_hex", |lua, text: LuaString| {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        lua.create_string(text.as_bytes().iter().flat_map(digits).collect::<Vec<u8>>())
    })
}

fn decoded(lua: &Lua, engine: &GeneralPurpose, text: &[u8]) -> mlua::Result<Option<LuaString>> {
    engine.decode(text).ok().map(|bytes| lua.create_string(bytes)).transpose()
}

/// The bytes below 0x80 that are escaped, a bit for each; those from 0x80 on.
struct Escaped {
    low: [u32; 4],
    high: bool,
}

/// The sets of `ngx.escape_uri`'s second argument, as nginx numbers them; 7 is nginx's own set for URIs.
#[rustfmt::skip]
const ESCAPED: [Escaped; 8] = [
    // 0, URI: space # % ?
    Escaped { low: [!0, 0x8000_0029, 0, 0x8000_0000], high: true },
    // 1, arguments: nginx's URI set, and & + ;
    Escaped { low: [!0, 0xd800_086d, 0x5000_0000, 0xb800_0001], high: true },
    // 2, URI component: all but letters, digits and - . _ ~
    Escaped { low: [!0, 0xfc00_9fff, 0x7800_0001, 0xb800_0001], high: true },
    // 3, HTML
    Escaped { low: [!0, 0x5000_00ad, 0x5000_0000, 0xb800_0001], high: true },
    // 4, the header Refresh
    Escaped { low: [!0, 0x5000_0085, 0x5000_0000, 0xd800_0001], high: true },
    // 5, memcached's keys: space and %
    Escaped { low: [!0, 0x0000_0021, 0, 0], high: false },
    // 6, mail authentication: the same
    Escaped { low: [!0, 0x0000_0021, 0, 0], high: false },
    // 7: space " # % < > ? \ ^ ` { | }
    Escaped { low: [!0, 0xd000_002d, 0x5000_0000, 0xb800_0001], high: true },
];

impl Escaped {
    fn contains(&self, byte: u8) -> bool {
        match self.low.get(usize::from(byte >> 5)) {
            Some(word) => word >> (byte & 31) & 1 == 1,
            None => self.high,
        }
    }
}

fn escape(text: &[u8], escaped: &Escaped) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(text.len() + 16);
    for &byte in text {
        if escaped.contains(byte) {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        } else {
            out.push(byte);
        }
    }
    out
}

/// Decodes `%XX` and `+`; an incomplete escape stays as it is.
#[must_use]
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|byte| (*byte as char).to_digit(16));
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match (byte, digit(at), digit(at + 1)) {
            (b'%', Some(high), Some(low)) => {
                #[expect(clippy::cast_possible_truncation, reason = "two digits of four bits")]
                out.push((high << 4 | low) as u8);
                at += 2;
            }
            (b'+', ..) => out.push(b' '),
            _ => out.push(byte),
        }
    }
    out
}

/// Reads a query string into a table as `ngx.decode_args` does, and says whether all of it was read: a name without `=`
/// is `true`, a name that repeats is an array, and an empty name is skipped. At most `count_max` arguments are read;
/// 0 is no limit.
///
/// # Errors
///
/// The VM is out of memory.
pub fn decode_args(lua: &Lua, text: &[u8], count_max: usize) -> mlua::Result<(Table, bool)> {
    let table = lua.create_table()?;
    let parts = text.split(|byte| *byte == b'&').filter(|part| !part.is_empty());
    for (count, part) in parts.enumerate() {
        if count_max > 0 && count == count_max {
            return Ok((table, false));
        }
        let (name, value) = match memchr::memchr(b'=', part) {
            Some(at) => (&part[..at], Some(&part[at + 1..])),
            None => (part, None),
        };
        if name.is_empty() {
            continue;
        }
        let name = lua.create_string(unescape(name))?;
        let value = match value {
            Some(value) => Value::String(lua.create_string(unescape(value))?),
            None => Value::Boolean(true),
        };
        match table.raw_get(&name)? {
            Value::Nil => table.raw_set(name, value)?,
            Value::Table(values) => values.raw_push(value)?,
            first => table.raw_set(name, lua.create_sequence_from([first, value])?)?,
        }
    }
    Ok((table, true))
}

fn quote_sql(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b'\'');
    for &byte in text {
        let letter = match byte {
            0 => b'0',
            8 => b'b',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            26 => b'Z',
            b'\\' | b'\'' | b'"' => byte,
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
    }
    out.push(b'\'');
    out
}
