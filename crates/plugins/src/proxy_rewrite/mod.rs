//! Rewrites the request to the upstream: path, method, `Host` and header fields.
//!
//! ## When to use
//! Use it when the upstream's paths or hosts differ from those of clients, or when it needs additional header fields.
//! Values can contain variables: `$remote_addr`, `$arg_name`, and `$1` for captures of `regex_uri`.
//!
//! ## Example
//! ```json
//! {
//!     "proxy-rewrite": {
//!         "regex_uri": ["^/v1/(.*)", "/api/$1"],
//!         "headers": {
//!             "set": {"X-Client": "$remote_addr"},
//!             "remove": ["X-Debug"]
//!         }
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - Framing and hop-by-hop fields (`Content-Length`, `Transfer-Encoding`, `Connection` and others) cannot be set; a field
//!   `Host` is treated as `host`.
//! - A `host` that becomes invalid by what the client sent (a space, a line break, a slash) is answered with 400, as nginx
//!   answers an invalid `Host`; bytes of a path that can't stand in a request line are percent-encoded.

mod schema;

use crate::headers::{self, HeaderOps, is_of_connection};
use crate::text::{Substitution, encode_controls, encode_path};
use model::ConfigError;
use model::var::{Template, Var, VarSource};
use plugin::{
    Authority, CompileContext, Exchange, Flow, MethodName, OnRewrite, Plugin, PluginDef, Reply, Target,
    log_for,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ProxyRewrite>("proxy-rewrite", 1008).on_rewrite().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    uri: Option<String>,
    #[serde(default)]
    regex_uri: Vec<String>,
    method: Option<String>,
    host: Option<String>,
    headers: Option<Map<String, Value>>,
    use_real_request_uri_unsafe: bool,
}

/// The compiled form.
pub struct ProxyRewrite {
    uri: Option<Template>,
    regex_uri: Vec<Substitution>,
    method: Option<MethodName>,
    host: Option<Template>,
    headers: HeaderOps,
    real_uri: bool,
}

impl Plugin for ProxyRewrite {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let mut regex_uri = Vec::new();
        if !config.regex_uri.len().is_multiple_of(2) {
            let message = "The length of regex_uri should be an even number";
            errors.push(ConfigError::new("/regex_uri", message));
        }
        for pair in config.regex_uri.chunks_exact(2) {
            match Substitution::compile(&pair[0], &pair[1], false, "/regex_uri") {
                Ok(substitution) => regex_uri.push(substitution),
                Err(error) => {
                    let message = format!("invalid regex_uri({}, {}): {}", pair[0], pair[1], error.message);
                    errors.push(ConfigError { message, ..error });
                }
            }
        }
        let mut headers = compile_headers(config.headers.as_ref(), &mut errors);
        let host = headers.set.iter().position(|(name, _)| name.eq_ignore_ascii_case("host"));
        let of_header = host.and_then(|at| headers.set.remove(at).1.into_iter().next());
        let method = config
            .method
            .map(|name| MethodName::new(name).ok_or_else(|| ConfigError::new("/method", "is no method")));
        let method = method.transpose().unwrap_or_else(|error| {
            errors.push(error);
            None
        });
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self {
            uri: config.uri.as_deref().map(Template::parse),
            regex_uri,
            method,
            host: config.host.as_deref().map(Template::parse).or(of_header),
            headers: headers.without(|name| name.eq_ignore_ascii_case("host") || is_of_connection(name)),
            real_uri: config.use_real_request_uri_unsafe,
        })
    }

    fn schema() -> Value {
        schema::config()
    }
}

/// The operations; the old form is an object of fields to set. The messages are APISIX's.
fn compile_headers(headers: Option<&Map<String, Value>>, errors: &mut Vec<ConfigError>) -> HeaderOps {
    let Some(headers) = headers else { return HeaderOps::default() };
    let object = |name: &str| headers.get(name).and_then(Value::as_object);
    let removed = headers.get("remove").and_then(Value::as_array);
    let ops = if object("add").is_some() || object("set").is_some() || removed.is_some() {
        let add = HeaderOps::fields(object("add"));
        let one_by_one =
            |(name, values): (String, Vec<Template>)| values.into_iter().map(move |v| (name.clone(), v));
        HeaderOps {
            add: add.into_iter().flat_map(one_by_one).collect(),
            set: HeaderOps::fields(object("set")),
            remove: removed.into_iter().flatten().filter_map(headers::text).collect(),
        }
    } else {
        let is_text = |value: &str| value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if headers.values().filter_map(headers::text).any(|value| !is_text(&value)) {
            errors.push(ConfigError::new("/headers", "invalid value character in header"));
        }
        HeaderOps { set: HeaderOps::fields(Some(headers)), ..HeaderOps::default() }
    };
    errors.extend(ops.check_names().err());
    ops
}

