//! A document: its paths and operations.

use super::operation::{Checks, Operation};
use super::schema::Resolver;
use plugin::Request;
use serde_json::Value;

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Paths of a document. Each is looked at for each request.
const PATHS_MAX: usize = 2000;

/// A document, compiled.
pub(super) struct Spec {
    /// The paths of its servers, which come before its own.
    bases: Vec<String>,
    /// Those with fewer parameters first.
    paths: Vec<(Template, Vec<(String, Operation)>)>,
}

/// A path with parameters: `/pets/{id}.json`
struct Template {
    segments: Vec<Vec<Piece>>,
    parameters: usize,
}

enum Piece {
    Literal(String),
    Parameter(String),
}

impl Spec {
    /// Compiles a document of OpenAPI 3.
    pub(super) fn compile(document: &Value) -> Result<Self, String> {
        let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
        if !version.starts_with("3.") {
            return Err("it is no document of OpenAPI 3".to_owned());
        }
        let mut resolver = Resolver::new(document);
        let written = document.get("paths").and_then(Value::as_object).ok_or("it has no paths")?;
        if written.len() > PATHS_MAX {
            return Err(format!("it has more than {PATHS_MAX} paths"));
        }
        let mut paths = Vec::new();
        for (path, item) in written.iter().filter(|(path, _)| path.starts_with('/')) {
            let item = resolver.named(item)?.clone();
            let shared = item.get("parameters").and_then(Value::as_array).cloned().unwrap_or_default();
            let mut operations = Vec::new();
            for method in METHODS {
                if let Some(operation) = item.get(method) {
                    let compiled = Operation::compile(operation, &shared, &mut resolver);
                    let compiled =
                        compiled.map_err(|why| format!("{} {path}: {why}", method.to_ascii_uppercase()))?;
                    operations.push((method.to_ascii_uppercase(), compiled));
                }
            }
            paths.push((Template::parse(path)?, operations));
        }
        paths.sort_by_key(|(template, _)| template.parameters);
        Ok(Self { bases: bases(document), paths })
    }

    /// Checks a request with this body.
    pub(super) fn check(&self, request: &Request<'_>, body: &[u8], checks: Checks) -> Result<(), String> {
        let path = String::from_utf8_lossy(&request.path);
        let method = String::from_utf8_lossy(request.method());
        let mut is_known = false;
        for base in &self.bases {
            let Some(rest) = path.strip_prefix(base.as_str()).filter(|rest| rest.starts_with('/')) else {
                continue;
            };
            for (template, operations) in &self.paths {
                let Some(parameters) = template.matches(rest) else { continue };
                is_known = true;
                if let Some((_, operation)) = operations.iter().find(|(of, _)| *of == method) {
                    return operation.check(request, &parameters, body, checks);
                }
            }
        }
        match is_known {
            true => Err(format!("the path {path} has no operation {method}")),
            false => Err(format!("the path {path} is not described")),
        }
    }
}

/// The paths of a document's servers, without a slash at their end. The root where there are none.
fn bases(document: &Value) -> Vec<String> {
    let base = |server: &Value| {
        let mut url = server.get("url")?.as_str()?.to_owned();
        for (name, variable) in server.get("variables").and_then(Value::as_object).into_iter().flatten() {
            let default = variable.get("default").and_then(Value::as_str).unwrap_or_default();
            url = url.replace(&format!("{{{name}}}"), default);
        }
        let path = match url.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
            None => &url,
        };
        let path = path.trim_end_matches('/');
        Some(if path.is_empty() || path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
    };
    let servers = document.get("servers").and_then(Value::as_array).into_iter().flatten();
    let mut bases: Vec<String> = servers.filter_map(base).collect();
    if bases.is_empty() {
        bases.push(String::new());
    }
    bases
}

impl Template {
    fn parse(path: &str) -> Result<Self, String> {
        let mut parameters = 0;
        let mut segments = Vec::new();
        for segment in path.split('/').skip(1) {
            let (mut pieces, mut rest) = (Vec::new(), segment);
            while let Some((literal, after)) = rest.split_once('{') {
                let (name, after) =
                    after.split_once('}').ok_or_else(|| format!("{path}: a brace has no end"))?;
                if !literal.is_empty() {
                    pieces.push(Piece::Literal(literal.to_owned()));
                } else if matches!(pieces.last(), Some(Piece::Parameter(_))) {
                    return Err(format!("{path}: nothing is between two parameters"));
                }
                pieces.push(Piece::Parameter(name.to_owned()));
                parameters += 1;
                rest = after;
            }
            if !rest.is_empty() {
                pieces.push(Piece::Literal(rest.to_owned()));
            }
            segments.push(pieces);
        }
        Ok(Self { segments, parameters })
    }

    /// The parameters of `path`, if it is one of this form.
    fn matches(&self, path: &str) -> Option<Vec<(String, String)>> {
        let mut found = Vec::new();
        let mut segments = path.split('/').skip(1);
        for pieces in &self.segments {
            matched(pieces, segments.next()?, &mut found)?;
        }
        segments.next().is_none().then_some(found)
    }
}

/// Matches one segment: a parameter ends where the literal after it begins last, or with the segment.
fn matched(pieces: &[Piece], segment: &str, found: &mut Vec<(String, String)>) -> Option<()> {
    let mut rest = segment;
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
            Piece::Parameter(name) => {
                let end = match pieces.get(at + 1) {
                    Some(Piece::Literal(literal)) => rest.rfind(literal.as_str())?,
                    _ => rest.len(),
                };
                if end == 0 {
                    return None;
                }
                found.push((name.clone(), rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
    }
    rest.is_empty().then_some(())
}
