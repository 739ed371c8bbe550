//! Resources in the Admin API's form, out of what a file has: ADC's nested ones taken apart and its names put into
//! APISIX's.

use super::names::id_of;
use super::place::Origin;
use admin::Resource;
use document::{Diagnostic, Found, codes};
use document::{Node, Value};
use model::Kind;
use serde_json::{Map, Value as Json, json};

/// What an item stands in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Context<'a> {
    /// Its index in its list.
    pub index: usize,
    /// The field that refers to what it stands in, and that one's id.
    pub parent: Option<(&'static str, &'a str)>,
    /// The name of what it stands in.
    pub name: Option<&'a str>,
}

/// Collects resources.
pub(crate) struct Shaper<'p> {
    found: &'p Found,
    items: Vec<(Resource, Origin)>,
}

impl<'p> Shaper<'p> {
    /// None yet.
    pub(crate) fn new(found: &'p Found) -> Self {
        Self { found, items: Vec::new() }
    }

    /// All of them.
    pub(crate) fn into_items(self) -> Vec<(Resource, Origin)> {
        self.items
    }

    /// `global_rules` and `plugin_metadata` as ADC has them: by the plugin's name.
    pub(crate) fn named(&mut self, kind: Kind, plugin: &str, node: Node) {
        let config = node.to_json();
        let mut origin = Origin::new(node);
        let fields = match kind {
            Kind::GlobalRule => {
                origin.rename(format!("/plugins/{plugin}"), "");
                json!({ "plugins": { plugin: config } })
            }
            _ => config,
        };
        let Json::Object(fields) = fields else {
            let mistake = Diagnostic::error(codes::WRONG_SHAPE, "expected a mapping");
            self.found.add(mistake.at(origin.locate("")).path(plugin));
            return;
        };
        self.push(kind, plugin, fields, origin);
    }

    /// One item of a list.
    pub(crate) fn item(&mut self, kind: Kind, mut node: Node, context: &Context<'_>) {
        let Value::Map(entries) = &mut node.value else {
            let mistake = Diagnostic::error(codes::WRONG_SHAPE, "expected a mapping");
            self.found.add(mistake.at(node.at).path(kind.collection()));
            return;
        };
        let mut nested = Vec::new();
        for (kind, name) in nested_in(kind) {
            if let Some(at) = entries.iter().position(|entry| entry.key == *name) {
                nested.push((*kind, entries.remove(at).value));
            }
        }
        let Json::Object(mut fields) = node.to_json() else { return };
        let mut origin = Origin::new(node);
        for time in ["create_time", "update_time"] {
            fields.shift_remove(time);
        }
        rename(&mut fields, &mut origin);
        if kind == Kind::Ssl {
            certificates(&mut fields, &mut origin);
        }
        if kind == Kind::Credential {
            credential(&mut fields, &mut origin);
        }
        let Some(id) = self.id(kind, &mut fields, &origin, context) else { return };
        if let Some((field, parent)) = context.parent.filter(|(field, _)| !field.is_empty()) {
            fields.insert(field.to_owned(), parent.into());
        }
        let name = fields.get("name").or_else(|| fields.get("username")).and_then(Json::as_str);
        let name = name.map_or_else(|| id.clone(), str::to_owned);
        let credential = kind == Kind::Consumer && id.contains("/credentials/");
        self.push(if credential { Kind::Credential } else { kind }, &id, fields, origin);
        for (inner, node) in nested {
            let Value::List(items) = node.value else {
                let mistake = Diagnostic::error(codes::WRONG_SHAPE, "expected a list");
                self.found.add(mistake.at(node.at).path(inner.collection()));
                continue;
            };
            let field = match kind {
                Kind::Service => "service_id",
                Kind::ConsumerGroup => "group_id",
                _ => "",
            };
            for (index, item) in items.into_iter().enumerate() {
                self.item(inner, item, &Context { index, parent: Some((field, &id)), name: Some(&name) });
            }
        }
    }

