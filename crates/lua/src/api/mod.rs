//! The functions that Lua code calls: those that need an exchange, time or a connection.
//!
//! The functions of Rust are in one table, `host`, which plugins never see; the Lua files of `prelude` make of it what
//! OpenResty and APISIX have.

mod consumers;
mod fields;
mod host;
mod log;
mod net;
mod request;
mod response;
mod schema;
mod shared;
mod socket;
mod sync;
mod threads;
mod timers;
mod vars;

use crate::code::Code;
use crate::vm::{Prelude, to_lua};
use host::Api;
use mlua::{Lua, Table};
use std::sync::Arc;

pub(crate) use schema::function as schema_check;

/// The files of the prelude, in the order in which they are run.
const PRELUDE: &[(&str, &str)] = &[
    ("coroutines", include_str!("../prelude/coroutines.lua")),
    ("ngx", include_str!("../prelude/ngx.lua")),
    ("ngx.req", include_str!("../prelude/req.lua")),
    ("ngx.shared", include_str!("../prelude/shared.lua")),
    ("core.request", include_str!("../prelude/core_request.lua")),
    ("core.response", include_str!("../prelude/core_response.lua")),
    ("core.ctx", include_str!("../prelude/core_ctx.lua")),
    ("core", include_str!("../prelude/core.lua")),
    ("apisix", include_str!("../prelude/apisix.lua")),
    ("resty.http", include_str!("../prelude/http.lua")),
    ("resty.redis", include_str!("../prelude/redis.lua")),
];

/// Puts the API into a VM.
///
/// # Errors
/// Out of memory.
pub(crate) fn open(lua: &Lua, host: &Table, code: &Arc<Code>) -> mlua::Result<Prelude> {
    let api = Api { lua, host };
    vars::open(&api)?;
    request::open(&api)?;
    response::open(&api)?;
    log::open(&api)?;
    consumers::open(&api)?;
    threads::open(&api)?;
    sync::open(&api)?;
    net::open(&api)?;
    socket::open(&api)?;
    shared::open(&api, code)?;
    timers::open(&api)?;
    host.raw_set("attributes", to_lua(lua, &code.settings.attributes.clone().into())?)?;
    host.raw_set("local_conf", to_lua(lua, &code.settings.local_conf)?)?;
    for (name, text) in PRELUDE {
        lua.load(*text).set_name(format!("=[{name}]")).call::<()>(host)?;
    }
    Ok(Prelude {
        runner: host.raw_get("runner")?,
        make_ctx: host.raw_get("make_ctx")?,
        several: host.raw_get("several")?,
        body_text: host.raw_get("body_text")?,
    })
}
