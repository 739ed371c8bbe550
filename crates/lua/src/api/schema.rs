//! `core.schema`: JSON Schema, by the validator that resources are checked with.

use crate::json;
use mlua::{Function, Lua, MultiValue, Table, Value};
use model::schema::Validator;
use std::cell::RefCell;
use std::rc::Rc;

/// Compiled schemas that a VM keeps: one for each plugin, consumer side and metadata.
const SCHEMAS_MAX: usize = 256;

#[derive(Default)]
struct Schemas(RefCell<Vec<(Table, Rc<Validator>)>>);

/// `core.schema.check`: a schema and a value, which gets the schema's defaults.
pub(crate) fn function(lua: &Lua) -> mlua::Result<Function> {
    let schemas = Schemas::default();
    lua.create_function(move |lua, (schema, value): (Table, Value)| {
        let validator = match schemas.compiled(lua, &schema) {
            Ok(validator) => validator,
            Err(message) => return refused(lua, &message),
        };
        let mut checked = json::of(lua, &value)?;
        let report = validator.check(&checked);
        if !report.is_ok() {
            let first = report.first.into_iter().next();
            let message = first.or_else(|| report.errors.into_iter().next().map(|error| error.message));
            return refused(lua, &message.unwrap_or_default());
        }
        if let Value::Table(table) = &value {
            validator.apply_defaults(&mut checked);
            json::fill(lua, table, &checked)?;
        }
        Ok(MultiValue::from_iter([Value::Boolean(true)]))
    })
}

fn refused(lua: &Lua, message: &str) -> mlua::Result<MultiValue> {
    Ok(MultiValue::from_iter([Value::Boolean(false), Value::String(lua.create_string(message)?)]))
}

impl Schemas {
    /// The validator of a schema, by the identity of its table.
    fn compiled(&self, lua: &Lua, schema: &Table) -> Result<Rc<Validator>, String> {
        if let Some((_, known)) = self.0.borrow().iter().find(|(known, _)| known == schema) {
            return Ok(Rc::clone(known));
        }
        let document = json::schema(lua, &Value::Table(schema.clone())).map_err(|error| error.to_string())?;
        let made =
            Validator::compile(&document).map_err(|error| format!("the schema is invalid: {error}"))?;
        let made = Rc::new(made);
        let mut all = self.0.borrow_mut();
        if all.len() >= SCHEMAS_MAX {
            all.remove(0);
        }
        all.push((schema.clone(), Rc::clone(&made)));
        Ok(made)
    }
}