/// A `Host` that no host can be called, because of what the client sent.
struct NoHost;

/// The exchange's variables and what an expression captured: `$1`.
struct WithCaptures<'e, 'x> {
    exchange: &'e Exchange<'x>,
    captures: &'e [Vec<u8>],
}

impl VarSource for WithCaptures<'_, '_> {
    fn var(&self, var: &Var) -> Option<Cow<'_, [u8]>> {
        if let Var::Custom(name) = var
            && let Ok(number) = name.parse::<usize>()
        {
            return self.captures.get(number).map(|text| Cow::Borrowed(text.as_slice()));
        }
        self.exchange.var(var)
    }
}

/// The exchange's variables for a path: a `?` in them is none that begins a query.
struct ForPath<'e, 'x>(&'e Exchange<'x>);

impl VarSource for ForPath<'_, '_> {
    fn var(&self, var: &Var) -> Option<Cow<'_, [u8]>> {
        let value = self.0.var(var)?;
        if !value.contains(&b'?') {
            return Some(value);
        }
        let escaped = value.iter().flat_map(|byte| match byte {
            b'?' => b"%3F".iter().copied(),
            byte => std::slice::from_ref(byte).iter().copied(),
        });
        Some(Cow::Owned(escaped.collect()))
    }
}

impl OnRewrite for ProxyRewrite {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let mut captures = Vec::new();
        let target = match self.target(exchange, &mut captures) {
            Ok(target) => target,
            Err(error) => {
                log_for!(error, exchange, "proxy-rewrite failed to match the uri: {error}");
                return Flow::reply(Reply::error(500, "failed to match the uri"));
            }
        };
        let Ok(host) = self.host(exchange) else {
            log_for!(info, exchange, "proxy-rewrite: the client's values make an invalid Host");
            return Flow::status(400);
        };
        let mut headers = std::mem::take(&mut exchange.request.edit().headers);
        if !self.headers.is_empty() {
            // Values see the request as it was before.
            self.headers.apply(&WithCaptures { exchange, captures: &captures }, &mut headers);
        }
        let edits = exchange.request.edit();
        edits.headers = headers;
        edits.target = Some(Target::new(target));
        if host.is_some() {
            edits.host = host;
        }
        if let Some(method) = &self.method {
            edits.method = Some(method.clone());
        }
        Flow::Next
    }
}

impl ProxyRewrite {
    /// The `Host` for the upstream, if the configuration has one.
    fn host(&self, exchange: &Exchange<'_>) -> Result<Option<Authority>, NoHost> {
        let Some(template) = &self.host else { return Ok(None) };
        let mut host = Vec::new();
        template.render(exchange, &mut host);
        Authority::new(host).map(Some).ok_or(NoHost)
    }

    /// Path and query for the upstream.
    fn target(&self, exchange: &Exchange<'_>, captures: &mut Vec<Vec<u8>>) -> Result<Vec<u8>, pcre2::Error> {
        let request = &exchange.request;
        let mut uri: Cow<'_, [u8]> =
            if self.real_uri { Cow::Borrowed(request.target()) } else { Cow::Borrowed(&request.path) };
        // Whether a `?` in it begins a query; a client's own may have been `%3F`.
        let mut has_query = false;
        if let Some(template) = &self.uri {
            has_query = true;
            let mut written = Vec::new();
            template.render(&ForPath(exchange), &mut written);
            if self.real_uri && !request.query().is_empty() {
                written.push(if written.contains(&b'?') { b'&' } else { b'?' });
                written.extend_from_slice(request.query());
            }
            uri = Cow::Owned(written);
        } else {
            has_query |= !self.regex_uri.is_empty() && !uri.contains(&b'?');
            for substitution in &self.regex_uri {
                if let Some((found, replaced)) = substitution.first(&uri)? {
                    let group = |at| found.get(at).map_or_else(Vec::new, |group| group.as_bytes().to_vec());
                    captures.extend((0..found.len()).map(group));
                    uri = Cow::Owned(replaced);
                    break;
                }
            }
        }
        if self.real_uri {
            let mut target = Vec::with_capacity(uri.len());
            encode_controls(&uri, &mut target);
            return Ok(target);
        }
        let query_at = uri.iter().position(|byte| *byte == b'?').filter(|_| has_query);
        let (path, query) = uri.split_at(query_at.unwrap_or(uri.len()));
        let mut target = Vec::with_capacity(uri.len() + request.query().len() + 1);
        encode_path(path, &mut target);
        encode_controls(query, &mut target);
        if !request.query().is_empty() {
            target.push(if query_at.is_some() { b'&' } else { b'?' });
            target.extend_from_slice(request.query());
        }
        Ok(target)
    }
}

#[cfg(test)]
mod tests;
