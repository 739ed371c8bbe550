//! Tables as JSON: configurations and schemas, where an empty table may be an object or an array.

use mlua::{Lua, LuaSerdeExt, Table, Value};
use serde_json::{Map, Value as Json};

/// Levels of tables in tables: those of the longest schemas are a dozen.
const DEPTH_MAX: usize = 64;

/// A Lua value as JSON. Tables with the keys 1 to n are arrays, and empty ones objects unless they are known to be
/// arrays; functions and the like are left out.
///
/// # Errors
/// Tables too deep, as those that hold themselves.
pub(crate) fn of(lua: &Lua, value: &Value) -> mlua::Result<Json> {
    of_depth(lua, value, 0)
}

fn of_depth(lua: &Lua, value: &Value, depth: usize) -> mlua::Result<Json> {
    if depth > DEPTH_MAX {
        return Err(mlua::Error::runtime("the table is too deep, or holds itself"));
    }
    Ok(match value {
        Value::Boolean(value) => Json::Bool(*value),
        Value::Integer(value) => Json::from(*value),
        Value::Number(value) => number(*value),
        Value::String(text) => Json::String(text.to_string_lossy()),
        Value::Table(table) => of_table(lua, table, depth)?,
        _ => Json::Null,
    })
}

/// Whole numbers are integers, as in schemas; what JSON has no word for is null.
fn number(value: f64) -> Json {
    #[expect(clippy::cast_possible_truncation, reason = "compared with what it was")]
    let whole = value as i64;
    #[expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "as above")]
    let is_whole = whole as f64 == value && whole.unsigned_abs() < 1 << 53;
    if is_whole {
        Json::from(whole)
    } else {
        serde_json::Number::from_f64(value).map_or(Json::Null, Json::Number)
    }
}

fn of_table(lua: &Lua, table: &Table, depth: usize) -> mlua::Result<Json> {
    let length = table.raw_len();
    let is_array = table.metatable().is_some_and(|found| found == lua.array_metatable());
    if length > 0 || is_array {
        let items = (1..=length).map(|at| of_depth(lua, &table.raw_get(at)?, depth + 1));
        let array = items.collect::<mlua::Result<Vec<_>>>()?;
        // A list with named members besides is an object, as far as JSON can say it.
        if is_array || count(table)? == length {
            return Ok(Json::Array(array));
        }
    }
    let mut object = Map::new();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = lua.coerce_string(key)? else { continue };
        if !matches!(value, Value::Function(_) | Value::Thread(_) | Value::UserData(_)) {
            object.insert(key.to_string_lossy(), of_depth(lua, &value, depth + 1)?);
        }
    }
    Ok(Json::Object(object))
}

fn count(table: &Table) -> mlua::Result<usize> {
    let mut count = 0;
    for pair in table.pairs::<Value, Value>() {
        pair?;
        count += 1;
    }
    Ok(count)
}

/// The keywords of JSON Schema whose values are arrays.
const ARRAYS: &[&str] = &["required", "enum", "oneOf", "anyOf", "allOf", "examples", "type"];

/// A schema as JSON: what stands empty behind a keyword for lists is an array.
pub(crate) fn schema(lua: &Lua, value: &Value) -> mlua::Result<Json> {
    let mut schema = of(lua, value)?;
    mend(&mut schema);
    Ok(schema)
}

fn mend(schema: &mut Json) {
    match schema {
        Json::Object(members) => {
            for (name, member) in members {
                if ARRAYS.contains(&name.as_str()) && member.as_object().is_some_and(Map::is_empty) {
                    *member = Json::Array(Vec::new());
                } else if name != "default" {
                    mend(member);
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(mend),
        _ => {}
    }
}

/// Puts what `with` has and `table` lacks into `table`: the defaults of a schema.
pub(crate) fn fill(lua: &Lua, table: &Table, with: &Json) -> mlua::Result<()> {
    match with {
        Json::Object(members) => {
            for (name, member) in members {
                match table.raw_get::<Value>(name.as_str())? {
                    Value::Nil => table.raw_set(name.as_str(), lua.to_value(member)?)?,
                    Value::Table(inner) => fill(lua, &inner, member)?,
                    _ => {}
                }
            }
        }
        Json::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                if let Value::Table(inner) = table.raw_get::<Value>(at + 1)? {
                    fill(lua, &inner, item)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}
