//! `filter_func`: functions that say whether a route takes a request.

use crate::bound::{Bound, What};
use crate::code::Code;
use crate::phase::Phase;
use crate::run::{Caller, Outcome, Run};
use crate::{lent, serverless};
use mlua::Value;
use model::var::VarSource;
use router::RouteFilter;
use std::fmt;
use std::sync::Arc;

/// What messages call the code.
const NAME: &str = "filter_func";

/// A route's function. It sees the request's variables, and nothing else of it: no route has been chosen yet.
struct Filter(Arc<Bound>);

/// Compiles a function.
///
/// # Errors
/// Why it can't be run.
pub(crate) fn compile(code: &Arc<Code>, function: &str) -> Result<Arc<dyn RouteFilter>, String> {
    let text = format!("return {function}");
    serverless::function(code, NAME, &text)
        .map_err(|why| format!("failed to load 'filter_func' string: {why}"))?;
    let bound = Bound::in_resource(code, NAME, What::Filter(text));
    Ok(Arc::new(Filter(bound)))
}

impl Filter {
    fn ask(&self, vars: &dyn VarSource) -> mlua::Result<bool> {
        let vm = self.0.code.vm()?;
        let instance = self.0.instance(&vm)?;
        let request = vm.request()?;
        let Some(function) = instance.functions(Phase::Init).first() else { return Ok(false) };
        let args = [Value::Function(function.clone()), request.ctx.get::<Value>("var")?];
        let caller = Caller {
            phase: Phase::Init,
            name: Arc::clone(&self.0.name),
            instance: Some(std::rc::Rc::clone(&instance)),
            request: Some(request),
        };
        let mut run = Run::new(vm, caller, args.into_iter().collect())?;
        Ok(match lent::nothing(|| lent::vars(vars, || run.step()))? {
            Outcome::Finished(results) => {
                !matches!(results.front(), None | Some(Value::Nil | Value::Boolean(false)))
            }
            _ => false,
        })
    }
}

impl RouteFilter for Filter {
    fn admits(&self, vars: &dyn VarSource) -> bool {
        self.ask(vars).unwrap_or_else(|error| {
            tracing::error!("filter_func failed, the route does not match: {error}");
            false
        })
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}
