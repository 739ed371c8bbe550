//! What a request must satisfy besides host and path.

use crate::networks::parse_network;
use crate::{Expr, MethodSet, Networks, RequestFacts};
use model::var::{BodyNeed, VarSource};
use model::{ConfigError, Route};
use std::fmt;
use std::sync::Arc;

/// The compiled conditions of a route; the default lets every request pass.
///
/// They are asked in the order of the fields, the cheap ones first. A route's `filter_func` is code, which whoever
/// compiles routes puts in place.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// Methods; the empty set means all.
    pub methods: MethodSet,
    /// Client addresses; the empty list means all.
    pub remote_addrs: Networks,
    /// Conditions on variables.
    pub vars: Option<Expr>,
    /// The route's `filter_func`.
    pub filter: Option<Arc<dyn RouteFilter>>,
}

/// A condition that is code.
pub trait RouteFilter: fmt::Debug + Send + Sync {
    /// Whether the request with these variables passes. Code that fails lets none pass.
    fn admits(&self, vars: &dyn VarSource) -> bool;
}

/// One condition of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// `host`, `hosts`
    Host,
    /// `uri`, `uris`
    Path,
    /// `methods`
    Method,
    /// `remote_addr`, `remote_addrs`
    RemoteAddr,
    /// `vars`: the rule of this index; `None` where the rules are joined by an operator, and it is the whole.
    Vars(Option<usize>),
    /// `filter_func`
    Filter,
}

impl Condition {
    /// Its name, after the field of the route.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Path => "uri",
            Self::Method => "methods",
            Self::RemoteAddr => "remote_addr",
            Self::Vars(_) => "vars",
            Self::Filter => "filter_func",
        }
    }
}

impl Conditions {
    /// Compiles `methods`, `remote_addr` or `remote_addrs`, and `vars` of `route`. Every mistake is reported, with a
    /// pointer into the route.
    pub fn compile(route: &Route) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let mut keep = |prefix: &str, found: Vec<ConfigError>| {
            errors.extend(found.into_iter().map(|error| error.under(prefix)));
        };
        let methods =
            MethodSet::compile(route.methods.as_deref().unwrap_or_default()).unwrap_or_else(|found| {
                keep("/methods", found);
                MethodSet::default()
            });
        let mut networks = Vec::new();
        // Of the two fields APISIX prefers the list.
        let (addrs, single) = match (&route.remote_addrs, &route.remote_addr) {
            (Some(several), _) => (several.as_slice(), false),
            (None, one) => (one.as_slice(), true),
        };
        for (at, addr) in addrs.iter().enumerate() {
            let path = if single { "/remote_addr".to_owned() } else { format!("/remote_addrs/{at}") };
            match parse_network(addr) {
                Ok(network) => networks.push(network),
                Err(message) => keep(&path, vec![ConfigError::new("", message)]),
            }
        }
        let vars = route
            .vars
            .as_ref()
            .and_then(|vars| Expr::compile(vars).map_err(|found| keep("/vars", found)).ok());
        if errors.is_empty() {
            Ok(Self { methods, remote_addrs: Networks::new(networks), vars, filter: None })
        } else {
            Err(errors)
        }
    }

    /// What of the body the conditions look at.
    #[must_use]
    pub fn body_need(&self) -> BodyNeed {
        self.vars.as_ref().map(Expr::body_need).unwrap_or_default()
    }

    /// The first condition that `request` does not meet; `None` where [`Self::allow`] lets it pass.
    pub fn first_failed<R: RequestFacts>(&self, request: &R) -> Option<Condition> {
        if !self.methods.allows(request.method()) {
            return Some(Condition::Method);
        }
        if !self.remote_addrs.is_empty() && !self.remote_addrs.contains(request.remote_ip()) {
            return Some(Condition::RemoteAddr);
        }
        if let Some(failed) = self.vars.as_ref().and_then(|vars| vars.first_failed(request)) {
            return Some(Condition::Vars(failed));
        }
        self.filter.as_ref().filter(|filter| !filter.admits(request)).map(|_| Condition::Filter)
    }

    /// Whether `request` passes.
    #[inline]
    pub fn allow<R: RequestFacts>(&self, request: &R) -> bool {
        self.methods.allows(request.method())
            && (self.remote_addrs.is_empty() || self.remote_addrs.contains(request.remote_ip()))
            && self.vars.as_ref().is_none_or(|vars| vars.eval(request))
            && self.filter.as_ref().is_none_or(|filter| filter.admits(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_mistake_of_a_route_is_named() {
        let route = Route {
            methods: Some(vec!["GET".into(), "BREW".into()]),
            remote_addrs: Some(vec!["::1".into(), "nowhere".into()]),
            vars: Some(json!([["arg_k", "=", 1]])),
            ..Route::default()
        };
        let errors = Conditions::compile(&route).map(|_| ()).expect_err("three mistakes");
        let paths: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, ["/methods/1", "/remote_addrs/1", "/vars/0/1"]);

        let route = Route { remote_addr: Some("nowhere".into()), ..Route::default() };
        let errors = Conditions::compile(&route).map(|_| ()).expect_err("one mistake");
        assert_eq!(errors, [ConfigError::new("/remote_addr", "invalid ip address: nowhere")]);
    }
}
