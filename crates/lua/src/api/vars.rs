//! `ngx.var`, and what a context knows of its route and consumer.

use super::host::Api;
use crate::lent;
use crate::vm::{self, Vm};
use mlua::{Lua, LuaString, Value};
use model::var::{Var, VarSource};
use plugin::{Authority, Exchange, MethodName, Stored, Target};

pub(super) fn open(api: &Api<'_>) -> mlua::Result<()> {
    api.put("var", |lua, name: LuaString| var(lua, &name))?;
    api.put("set_var", |lua, (name, value): (String, Value)| {
        let value = match value {
            Value::Nil => Vec::new(),
            value => match lua.coerce_string(value)? {
                Some(text) => text.as_bytes().to_vec(),
                None => return Err(mlua::Error::runtime("a variable is a string or a number")),
            },
        };
        lent::edit(|exchange| set_var(exchange, &name, value))?
    })?;
    api.put("known", known)?;
    Ok(())
}

fn var(lua: &Lua, name: &LuaString) -> mlua::Result<Option<LuaString>> {
    let name = name.to_str()?;
    let vm = Vm::of(lua)?;
    let current = vm.current.borrow();
    if let Some(request) = &current.request
        && let Some(detached) = &*request.detached.borrow()
        && !lent::is_editable()
        && lent::read(|_| ()).is_err()
    {
        let found = detached.vars.iter().find(|(known, _)| **known == *name);
        return found.map(|(_, value)| lua.create_string(value)).transpose();
    }
    if let Some(found) = lent::var(&Var::parse(&name)) {
        return found.map(|value| lua.create_string(value)).transpose();
    }
    if let Some(found) =
        lent::session(|session| session.var(&Var::parse(&name)).map(|value| value.into_owned()))
    {
        return found.map(|value| lua.create_string(value)).transpose();
    }
    lent::read(|exchange| {
        // What nginx has as an empty variable is empty here too, and not absent.
        let value = exchange.var(&Var::parse(&name));
        match value {
            Some(value) => lua.create_string(&*value).map(Some),
            None if matches!(&*name, "args" | "query_string" | "is_args" | "upstream_uri") => {
                lua.create_string("").map(Some)
            }
            None => Ok(None),
        }
    })?
}

/// Sets a variable: those that nginx acts upon, and otherwise one for logs and later plugins.
fn set_var(exchange: &mut Exchange<'_>, name: &str, value: Vec<u8>) -> mlua::Result<()> {
    let request = &mut exchange.request;
    match name {
        "upstream_uri" => request.edit().target = Some(Target::new(value)),
        "upstream_host" => match Authority::new(value) {
            Some(host) => request.edit().host = Some(host),
            None => return Err(mlua::Error::runtime("upstream_host: no host can be called so")),
        },
        "args" => request.set_query(value),
        "request_method" => {
            let name = String::from_utf8(value).ok().and_then(MethodName::new);
            let method = name.ok_or_else(|| mlua::Error::runtime("no method can be called so"))?;
            request.edit().method = Some(method);
        }
        name => {
            if let Some(field) = name.strip_prefix("http_") {
                request.edit().headers.set(&field.replace('_', "-"), value);
                return Ok(());
            }
            match exchange.vars.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = value,
                None => exchange.vars.push((name.to_owned(), value)),
            }
        }
    }
    Ok(())
}

/// What the context knows under a name: its route, its service, its consumer.
#[expect(clippy::needless_pass_by_value, reason = "a callback of Lua has its arguments")]
fn known(lua: &Lua, name: String) -> mlua::Result<Value> {
    let resource = |key: String, stored: &Stored| -> mlua::Result<Value> {
        let Some(members) = stored.members() else { return Ok(Value::Nil) };
        let table = lua.create_table()?;
        table.raw_set("key", key)?;
        table.raw_set("value", vm::to_lua(lua, &members.into())?)?;
        for version in ["modifiedIndex", "createdIndex"] {
            table.raw_set(version, 1)?;
        }
        Ok(Value::Table(table))
    };
    let text = |text: &str| match text {
        "" => Ok(Value::Nil),
        text => lua.create_string(text).map(Value::String),
    };
    lent::read(|exchange| {
        let route = exchange.route;
        match (&*name, route, exchange.consumer) {
            ("matched_route", Some(route), _) => {
                let made = resource(format!("/apisix/routes/{}", route.id), &route.stored)?;
                if let Value::Table(made) = &made {
                    made.raw_set("modifiedIndex", route.serial)?;
                }
                Ok(made)
            }
            ("matched_service", Some(route), _) => {
                resource(format!("/apisix/services/{}", route.service_id), &route.service_stored)
            }
            ("route_id" | "conf_id", Some(route), _) => text(&route.id),
            ("route_name", Some(route), _) => text(&route.name),
            ("service_id", Some(route), _) => text(&route.service_id),
            ("service_name", Some(route), _) => text(&route.service_name),
            ("conf_version", Some(route), _) => text(&route.serial.to_string()),
            ("conf_type", Some(route), _) => {
                text(if route.service_id.is_empty() { "route" } else { "route&service" })
            }
            ("consumer_name", _, Some(consumer)) => text(&consumer.name),
            ("consumer_group_id", _, Some(consumer)) => text(&consumer.group_id),
            ("consumer_ver", _, Some(consumer)) => text(&consumer.serial.to_string()),
            ("consumer", _, Some(consumer)) => {
                let members = consumer.stored.members().unwrap_or_default();
                let made = vm::to_lua(lua, &members.into())?;
                if let Value::Table(made) = &made {
                    made.raw_set("consumer_name", consumer.name.as_str())?;
                }
                Ok(made)
            }
            ("matched_path", ..) => text(exchange.matched_uri),
            ("matched_host", ..) => text(exchange.matched_host),
            _ => Ok(Value::Nil),
        }
    })?
}
