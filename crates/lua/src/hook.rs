//! The phases of an exchange, run by Lua code.

use crate::bound::Bound;
use crate::current::RequestState;
use crate::filter::LuaFilter;
use crate::lent;
use crate::phase::Phase;
use crate::run::{Caller, Outcome, Run, args_of};
use crate::vm::Vm;
use mlua::{MultiValue, Value};
use plugin::{
    Exchange, Flow, OnAccess, OnBeforeProxy, OnLog, OnPreread, OnResponse, OnRewrite, OnStreamLog, Reply,
    Session, StreamFlow, UpstreamResponse, log_for,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Lua code as a hook.
pub(crate) struct Hook(pub(crate) Arc<Bound>);

impl OnRewrite for Hook {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        self.run(Phase::Rewrite, exchange)
    }
}

impl OnAccess for Hook {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        self.run(Phase::Access, exchange)
    }
}

impl OnBeforeProxy for Hook {
    fn before_proxy(&self, exchange: &mut Exchange<'_>) -> Flow {
        match self.run(Phase::BeforeProxy, exchange) {
            Flow::Next => printed(exchange),
            flow => flow,
        }
    }
}

impl OnResponse for Hook {
    fn response(&self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) {
        let result = self.prepare(Phase::HeaderFilter, exchange).and_then(|(run, request)| {
            let Some(mut run) = run else { return Ok(request) };
            lent::response(exchange, response, || run.step())?;
            Ok(request)
        });
        match result {
            Ok(request) => {
                if let Some(filter) = LuaFilter::new(&self.0, &request, exchange, response) {
                    exchange.extras().body_filters.push(filter);
                }
            }
            Err(error) => {
                log_for!(error, exchange, plugin = &*self.0.name, "header_filter failed: {error}");
                exchange.status = 500;
            }
        }
    }
}

impl OnLog for Hook {
    fn log(&self, exchange: &Exchange<'_>) {
        if let Err(error) = look(&self.0, Phase::Log, exchange) {
            log_for!(error, exchange, plugin = &*self.0.name, "log failed: {error}");
        }
    }
}

impl OnPreread for Hook {
    fn preread(&self, session: &mut Session<'_>, _: &[u8]) -> StreamFlow {
        match look_at_session(&self.0, Phase::Preread, session) {
            Ok(None) => StreamFlow::Next,
            Ok(Some(code)) => {
                StreamFlow::Refuse(u16::try_from(code).ok().filter(|code| *code >= 200).unwrap_or(403))
            }
            Err(error) => {
                tracing::error!(plugin = &*self.0.name, "a Lua plugin failed in preread: {error}");
                StreamFlow::Refuse(500)
            }
        }
    }
}

impl OnStreamLog for Hook {
    fn log_stream(&self, session: &Session<'_>) {
        if let Err(error) = look_at_session(&self.0, Phase::StreamLog, session) {
            tracing::error!(plugin = &*self.0.name, "a Lua plugin failed in log: {error}");
        }
    }
}

/// Runs the functions of a phase of a session: the code that they end it with.
fn look_at_session(bound: &Arc<Bound>, phase: Phase, session: &Session<'_>) -> mlua::Result<Option<i64>> {
    let vm = bound.code.vm()?;
    let instance = bound.instance(&vm)?;
    let known = session.extension::<Requests>();
    let known = known.and_then(|all| all.0.iter().find(|request| request.vm == vm.serial));
    let request = known.map_or_else(|| vm.request(), |request| Ok(Rc::clone(request)))?;
    let Some(args) = args_of(&vm, &instance, phase, &request.ctx)? else { return Ok(None) };
    let name = Arc::clone(&bound.name);
    let caller = Caller { phase, name, instance: Some(instance), request: Some(request) };
    let mut run = Run::new(vm, caller, args)?;
    Ok(match lent::seen_session(session, || run.step())? {
        Outcome::Finished(results) => results.front().and_then(Value::as_i64),
        Outcome::Exited(code) => Some(code).filter(|code| *code != 0),
        Outcome::Blocked | Outcome::Body(_) => None,
    })
}

/// Runs that wait for the request's body: the hook is asked again when it is there.
#[derive(Default)]
struct Suspended(RefCell<Vec<(u64, Phase, Run)>>);

/// What the VMs have of the request.
#[derive(Default)]
struct Requests(Vec<Rc<RequestState>>);

