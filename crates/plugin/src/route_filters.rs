//! The filters of routes: code that a host compiles.

use router::RouteFilter;
use std::fmt;
use std::sync::Arc;

/// Compiles a route's `filter_func`, or says why it can't be run.
pub type CompileFilter = dyn Fn(&str) -> Result<Arc<dyn RouteFilter>, String> + Send + Sync;

/// What compiles the filters of routes; the default refuses all of them.
#[derive(Default)]
pub struct RouteFilters(Option<Box<CompileFilter>>);

impl RouteFilters {
    /// Filters that `compile` compiles.
    #[must_use]
    pub fn new(compile: Box<CompileFilter>) -> Self {
        Self(Some(compile))
    }

    /// Compiles a route's `filter_func`.
    ///
    /// # Errors
    /// Why it can't be run.
    pub fn compile(&self, function: &str) -> Result<Arc<dyn RouteFilter>, String> {
        match &self.0 {
            Some(compile) => compile(function),
            None => Err("'filter_func' is Lua code, and there is no Lua host here".to_owned()),
        }
    }
}

impl fmt::Debug for RouteFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RouteFilters").field(&self.0.is_some()).finish()
    }
}
