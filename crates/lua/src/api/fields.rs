//! Fields of heads as tables.

use mlua::{Lua, Table, Value};
use plugin::HeaderEdits;

/// Adds a field to a table of fields.
pub(super) fn add(lua: &Lua, table: &Table, name: &[u8], value: &[u8]) -> mlua::Result<()> {
    let key = lua.create_string(name.to_ascii_lowercase())?;
    let value = lua.create_string(value)?;
    match table.raw_get::<Value>(&key)? {
        Value::Nil => table.raw_set(key, value),
        Value::Table(list) => list.raw_push(value),
        first => table.raw_set(key, lua.create_sequence_from([first, Value::String(value)])?),
    }
}

/// Sets the field to `values`, or appends them if `beside` is true. No value removes the field.
pub(super) fn put(headers: &mut HeaderEdits, name: &str, values: &[Vec<u8>], beside: bool) {
    let Some((first, rest)) = values.split_first() else { return headers.remove(name) };
    if beside {
        headers.append(name, first);
    } else {
        headers.set(name, first);
    }
    rest.iter().for_each(|value| headers.append(name, value));
}

/// The values that a field is given: one, or a list.
pub(super) fn values(lua: &Lua, value: Value) -> mlua::Result<Vec<Vec<u8>>> {
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::Table(list) => {
            let all = list.sequence_values::<Value>();
            all.map(|value| values(lua, value?)).collect::<mlua::Result<Vec<_>>>().map(|all| all.concat())
        }
        Value::Boolean(value) => Ok(vec![value.to_string().into_bytes()]),
        value => match lua.coerce_string(value)? {
            Some(text) => Ok(vec![text.as_bytes().to_vec()]),
            None => Err(mlua::Error::runtime("a header's value is a string, a number, a boolean or a list")),
        },
    }
}
