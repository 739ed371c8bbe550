//! The body filters of Lua plugins.

use crate::bound::Bound;
use crate::current::{Detached, RequestState};
use crate::head::all_headers;
use crate::lent;
use crate::phase::Phase;
use crate::run::{Caller, Run, args_of};
use crate::vm::Vm;
use mlua::{Table, Value};
use model::var::{Var, VarSource};
use plugin::{BodyFilter, Exchange, UpstreamResponse};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Variables that body filters can read: the exchange is gone from them by then.
const VARS: &[&str] = &[
    "uri",
    "request_uri",
    "request_method",
    "args",
    "host",
    "scheme",
    "remote_addr",
    "server_addr",
    "server_port",
    "request_id",
    "status",
    "upstream_status",
    "upstream_addr",
    "upstream_uri",
    "upstream_host",
    "http_accept",
    "http_user_agent",
    "http_referer",
    "http_origin",
    "http_authorization",
    "content_type",
    "route_id",
    "route_name",
    "service_id",
    "consumer_name",
];

/// A plugin's body filters on one response.
pub(crate) struct LuaFilter {
    bound: Arc<Bound>,
    vm: Rc<Vm>,
    request: Rc<RequestState>,
    phases: Vec<Phase>,
}

impl LuaFilter {
    /// The filters of `bound`, if it has any.
    pub(crate) fn new(
        bound: &Arc<Bound>,
        request: &Rc<RequestState>,
        exchange: &Exchange<'_>,
        response: &UpstreamResponse<'_>,
    ) -> Option<Self> {
        let vm = bound.code.vm().ok()?;
        let instance = bound.instance(&vm).ok()?;
        let phases = [Phase::BodyFilter, Phase::DelayedBodyFilter];
        let phases: Vec<_> =
            phases.into_iter().filter(|phase| !instance.functions(*phase).is_empty()).collect();
        if phases.is_empty() {
            return None;
        }
        let vars =
            VARS.iter().filter_map(|name| Some((*name, exchange.var(&Var::parse(name))?.into_owned())));
        let detached = Detached {
            status: exchange.status,
            headers: all_headers(exchange, Some(response)),
            vars: vars.collect(),
        };
        request.detached.replace(Some(detached));
        Some(Self { bound: Arc::clone(bound), vm, request: Rc::clone(request), phases })
    }

    fn filter(&self, piece: &[u8], eof: bool, out: &mut Vec<u8>) -> mlua::Result<()> {
        let lua = &self.vm.lua;
        let ngx: Table = lua.globals().raw_get("ngx")?;
        let arg: Table = ngx.raw_get("arg")?;
        arg.raw_set(1, lua.create_string(piece)?)?;
        arg.raw_set(2, eof)?;
        for phase in &self.phases {
            let instance = self.bound.instance(&self.vm)?;
            let caller = Caller {
                phase: *phase,
                name: Arc::clone(&self.bound.name),
                instance: Some(Rc::clone(&instance)),
                request: Some(Rc::clone(&self.request)),
            };
            let Some(args) = args_of(&self.vm, &instance, *phase, &self.request.ctx)? else {
                continue;
            };
            let mut run = Run::new(Rc::clone(&self.vm), caller, args)?;
            lent::nothing(|| run.step())?;
        }
        match arg.raw_get::<Value>(1)? {
            Value::Nil => {}
            Value::Table(pieces) => {
                for piece in pieces.sequence_values::<mlua::LuaString>() {
                    out.extend_from_slice(&piece?.as_bytes());
                }
            }
            value => {
                if let Some(text) = lua.coerce_string(value)? {
                    out.extend_from_slice(&text.as_bytes());
                }
            }
        }
        arg.raw_set(1, Value::Nil)
    }

    fn filtered(&self, piece: &[u8], eof: bool, out: &mut Vec<u8>) -> io::Result<()> {
        self.filter(piece, eof, out).map_err(|error| {
            tracing::error!(plugin = &*self.bound.name, "a Lua plugin failed in body_filter: {error}");
            io::Error::other(format!("the body filter of the plugin {} failed", self.bound.name))
        })
    }
}

impl BodyFilter for LuaFilter {
    fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.filtered(piece, false, out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.filtered(b"", true, out)
    }
}
