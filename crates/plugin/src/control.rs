//! A plugin's endpoints in the control API: `/v1/plugin/{plugin}/{path}`.

use crate::Shared;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// One endpoint of a plugin in the control API.
pub struct ControlApi {
    /// The method's token.
    pub method: Cow<'static, str>,
    /// The path below the plugin's; one that ends in `/*` stands for every path that begins so.
    pub path: Cow<'static, str>,
    /// Answers requests, on a thread of the control plane. It must not block for longer than the operator may wait.
    pub handler: Arc<ControlHandler>,
}

/// Answers a request to the control API.
pub type ControlHandler = dyn Fn(&ControlRequest<'_>) -> ControlAnswer + Send + Sync;

/// A request to a plugin's endpoint in the control API.
#[derive(Debug, Clone, Copy)]
pub struct ControlRequest<'a> {
    /// The method's token.
    pub method: &'a str,
    /// The path below the plugin's, decoded.
    pub path: &'a str,
    /// The query string, as received, without the `?`.
    pub query: &'a str,
    /// The body; empty where there is none.
    pub body: &'a [u8],
    /// The process's shared plugin state.
    pub shared: &'a Shared,
    /// The plugin's part of `plugin_attr` in the configuration file.
    pub attributes: Option<&'a Value>,
}

/// The answer of a plugin's endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlAnswer {
    /// The status code, 200 to 599.
    pub status: u16,
    /// The body.
    pub body: ControlBody,
}

/// The body of a [`ControlAnswer`].
#[derive(Debug, Clone, PartialEq)]
pub enum ControlBody {
    /// As `text/plain`.
    Text(String),
    /// As `application/json`.
    Json(Value),
}

impl ControlApi {
    /// An endpoint.
    pub fn new(
        method: impl Into<Cow<'static, str>>,
        path: impl Into<Cow<'static, str>>,
        handler: impl Fn(&ControlRequest<'_>) -> ControlAnswer + Send + Sync + 'static,
    ) -> Self {
        Self { method: method.into(), path: path.into(), handler: Arc::new(handler) }
    }

    pub(crate) fn answers(&self, method: &str, path: &str) -> bool {
        let on_path = match self.path.strip_suffix('*') {
            Some(start) if start.is_empty() || start.ends_with('/') => path.starts_with(start),
            _ => path == self.path,
        };
        on_path && method == self.method
    }
}

impl ControlAnswer {
    /// Status 200 and a text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { status: 200, body: ControlBody::Text(text.into()) }
    }

    /// `status` and a JSON value.
    #[must_use]
    pub fn json(status: u16, value: Value) -> Self {
        Self { status, body: ControlBody::Json(value) }
    }
}

impl fmt::Debug for ControlApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CompileContext, Hooks, PluginDef, Registry};
    use serde_json::{Map, json};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Count(AtomicU64);

    #[test]
    fn handlers_get_the_request_and_the_shared_state() {
        let put = |request: &ControlRequest<'_>| match std::str::from_utf8(request.body).map(str::parse) {
            Ok(Ok(count)) => {
                request.shared.get::<Count>().0.store(count, Ordering::Relaxed);
                ControlAnswer::text(format!("{} {}", request.path, request.query))
            }
            _ => ControlAnswer::json(400, json!({"error_msg": "a number is needed"})),
        };
        let get = |request: &ControlRequest<'_>| {
            let count = request.shared.get::<Count>().0.load(Ordering::Relaxed);
            ControlAnswer::json(200, json!([count, request.attributes]))
        };
        let compile = |_: Value, _: &CompileContext<'_>| Ok(Hooks::default());
        let mut def = PluginDef::of("count", 1, json!({"type": "object"}), compile);
        def.control_apis = vec![ControlApi::new("PUT", "set/*", put), ControlApi::new("GET", "show", get)];
        let attributes = Map::from_iter([("count".to_owned(), json!(true))]);
        let registry = Registry::new([def], attributes).expect("a valid schema");
        let ask = |method: &str, path: &str, body: &str| {
            registry.control("count", method, path, "q", body.as_bytes())
        };
        assert_eq!(ask("PUT", "set/now", "7"), Some(ControlAnswer::text("set/now q")));
        assert_eq!(ask("PUT", "set/now", "x").map(|answer| answer.status), Some(400));
        assert_eq!(ask("GET", "show", ""), Some(ControlAnswer::json(200, json!([7, true]))));
        for (method, path) in
            [("GET", "set/now"), ("PUT", "show"), ("PUT", "set"), ("GET", "show/x"), ("GET", "")]
        {
            assert_eq!(ask(method, path, "1"), None, "{method} {path}");
        }
        assert_eq!(registry.control("other", "GET", "show", "", b""), None);
    }
}
