//! Header fields that a configuration adds, sets and removes, with variables in their values.

use model::ConfigError;
use model::var::{Template, VarSource};
use plugin::{Authority, HeaderEdits, RequestEdits};
use serde_json::{Map, Value};

/// Fields that are the connection's or the framing's (RFC 9110 section 7.6.1): the engine alone writes them.
const OF_CONNECTION: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a field called `name` (any case) is the connection's or the framing's, which no plugin may set.
pub(crate) fn is_of_connection(name: &str) -> bool {
    OF_CONNECTION.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Gives the upstream `values` in place of what the client sent under `name`; none removes the field. `Host` is the one
/// that the request is sent for, and fields of the connection are left alone.
pub(crate) fn set_for_upstream(edits: &mut RequestEdits, name: &str, values: &[impl AsRef<[u8]>]) {
    if name.eq_ignore_ascii_case("host") {
        if let Some(host) = values.first().and_then(|value| Authority::new(value.as_ref())) {
            edits.host = Some(host);
        }
        return;
    }
    if is_of_connection(name) {
        return;
    }
    edits.headers.remove(name);
    for (at, value) in values.iter().enumerate() {
        if at == 0 {
            edits.headers.set(name, value);
        } else {
            edits.headers.append(name, value);
        }
    }
}

/// The operations of one configuration, in the order in which they apply.
#[derive(Debug, Default)]
pub(crate) struct HeaderOps {
    pub(crate) add: Vec<(String, Template)>,
    /// The first of a name replaces, what follows under it is added.
    pub(crate) set: Vec<(String, Vec<Template>)>,
    pub(crate) remove: Vec<String>,
}

impl HeaderOps {
    /// The members of `add` or `set`: a value, or a list of them.
    pub(crate) fn fields(object: Option<&Map<String, Value>>) -> Vec<(String, Vec<Template>)> {
        let texts = |value: &Value| match value {
            Value::Array(all) => all.iter().filter_map(text).collect(),
            one => text(one).into_iter().collect::<Vec<_>>(),
        };
        let fields = object.into_iter().flatten();
        fields
            .map(|(name, value)| {
                (name.clone(), texts(value).iter().map(|text| Template::parse(text)).collect())
            })
            .collect()
    }

    /// Refuses names that can't be a field's: they could end the head. The message is APISIX's.
    pub(crate) fn check_names(&self) -> Result<(), ConfigError> {
        let set = self.set.iter().map(|(name, _)| name);
        let mut names = set.chain(self.add.iter().map(|(name, _)| name)).chain(&self.remove);
        if names.all(|name| is_token(name)) {
            return Ok(());
        }
        Err(ConfigError::new("/headers", "invalid field character in header"))
    }

    /// Applies them to `edits`. As in OpenResty a field that is set to nothing, such as a variable without a value, is a
    /// field that is removed.
    pub(crate) fn apply(&self, source: &dyn VarSource, edits: &mut HeaderEdits) {
        let render = |template: &Template| Self::render(template, source);
        for (name, value) in &self.add {
            edits.append(name, render(value));
        }
        for (name, values) in &self.set {
            let mut first = true;
            for value in values.iter().map(render).filter(|value| !value.is_empty()) {
                if std::mem::take(&mut first) { edits.set(name, value) } else { edits.append(name, value) }
            }
            if first {
                edits.remove(name);
            }
        }
        self.remove.iter().for_each(|name| edits.remove(name));
    }

    /// The text of a template.
    pub(crate) fn render(template: &Template, source: &dyn VarSource) -> Vec<u8> {
        let mut text = Vec::new();
        template.render(source, &mut text);
        text
    }

    /// Takes out the fields that speak of a body as it was.
    pub(crate) fn body_changed(edits: &mut HeaderEdits) {
        ["Content-Encoding", "Last-Modified", "ETag"].iter().for_each(|name| edits.remove(name));
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.add.is_empty() && self.set.is_empty() && self.remove.is_empty()
    }

    /// Leaves out the fields whose name `drops` says so of.
    pub(crate) fn without(mut self, drops: impl Fn(&str) -> bool) -> Self {
        self.add.retain(|(name, _)| !drops(name));
        self.set.retain(|(name, _)| !drops(name));
        self.remove.retain(|name| !drops(name));
        self
    }
}

/// The members of an object of fields with one value each, which may have variables.
///
/// # Errors
/// When a name can't be a field's; the object stands at `path`.
pub(crate) fn single(
    object: Option<&Map<String, Value>>,
    path: &str,
) -> Result<Vec<(String, Template)>, ConfigError> {
    let field = |(name, value): (&String, &Value)| match text(value) {
        Some(value) if is_token(name) => Ok((name.clone(), Template::parse(&value))),
        _ => Err(ConfigError::new(format!("{path}/{name}"), "is no field of a header")),
    };
    object.into_iter().flatten().map(field).collect()
}

/// Whether a response has at most one field called `name`, so that adding one replaces the one before: the fields that
/// nginx keeps apart from the others.
pub(crate) fn is_single(name: &str) -> bool {
    const SINGLE: [&str; 10] = [
        "Content-Type",
        "Content-Encoding",
        "Content-Range",
        "Accept-Ranges",
        "Date",
        "ETag",
        "Expires",
        "Last-Modified",
        "Location",
        "Server",
    ];
    SINGLE.iter().any(|single| single.eq_ignore_ascii_case(name))
}

/// A string or number as text.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Whether `name` is a token (RFC 9110 section 5.6.2): what a field may be called.
pub(crate) fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
