//! `ngx.re`: regular expressions over byte strings.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};

use super::natives::Natives;
use super::patterns::{Groups, Options, Pattern, Patterns};
use super::replacement::Replacement;

/// The result of a replacement. It is built outside the VM's own memory, and a template of many groups multiplies the
/// subject.
const RESULT_BYTES_MAX: usize = 64 << 20;

/// What a native function returns when it fails: `nil`, a message, and whether the caller's arguments are wrong, which
/// the Lua code raises.
type Failure = (String, bool);

/// Adds `regex_exec(subject, pattern, options, from, table)`, which returns the table of groups and the bounds of the
/// match and of the search for the next; `regex_find(subject, pattern, options, from, group)`; and
/// `regex_replace(subject, pattern, template, options, global)`. Positions are Lua's, from 1.
pub(super) fn open(natives: &Natives<'_>) -> mlua::Result<()> {
    type Exec = (LuaString, LuaString, Option<LuaString>, usize, Option<Table>);
    let patterns = Rc::new(RefCell::new(Patterns::default()));
    let shared = Rc::clone(&patterns);
    natives.function("regex_exec", move |lua, (subject, pattern, options, from, table): Exec| {
        let pattern = match compiled(&shared, &pattern, options.as_ref()) {
            Ok(pattern) => pattern,
            Err(failure) => return failed(lua, failure),
        };
        let bytes = subject.as_bytes();
        match pattern.find(&bytes, from.saturating_sub(1)) {
            Ok(Some(groups)) => {
                let table = captures(lua, &pattern, &groups, &bytes, table)?;
                let whole = groups[0].unwrap_or_default();
                (table, whole.0 + 1, whole.1, pattern.following(&bytes, whole) + 1).into_lua_multi(lua)
            }
            Ok(None) => Value::Nil.into_lua_multi(lua),
            Err(error) => failed(lua, (error, false)),
        }
    })?;
    type Find = (LuaString, LuaString, Option<LuaString>, usize, Option<usize>);
    let shared = Rc::clone(&patterns);
    natives.function("regex_find", move |lua, (subject, pattern, options, from, group): Find| {
        let found = compiled(&shared, &pattern, options.as_ref()).and_then(|pattern| {
            let groups = pattern.find(&subject.as_bytes(), from.saturating_sub(1));
            groups.map_err(|error| (error, false))
        });
        match found {
            Ok(Some(groups)) => {
                let whole = groups[0].unwrap_or_default();
                let Some(bounds) = groups.get(group.unwrap_or(0)) else {
                    return failed(lua, ("nth out of bound".to_owned(), false));
                };
                let bounds = bounds.map(|(start, end)| (start + 1, end));
                (bounds.map(|bounds| bounds.0), bounds.map(|bounds| bounds.1), Value::Nil, whole.1 + 1)
                    .into_lua_multi(lua)
            }
            Ok(None) => Value::Nil.into_lua_multi(lua),
            Err(failure) => failed(lua, failure),
        }
    })?;
    type Replace = (LuaString, LuaString, LuaString, Option<LuaString>, bool);
    natives.function("regex_replace", move |lua, (subject, pattern, template, options, global): Replace| {
        let replaced = compiled(&patterns, &pattern, options.as_ref()).and_then(|pattern| {
            replaced(&pattern, &subject.as_bytes(), &template.as_bytes(), global)
                .map_err(|error| (error, false))
        });
        match replaced {
            Ok((_, 0)) => (subject, 0).into_lua_multi(lua),
            Ok((bytes, count)) => (lua.create_string(bytes)?, count).into_lua_multi(lua),
            Err(failure) => failed(lua, failure),
        }
    })
}

fn failed(lua: &Lua, (message, raised): Failure) -> mlua::Result<MultiValue> {
    (Value::Nil, message, raised).into_lua_multi(lua)
}

fn compiled(
    patterns: &RefCell<Patterns>,
    pattern: &LuaString,
    options: Option<&LuaString>,
) -> Result<Rc<Pattern>, Failure> {
    let options = match options {
        Some(letters) => Options::parse(&letters.as_bytes()).map_err(|letter| {
            (format!("unknown flag \"{letter}\" (flags \"{}\")", letters.to_string_lossy()), true)
        })?,
        None => Options::default(),
    };
    patterns.borrow_mut().compiled(&pattern.as_bytes(), options).map_err(|error| (error, false))
}

/// Puts the groups into `table`, or a new one: by number from 0 and by name, `false` for one that took no part.
fn captures(
    lua: &Lua,
    pattern: &Pattern,
    groups: &Groups,
    subject: &[u8],
    table: Option<Table>,
) -> mlua::Result<Table> {
    let table = match table {
        Some(table) => table,
        None => lua.create_table_with_capacity(groups.len(), 1)?,
    };
    for (number, group) in groups.iter().enumerate() {
        match group {
            Some((start, end)) => table.raw_set(number, LuaString::wrap(&subject[*start..*end]))?,
            None => table.raw_set(number, false)?,
        }
    }
    for (number, name) in pattern.regex.capture_names().iter().enumerate() {
        let Some(name) = name else { continue };
        match groups.get(number).copied().flatten() {
            Some((start, end)) => table.raw_set(name.as_str(), LuaString::wrap(&subject[start..end]))?,
            // Groups of the same name: the one that took part wins.
            None if table.raw_get::<Value>(name.as_str())?.is_string() => {}
            None => table.raw_set(name.as_str(), false)?,
        }
    }
    Ok(table)
}

/// `subject` with the first match, or every one, replaced, and their count.
fn replaced(
    pattern: &Pattern,
    subject: &[u8],
    template: &[u8],
    global: bool,
) -> Result<(Vec<u8>, usize), String> {
    let template = Replacement::parse(template)?;
    let mut out = Vec::new();
    let (mut copied, mut from, mut count) = (0, 0, 0);
    while let Some(groups) = pattern.find(subject, from)? {
        let (start, end) = groups[0].unwrap_or_default();
        count += 1;
        // `\K` and lookbehind can put a match before the end of the previous one.
        out.extend_from_slice(subject.get(copied..start).unwrap_or_default());
        template.expand(subject, &groups, &mut out);
        if out.len() > RESULT_BYTES_MAX {
            return Err(format!("the result has more than {RESULT_BYTES_MAX} bytes"));
        }
        copied = end.max(copied);
        from = pattern.following(subject, (start, end)).max(from + 1);
        if !global {
            break;
        }
    }
    out.extend_from_slice(&subject[copied..]);
    Ok((out, count))
}
