//! HTTP calls and connections, over the worker's pools.

use super::host::{Api, duration, nil_and, services, wait_for};
use super::socket::Socket;
use crate::vm::Vm;
use bytes::Bytes;
use mlua::{Lua, LuaString, MultiValue, Table, Value};
use plugin::{Call, CallBody, CallError, CallErrorKind, CallTimeouts, Fields, UpstreamChoice};
use serde_json::json;
use std::cell::RefCell;
use std::time::Duration;

/// Bytes of an answer's body.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Servers that a VM keeps compiled: more than plugins name.
const SERVERS_MAX: usize = 256;

/// Idle connections that a server's pool keeps: the default of lua-resty-http's pools in APISIX's plugins.
const KEEPALIVE_POOL: u32 = 30;

/// The servers that code has named, compiled.
#[derive(Default)]
pub(crate) struct Servers(RefCell<Vec<(Server, UpstreamChoice)>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Server {
    scheme: &'static str,
    host: String,
    port: u16,
    verify: bool,
}

pub(super) fn open(api: &Api<'_>) -> mlua::Result<()> {
    api.lua.set_app_data(Servers::default());
    api.put("http_call", http_call)?;
    api.put("connect", |lua, (host, port, seconds, tls, verify): (String, u16, f64, bool, bool)| {
        let scheme = if tls { "tls" } else { "tcp" };
        let time = duration(seconds)?;
        let services = services(lua)?;
        let connecting = match host.strip_prefix("unix:") {
            Some(path) => services.connect_unix(path.as_ref(), time),
            None => {
                let server = compiled(lua, Server { scheme, host, port, verify })?;
                services.connect(&server, time)
            }
        };
        wait_for(lua, connecting, |lua, connected| match connected {
            Ok(io) => {
                let socket = lua.create_userdata(Socket::new(io))?;
                Ok(MultiValue::from_iter([Value::UserData(socket)]))
            }
            Err(error) => nil_and(lua, word(error)),
        })
    })?;
    api.put("set_upstream", |lua, written: Table| {
        let written = crate::json::of(lua, &Value::Table(written))?;
        let choice = match compiler(lua)?.compile(&written) {
            Ok(choice) => choice,
            Err(errors) => {
                let message = errors.first().map_or_else(String::new, ToString::to_string);
                return Ok(Some(message));
            }
        };
        crate::lent::edit(|exchange| exchange.extras().upstream = Some(choice))?;
        Ok(None)
    })?;
    api.put("set_upstream_id", |_, id: String| {
        crate::lent::edit(|exchange| exchange.extras().upstream = Some(UpstreamChoice::Id(id.into())))
    })
}

fn compiler(lua: &Lua) -> mlua::Result<plugin::UpstreamCompiler> {
    let code = Vm::of(lua)?.code()?;
    code.upstreams().ok_or_else(|| mlua::Error::runtime("there are no connections in this phase"))
}

fn compiled(lua: &Lua, server: Server) -> mlua::Result<UpstreamChoice> {
    let known = |servers: &Servers| {
        servers.0.borrow().iter().find(|(known, _)| *known == server).map(|(_, choice)| choice.clone())
    };
    if let Some(choice) = lua.app_data_ref::<Servers>().and_then(|servers| known(&servers)) {
        return Ok(choice);
    }
    let host = server.host.trim_start_matches('[').trim_end_matches(']');
    let written = json!({
        "type": "roundrobin",
        "scheme": server.scheme,
        "pass_host": "node",
        "nodes": [{ "host": host, "port": server.port, "weight": 1 }],
        "retries": 0,
        "tls": { "verify": server.verify },
        "keepalive_pool": { "size": KEEPALIVE_POOL, "idle_timeout": 60, "requests": 1000 },
    });
    let made = compiler(lua)?.compile(&written).map_err(|errors| {
        mlua::Error::runtime(errors.first().map_or_else(String::new, ToString::to_string))
    })?;
    if let Some(servers) = lua.app_data_ref::<Servers>() {
        let mut all = servers.0.borrow_mut();
        if all.len() >= SERVERS_MAX {
            all.remove(0);
        }
        all.push((server, made.clone()));
    }
    Ok(made)
}

/// The cause of a failure, in the word that nginx's sockets have for it.
fn word(error: CallError) -> &'static str {
    match error.kind {
        CallErrorKind::Timeout => "timeout",
        CallErrorKind::NoNode => "host not found",
        _ => error.reason,
    }
}

/// Sends a request; the code gets status, fields and body, or `nil` and a message.
#[expect(clippy::needless_pass_by_value, reason = "a callback of Lua has its arguments")]
fn http_call(lua: &Lua, params: Table) -> mlua::Result<()> {
    let text = |key: &str| params.get::<Option<String>>(key);
    let seconds = |key: &str| -> mlua::Result<Duration> {
        let ms = params.get::<Option<f64>>(key)?.filter(|ms| *ms > 0.0).unwrap_or(60_000.0);
        duration(ms / 1000.0)
    };
    let scheme = if text("scheme")?.as_deref() == Some("https") { "https" } else { "http" };
    let host = text("host")?.ok_or_else(|| mlua::Error::runtime("no host"))?;
    let port = params.get::<Option<u16>>("port")?.unwrap_or(if scheme == "https" { 443 } else { 80 });
    let verify = params.get::<Option<bool>>("ssl_verify")?.unwrap_or(true);
    let timeouts = CallTimeouts {
        connect: seconds("connect_timeout")?,
        send: seconds("send_timeout")?,
        read: seconds("read_timeout")?,
    };
    let authority = match text("authority")? {
        Some(authority) => authority,
        None if matches!((scheme, port), ("http", 80) | ("https", 443)) => host.clone(),
        None => format!("{host}:{port}"),
    };
    let target: LuaString = params.get("target")?;
    let method = text("method")?.unwrap_or_else(|| "GET".to_owned());
    let call = Call::new(&method, authority, target.as_bytes().to_vec(), timeouts);
    let mut call = call.map_err(|error| mlua::Error::runtime(error.to_string()))?;
    for field in params.get::<Table>("fields")?.sequence_values::<Table>() {
        let field = field?;
        let (name, value): (String, LuaString) = (field.raw_get(1)?, field.raw_get(2)?);
        call.headers.append(&name, value.as_bytes());
    }
    if let Some(body) = params.get::<Option<LuaString>>("body")? {
        call.body = CallBody::Bytes(Bytes::copy_from_slice(&body.as_bytes()));
    }
    let server = compiled(lua, Server { scheme, host, port, verify })?;
    let answer = services(lua)?.call(&server, call);
    let answer = async move { answer.await?.collect(ANSWER_BYTES_MAX).await };
    wait_for(lua, answer, |lua, answer| match answer {
        Ok((status, Fields(fields), body)) => {
            let table = lua.create_table()?;
            for (name, value) in fields {
                table.raw_push(
                    lua.create_sequence_from([lua.create_string(name)?, lua.create_string(value)?])?,
                )?;
            }
            let body = Value::String(lua.create_string(body)?);
            Ok(MultiValue::from_iter([Value::Integer(status.into()), Value::Table(table), body]))
        }
        Err(error) => nil_and(lua, word(error)),
    })
}
