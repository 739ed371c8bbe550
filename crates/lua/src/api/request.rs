//! The request: fields, method, query, body.

use super::fields::{add, put, values};
use super::host::{Api, wait};
use crate::lent;
use crate::light::Pending;
use mlua::{Lua, LuaString, MultiValue, Table, Value};
use plugin::{Exchange, MethodName, Target, WholeBody};

/// Bytes of a body that a plugin without a limit of its own reads: the default of `client_max_body_size` in APISIX is
/// none, and a worker holds a bounded amount of bodies.
const BODY_BYTES_MAX: usize = 64 << 20;

pub(super) fn open(api: &Api<'_>) -> mlua::Result<()> {
    api.put("req_header", |lua, name: LuaString| {
        lent::read(|exchange| {
            let value = exchange.request.header(&name.as_bytes());
            value.map(|value| lua.create_string(value)).transpose()
        })?
    })?;
    api.put("req_headers", |lua, ()| lent::read(|exchange| headers(lua, exchange))?)?;
    api.put("req_set_header", |lua, (name, value): (String, Value)| set_header(lua, &name, value, false))?;
    api.put("req_add_header", |lua, (name, value): (String, Value)| set_header(lua, &name, value, true))?;
    api.put("req_method", |lua, ()| {
        lent::read(|exchange| {
            let edited = exchange.request.edits.as_ref().and_then(|edits| edits.method.as_deref());
            lua.create_string(edited.map_or(exchange.request.method(), str::as_bytes))
        })?
    })?;
    api.put("req_set_method", |_, name: String| {
        let method =
            MethodName::new(name).ok_or_else(|| mlua::Error::runtime("no method can be called so"))?;
        lent::edit(|exchange| exchange.request.edit().method = Some(method))
    })?;
    api.put("req_set_args", |_, query: LuaString| {
        let mut encoded = Vec::new();
        plugin::encode_controls(&query.as_bytes(), &mut encoded);
        lent::edit(|exchange| exchange.request.set_query(encoded))
    })?;
    api.put("req_set_uri", |_, path: LuaString| set_uri(&path.as_bytes()))?;
    api.put("req_version", |_, ()| {
        lent::read(|exchange| match exchange.request.view.head.facts.version() {
            b"HTTP/2.0" | b"HTTP/2" => 2.0,
            b"HTTP/1.0" => 1.0,
            _ => 1.1,
        })
    })?;
    api.put("req_raw_header", |lua, ()| {
        lent::read(|exchange| {
            let view = &exchange.request.view;
            lua.create_string(view.bytes.get(..view.head.length).unwrap_or(view.bytes))
        })?
    })?;
    api.put("req_age", |_, ()| lent::read(|exchange| exchange.timing.started.elapsed().as_secs_f64()))?;
    api.put("req_body", body)?;
    api.put("wait_body", |lua, limit: Option<usize>| {
        wait(lua, Pending::Body(limit.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX)))
    })?;
    api.put("req_set_body", |_, body: LuaString| {
        let body = body.as_bytes().to_vec();
        lent::edit(|exchange| exchange.request.edit().body = Some(body.into()))
    })?;
    Ok(())
}

/// The request's fields as the upstream would get them: names in lower case, a list where a name stands several times.
fn headers(lua: &Lua, exchange: &Exchange<'_>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let view = &exchange.request.view;
    let edits = exchange.request.edits.as_ref().map(|edits| &edits.headers);
    for field in &view.head.fields {
        let name = field.name.get(view.bytes);
        if !edits.is_some_and(|edits| edits.drops(name)) {
            add(lua, &table, name, field.value.get(view.bytes))?;
        }
    }
    for (name, value) in edits.into_iter().flat_map(plugin::HeaderEdits::fields) {
        add(lua, &table, name, value)?;
    }
    Ok(table)
}

fn set_header(lua: &Lua, name: &str, value: Value, beside: bool) -> mlua::Result<()> {
    let values = values(lua, value)?;
    lent::edit(|exchange| {
        if name.eq_ignore_ascii_case("host") {
            // As in APISIX the upstream's is chosen by `pass_host` and `upstream_host`: a second field would be a second host.
            let host = values.first().and_then(|host| plugin::Authority::new(host.as_slice()));
            exchange.request.host = host.map_or_else(Vec::new, |host| host.to_ascii_lowercase()).into();
            return;
        }
        put(&mut exchange.request.edit().headers, name, &values, beside);
    })
}

/// Puts another path in place, for later plugins and the upstream; the query stays.
fn set_uri(path: &[u8]) -> mlua::Result<()> {
    if path.is_empty() {
        return Err(mlua::Error::runtime("attempt to use zero-length uri"));
    }
    lent::edit(|exchange| {
        let mut target = Target::of_path(path).to_vec();
        if !exchange.request.query().is_empty() {
            target.push(b'?');
            target.extend_from_slice(exchange.request.query());
        }
        exchange.request.path = path.to_vec().into();
        exchange.request.edit().target = Some(Target::new(target));
    })
}

/// The body where it was read; else `nil`, and whether it can be waited for.
fn body(lua: &Lua, limit: Option<usize>) -> mlua::Result<MultiValue> {
    let limit = limit.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX);
    lent::read(|exchange| {
        let (body, why) = match exchange.request.whole_body(limit) {
            WholeBody::Whole(body) => (Value::String(lua.create_string(body)?), ""),
            WholeBody::Unread => (Value::Nil, "unread"),
            WholeBody::TooLong => (Value::Nil, "too long"),
        };
        Ok(MultiValue::from_iter([body, Value::String(lua.create_string(why)?)]))
    })?
}
