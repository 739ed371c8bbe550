//! The configuration as the rules see it: indexed, with what routes are made of put together.

use crate::Resource;
use crate::http::identity::text_of;
use document::diagnostic::Code;
use document::{Diagnostic, Severity};
use model::Kind;
use plugin::Registry;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};

/// A resource with what its key says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item<'a> {
    /// The store key.
    pub key: &'a str,
    /// The kind.
    pub kind: Kind,
    /// The id, with its parent's where it has one.
    pub id: &'a str,
    /// The resource.
    pub fields: &'a Map<String, Value>,
}

/// Everything.
pub(super) struct Scene<'a> {
    /// The plugins that are known.
    pub registry: &'a Registry,
    /// Seconds since 1970.
    pub now_s: i64,
    items: Vec<Item<'a>>,
    by_id: HashMap<(Kind, &'a str), usize>,
}

impl<'a> Item<'a> {
    /// A finding about this resource.
    pub(super) fn finding(
        &self,
        (code, severity): (Code, Severity),
        path: impl Into<String>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Diagnostic {
        let diagnostic = Diagnostic { severity, ..Diagnostic::error(code, message) };
        diagnostic.resource(self.key).path(path).hint(hint)
    }

    /// Whether requests can meet it: `status: 0` switches a route off.
    pub(super) fn is_on(&self) -> bool {
        self.fields.get("status").is_none_or(|status| status != &Value::from(0))
    }

    /// A field that names another resource.
    pub(super) fn reference(&self, field: &str) -> Option<String> {
        self.fields.get(field).filter(|id| id.is_string() || id.is_number()).map(text_of)
    }

    /// Its plugins.
    pub(super) fn plugins(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.fields.get("plugins").and_then(Value::as_object).into_iter().flatten()
    }

    /// A list of texts that may also be written as a single one: `uris` and `uri`.
    pub(super) fn texts(&self, several: &str, single: &str) -> Vec<&'a str> {
        let list = self.fields.get(several).and_then(Value::as_array).into_iter().flatten();
        list.chain(self.fields.get(single)).filter_map(Value::as_str).collect()
    }
}

impl<'a> Scene<'a> {
    /// Of these resources; what has no resource's key is passed over.
    pub(super) fn new(registry: &'a Registry, resources: &'a [Resource], now_s: i64) -> Self {
        let items: Vec<Item<'a>> = resources
            .iter()
            .filter_map(|Resource { key, fields }| {
                let (kind, id) = Kind::parse_key(key)?;
                Some(Item { key, kind, id, fields })
            })
            .collect();
        let by_id = items.iter().enumerate().map(|(at, item)| ((item.kind, item.id), at)).collect();
        Self { registry, now_s, items, by_id }
    }

    /// All of them.
    pub(super) fn items(&self) -> &[Item<'a>] {
        &self.items
    }

    /// Those of one kind.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = &Item<'a>> {
        self.items.iter().filter(move |item| item.kind == kind)
    }

    /// One of them.
    pub(super) fn get(&self, kind: Kind, id: &str) -> Option<&Item<'a>> {
        self.by_id.get(&(kind, id)).and_then(|at| self.items.get(*at))
    }

    /// The service of a route.
    pub(super) fn service(&self, route: &Item<'a>) -> Option<&Item<'a>> {
        self.get(Kind::Service, &route.reference("service_id")?)
    }

    /// A route's hosts, its own or else its service's, in lower case; none stands for any host.
    pub(super) fn hosts(&self, route: &Item<'a>) -> Vec<String> {
        let mut hosts = route.texts("hosts", "host");
        if hosts.is_empty() {
            hosts = self.service(route).map(|service| service.texts("hosts", "host")).unwrap_or_default();
        }
        hosts.into_iter().map(str::to_ascii_lowercase).collect()
    }

    /// The plugins that run on a route, of all that it is made of: the route's own go before its plugin config's, and
    /// those before its service's. Global rules run beside them.
    pub(super) fn merged(&self, route: &Item<'a>) -> BTreeMap<&'a str, &'a Value> {
        let config =
            route.reference("plugin_config_id").and_then(|id| self.get(Kind::PluginConfig, &id).copied());
        let layers = [Some(*route), config, self.service(route).copied()];
        let mut merged = BTreeMap::new();
        for (name, config) in layers.iter().flatten().flat_map(Item::plugins) {
            merged.entry(name.as_str()).or_insert(config);
        }
        merged
    }
}

/// A name as a part of a JSON pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Calls `visit` with each value below `value` and its JSON pointer. Recursion is bounded by the JSON reader's depth.
pub(super) fn each(value: &Value, path: &mut String, visit: &mut dyn FnMut(&str, &str, &Value)) {
    let mut descend = |name: &str, inner: &Value| {
        let length = path.len();
        path.push('/');
        path.push_str(&escaped(name));
        visit(path, name, inner);
        each(inner, path, visit);
        path.truncate(length);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, inner)| descend(name, inner)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, inner)| descend(&at.to_string(), inner));
        }
        _ => {}
    }
}