impl Hook {
    fn run(&self, phase: Phase, exchange: &mut Exchange<'_>) -> Flow {
        if let Some(mut run) = suspended(self.0.serial, phase, exchange) {
            run.body_is_read();
            return go_on(run, self.0.serial, exchange);
        }
        match self.prepare(phase, exchange) {
            Ok((Some(run), _)) => go_on(run, self.0.serial, exchange),
            Ok((None, _)) => Flow::Next,
            Err(error) => failed(&self.0.name, phase, &error, exchange),
        }
    }

    /// A run of the phase's functions; `None` where there is none.
    fn prepare(
        &self,
        phase: Phase,
        exchange: &mut Exchange<'_>,
    ) -> mlua::Result<(Option<Run>, Rc<RequestState>)> {
        let vm = self.0.code.vm()?;
        if vm.services.borrow().is_none() {
            vm.services.replace(Some(Rc::clone(exchange.services)));
        }
        let instance = self.0.instance(&vm)?;
        let request = of_request(&vm, exchange)?;
        let caller = Caller {
            phase,
            name: Arc::clone(&self.0.name),
            instance: Some(Rc::clone(&instance)),
            request: Some(Rc::clone(&request)),
        };
        let args = args_of(&vm, &instance, phase, &request.ctx)?;
        let run = args.map(|args| Run::new(vm, caller, args)).transpose()?;
        Ok((run, request))
    }
}

/// Takes the run out that waits for the body.
fn suspended(serial: u64, phase: Phase, exchange: &Exchange<'_>) -> Option<Run> {
    let mut all = exchange.extension::<Suspended>()?.0.borrow_mut();
    let at = all.iter().position(|(of, at, _)| (*of, *at) == (serial, phase))?;
    Some(all.swap_remove(at).2)
}

/// Runs the functions of a phase in which code looks at the exchange.
pub(crate) fn look(bound: &Arc<Bound>, phase: Phase, exchange: &Exchange<'_>) -> mlua::Result<()> {
    let vm = bound.code.vm()?;
    let instance = bound.instance(&vm)?;
    let known = exchange.extension::<Requests>();
    let known = known.and_then(|all| all.0.iter().find(|request| request.vm == vm.serial));
    let request = known.map_or_else(|| vm.request(), |request| Ok(Rc::clone(request)))?;
    let caller = Caller {
        phase,
        name: Arc::clone(&bound.name),
        instance: Some(Rc::clone(&instance)),
        request: Some(Rc::clone(&request)),
    };
    let Some(args) = args_of(&vm, &instance, phase, &request.ctx)? else { return Ok(()) };
    let mut run = Run::new(vm, caller, args)?;
    lent::seen(exchange, || run.step()).map(drop)
}

/// What the VM has of the request, made at its first use.
fn of_request(vm: &Rc<Vm>, exchange: &mut Exchange<'_>) -> mlua::Result<Rc<RequestState>> {
    let known = exchange.extension::<Requests>();
    if let Some(known) = known.and_then(|all| all.0.iter().find(|request| request.vm == vm.serial)) {
        return Ok(Rc::clone(known));
    }
    let made = vm.request()?;
    let extensions = exchange.extensions();
    match extensions.get_mut::<Requests>() {
        Some(all) => all.0.push(Rc::clone(&made)),
        None => drop(extensions.insert(Requests(vec![Rc::clone(&made)]))),
    }
    Ok(made)
}

/// Runs the handler of an endpoint.
pub(crate) fn answer(bound: &Arc<Bound>, exchange: &Exchange<'_>) -> Flow {
    let start = || -> mlua::Result<(Run, Outcome)> {
        if let Some(mut run) = suspended(bound.serial, Phase::Api, exchange) {
            run.body_is_read();
            let outcome = lent::seen(exchange, || run.step())?;
            return Ok((run, outcome));
        }
        let vm = bound.code.vm()?;
        if vm.services.borrow().is_none() {
            vm.services.replace(Some(Rc::clone(exchange.services)));
        }
        let instance = bound.instance(&vm)?;
        let request = vm.request()?;
        let args = args_of(&vm, &instance, Phase::Api, &request.ctx)?.unwrap_or_default();
        let name = Arc::clone(&bound.name);
        let caller = Caller { phase: Phase::Api, name, instance: Some(instance), request: Some(request) };
        let mut run = Run::new(vm, caller, args)?;
        let outcome = lent::seen(exchange, || run.step())?;
        Ok((run, outcome))
    };
    match start() {
        Ok((run, outcome)) => settle(run, Ok(outcome), bound.serial, exchange),
        Err(error) => failed(&bound.name, Phase::Api, &error, exchange),
    }
}