    /// The id with its parent's: written, the name's, or that of APISIX's standalone mode.
    fn id(
        &self,
        kind: Kind,
        fields: &mut Map<String, Json>,
        origin: &Origin,
        context: &Context<'_>,
    ) -> Option<String> {
        let text = |value: &Json| match value {
            Json::String(text) => Some(text.clone()),
            Json::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let written = fields.shift_remove("id").as_ref().and_then(text);
        let name = fields.get("name").and_then(Json::as_str);
        let own = match kind {
            Kind::Consumer => match written.filter(|id| id.contains("/credentials/")) {
                Some(id) => return Some(id),
                None => fields.get("username").and_then(text),
            },
            Kind::Secret | Kind::PluginMetadata => written,
            Kind::Ssl => written.or_else(|| {
                let names: Vec<&str> =
                    fields.get("snis")?.as_array()?.iter().filter_map(Json::as_str).collect();
                Some(id_of(None, &names.join(",")))
            }),
            _ => written.or_else(|| name.map(|name| id_of(context.name, name))),
        };
        let own = own.or_else(|| match kind {
            Kind::Consumer | Kind::Secret | Kind::PluginMetadata | Kind::Credential => None,
            _ => Some(format!("arr_{}", context.index + 1)),
        });
        let Some(own) = own else {
            let field = match kind {
                Kind::Consumer => "username",
                Kind::Credential => "name",
                _ => "id",
            };
            let message = format!("a {} needs `{field}`", kind.noun());
            let mistake = Diagnostic::error(codes::INVALID_ID, message);
            self.found.add(mistake.at(origin.locate("")).path(kind.collection()));
            return None;
        };
        match (kind, context.parent) {
            (Kind::Credential, Some((_, consumer))) => Some(kind.id_below(consumer, &own)),
            _ => Some(own),
        }
    }

    fn push(&mut self, kind: Kind, id: &str, mut fields: Map<String, Json>, origin: Origin) {
        let key = kind.key(id);
        if Kind::parse_key(&key).is_none() {
            let mistake = Diagnostic::error(
                codes::INVALID_ID,
                format!("{id:?} is not a valid id of a {}", kind.noun()),
            );
            self.found.add(mistake.at(origin.locate("/id")).path("id"));
            return;
        }
        if kind != Kind::Consumer {
            let own = kind.split_id(id).map_or(id, |(_, own)| own);
            fields.insert("id".to_owned(), own.into());
        }
        self.items.push((Resource { key, fields }, origin));
    }
}

/// The lists of others that an item may have.
fn nested_in(kind: Kind) -> &'static [(Kind, &'static str)] {
    match kind {
        Kind::Service => &[(Kind::Route, "routes"), (Kind::StreamRoute, "stream_routes")],
        Kind::Consumer => &[(Kind::Credential, "credentials")],
        Kind::ConsumerGroup => &[(Kind::Consumer, "consumers")],
        _ => &[],
    }
}

/// ADC's `description`, in the resource and in its upstream.
fn rename(fields: &mut Map<String, Json>, origin: &mut Origin) {
    if let Some(text) = fields.shift_remove("description") {
        fields.insert("desc".to_owned(), text);
        origin.rename("/desc", "/description");
    }
    if let Some(Json::Object(upstream)) = fields.get_mut("upstream")
        && let Some(text) = upstream.shift_remove("description")
    {
        upstream.insert("desc".to_owned(), text);
        origin.rename("/upstream/desc", "/upstream/description");
    }
}

/// ADC's `certificates`: the first is the certificate, the others stand beside it.
fn certificates(fields: &mut Map<String, Json>, origin: &mut Origin) {
    let Some(Json::Array(pairs)) = fields.shift_remove("certificates") else { return };
    let mut more = (Vec::new(), Vec::new());
    for (at, mut pair) in pairs.into_iter().enumerate() {
        let mut take = |name: &str| pair.get_mut(name).map(Json::take).unwrap_or_default();
        let (cert, key) = (take("certificate"), take("key"));
        let places = match at {
            0 => ("/cert".to_owned(), "/key".to_owned()),
            _ => (format!("/certs/{}", at - 1), format!("/keys/{}", at - 1)),
        };
        origin.rename(places.0, format!("/certificates/{at}/certificate"));
        origin.rename(places.1, format!("/certificates/{at}/key"));
        if at == 0 {
            fields.insert("cert".to_owned(), cert);
            fields.insert("key".to_owned(), key);
        } else {
            more.0.push(cert);
            more.1.push(key);
        }
    }
    if !more.0.is_empty() {
        fields.insert("certs".to_owned(), more.0.into());
        fields.insert("keys".to_owned(), more.1.into());
    }
}

/// ADC's `type` and `config` of a credential: the plugin and its configuration.
fn credential(fields: &mut Map<String, Json>, origin: &mut Origin) {
    let Some(Json::String(plugin)) = fields.shift_remove("type") else { return };
    let config = fields.shift_remove("config").unwrap_or_default();
    origin.rename(format!("/plugins/{plugin}"), "/config");
    fields.insert("plugins".to_owned(), json!({ plugin: config }));
}
