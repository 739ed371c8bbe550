//! The response: fields, status, what is printed.

use super::fields::{add, put, values};
use super::host::Api;
use crate::head::all_headers;
use crate::lent;
use crate::vm::Vm;
use mlua::{Lua, LuaString, Value};

/// Bytes that a plugin may print for one response.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

pub(super) fn open(api: &Api<'_>) -> mlua::Result<()> {
    api.put("resp_header", |lua, name: LuaString| header(lua, &name.as_bytes()))?;
    api.put("resp_headers", |lua, ()| {
        let table = lua.create_table()?;
        let all = match detached(lua, |known| known.headers.clone())? {
            Some(all) => all,
            None => lent::read(|exchange| {
                lent::origin(|response| all_headers(exchange, Some(response)))
                    .unwrap_or_else(|| all_headers(exchange, None))
            })?,
        };
        for (name, value) in all {
            add(lua, &table, name.as_bytes(), &value)?;
        }
        Ok(table)
    })?;
    api.put("resp_set_header", |lua, (name, value): (String, Value)| set_header(lua, &name, value, false))?;
    api.put("resp_add_header", |lua, (name, value): (String, Value)| set_header(lua, &name, value, true))?;
    api.put("status", |lua, ()| {
        if let Some(status) = detached(lua, |known| known.status)? {
            return Ok(status);
        }
        let set = Vm::of(lua)?.current.borrow().request.as_ref().map_or(0, |request| request.status.get());
        let status = lent::read(|exchange| exchange.status).unwrap_or(0);
        Ok(if status == 0 { set } else { status })
    })?;
    api.put("set_status", |lua, status: u16| {
        if !(100..=999).contains(&status) {
            return Err(mlua::Error::runtime("a status has three digits"));
        }
        if lent::origin(|_| ()).is_some() {
            return lent::edit(|exchange| exchange.status = status);
        }
        if let Some(request) = &Vm::of(lua)?.current.borrow().request {
            request.status.set(status);
        }
        Ok(())
    })?;
    api.put("print", |lua, text: LuaString| {
        let vm = Vm::of(lua)?;
        let current = vm.current.borrow();
        let Some(request) = current.request.as_ref().filter(|_| current.phase.may_answer()) else {
            return Err(disabled(&current));
        };
        let mut out = request.out.borrow_mut();
        if out.len() + text.as_bytes().len() > OUTPUT_BYTES_MAX {
            return Err(mlua::Error::runtime("too much output for one response"));
        }
        out.extend_from_slice(&text.as_bytes());
        Ok(())
    })?;
    api.put("exit", |lua, code: i64| {
        let vm = Vm::of(lua)?;
        vm.current.borrow_mut().exit = Some(code);
        Ok(())
    })?;
    api.put("phase", |lua, ()| Ok(Vm::of(lua)?.current.borrow().phase.of_nginx()))?;
    api.put("own_phase", |lua, ()| Ok(Vm::of(lua)?.current.borrow().phase.function()))?;
    api.put("plugin_name", |lua, ()| Ok(Vm::of(lua)?.current.borrow().name.as_deref().map(str::to_owned)))?;
    api.put("ngx_ctx", |lua, ()| {
        let vm = Vm::of(lua)?;
        let current = vm.current.borrow();
        Ok(current.request.as_ref().map(|request| request.ngx_ctx.clone()))
    })?;
    api.put("upstream_length", |_, ()| Ok(lent::origin(|response| response.length()).flatten()))?;
    Ok(())
}

fn disabled(current: &crate::current::Current) -> mlua::Error {
    mlua::Error::runtime(format!("API disabled in the context of {}", current.phase.of_nginx()))
}

/// What a body filter knows of its response; `None` where there is an exchange.
fn detached<R>(lua: &Lua, of: impl FnOnce(&crate::current::Detached) -> R) -> mlua::Result<Option<R>> {
    if lent::read(|_| ()).is_ok() {
        return Ok(None);
    }
    let vm = Vm::of(lua)?;
    let current = vm.current.borrow();
    let Some(request) = &current.request else { return Ok(None) };
    let detached = request.detached.borrow();
    Ok(detached.as_ref().map(of))
}

fn header(lua: &Lua, name: &[u8]) -> mlua::Result<Value> {
    let known = detached(lua, |known| {
        known.headers.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name)).cloned()
    })?;
    if let Some(known) = known {
        return known.map_or(Ok(Value::Nil), |(_, value)| lua.create_string(value).map(Value::String));
    }
    lent::read(|exchange| {
        let edits = &exchange.reply_headers;
        let value = lent::origin(|response| response.header(name, edits).map(<[u8]>::to_vec));
        let value = value.unwrap_or_else(|| edits.get(name).flatten().map(<[u8]>::to_vec));
        value.map_or(Ok(Value::Nil), |value| lua.create_string(value).map(Value::String))
    })?
}

fn set_header(lua: &Lua, name: &str, value: Value, beside: bool) -> mlua::Result<()> {
    let values = values(lua, value)?;
    let edited = lent::edit(|exchange| {
        put(exchange.reply_headers, name, &values, beside);
    });
    if edited.is_ok() {
        return Ok(());
    }
    // An endpoint's answer has fields of its own.
    let vm = Vm::of(lua)?;
    let current = vm.current.borrow();
    match &current.request {
        Some(request) if current.phase.may_answer() => {
            let mut fields = request.fields.borrow_mut();
            if !beside {
                fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            }
            fields.extend(values.into_iter().map(|value| (name.to_owned(), value)));
            Ok(())
        }
        _ => Err(disabled(&current)),
    }
}