/// Goes on with a run, and says what becomes of the exchange.
fn go_on(mut run: Run, serial: u64, exchange: &mut Exchange<'_>) -> Flow {
    let outcome = lent::exchange(exchange, || run.step());
    if let Ok(Outcome::Body(limit_bytes)) = outcome {
        let phase = run.caller().phase;
        let extensions = exchange.extensions();
        if extensions.get::<Suspended>().is_none() {
            extensions.insert(Suspended::default());
        }
        if let Some(all) = extensions.get_mut::<Suspended>() {
            all.0.get_mut().push((serial, phase, run));
        }
        return Flow::Body(limit_bytes);
    }
    settle(run, outcome, serial, exchange)
}

/// What an outcome means for the exchange.
fn settle(run: Run, outcome: mlua::Result<Outcome>, serial: u64, exchange: &Exchange<'_>) -> Flow {
    let phase = run.caller().phase;
    match outcome {
        Ok(Outcome::Finished(results)) => {
            conclude(&run, results).unwrap_or_else(|error| failed(run.name(), phase, &error, exchange))
        }
        Ok(Outcome::Exited(code)) => exited(&run, code),
        // An endpoint's body was not asked for in time.
        Ok(Outcome::Body(_)) => {
            let mut run = run;
            run.body_is_read();
            Flow::wait(std::future::ready(run), move |run, exchange| go_on(run, serial, exchange))
        }
        Ok(Outcome::Blocked) => Flow::wait(run.wait(), move |run, exchange| go_on(run, serial, exchange)),
        Err(error) => failed(run.name(), phase, &error, exchange),
    }
}

/// What a function's results come to: a status and a body, either of which may be missing.
pub(crate) fn conclude(run: &Run, results: MultiValue) -> mlua::Result<Flow> {
    let mut results = results.into_iter();
    let (first, second) = (results.next().unwrap_or(Value::Nil), results.next().unwrap_or(Value::Nil));
    let code = match &first {
        Value::Nil | Value::Boolean(_) if second.is_nil() => None,
        Value::Nil => None,
        value => value.as_i64().or_else(|| value.as_f64().map(|code| code as i64)),
    };
    // A body in the place of the status.
    let body =
        if code.is_none() && !matches!(first, Value::Nil | Value::Boolean(_)) { first } else { second };
    let Some(request) = &run.caller().request else { return Ok(Flow::Next) };
    if !body.is_nil() {
        let text: mlua::LuaString = run.vm.limited(|| run.vm.prelude()?.body_text.call(body))?;
        request.out.borrow_mut().extend_from_slice(&text.as_bytes());
    }
    // What was printed is sent before an upstream would be asked: later plugins may print, too.
    let goes_on = matches!(run.caller().phase, Phase::Rewrite | Phase::Access);
    Ok(match code {
        Some(code) => exited(run, code),
        None if goes_on || request.out.borrow().is_empty() => Flow::Next,
        None => exited(run, 200),
    })
}

/// What `ngx.exit` comes to.
pub(crate) fn exited(run: &Run, code: i64) -> Flow {
    run.caller().request.as_ref().map_or(Flow::Next, |request| reply(request, code))
}

/// Answers with what was printed, if anything was.
fn printed(exchange: &Exchange<'_>) -> Flow {
    let all = exchange.extension::<Requests>();
    let mut all = all.into_iter().flat_map(|all| &all.0);
    let found = all.find(|request| !request.out.borrow().is_empty());
    found.map_or(Flow::Next, |request| reply(request, 200))
}

/// The answer with this status and what was printed.
fn reply(request: &RequestState, code: i64) -> Flow {
    let out = request.out.take();
    let fields = request.fields.take();
    let set = request.status.get();
    if out.is_empty() && code < 0 {
        return if code == -1 { Flow::status(500) } else { Flow::Next };
    }
    if out.is_empty() && code < 200 {
        return Flow::Next;
    }
    // What was written is behind a head that has the status of its time.
    let code = u16::try_from(code).ok().filter(|code| (200..=599).contains(code));
    let status =
        if set != 0 && (!out.is_empty() || code.is_none_or(|code| code == 200)) { Some(set) } else { code };
    let status = status.unwrap_or(if out.is_empty() { 500 } else { 200 });
    // As in nginx: a status of 300 or more without a body is answered by the gateway's own page.
    let mut reply =
        if out.is_empty() && status >= 300 { Reply::status(status) } else { Reply::text(status, out) };
    reply.headers.extend(fields.into_iter().map(|(name, value)| (name.into(), value)));
    Flow::reply(reply)
}

fn failed(name: &str, phase: Phase, error: &mlua::Error, exchange: &Exchange<'_>) -> Flow {
    log_for!(error, exchange, plugin = name, "a Lua plugin failed in {}: {error}", phase.function());
    Flow::status(500)
}
