//! What resources say of each other: what one refers to exists, what is referred to stays, and no plugin stands in
//! two global rules.
//!
//! These checks read the store itself, under `Admin::references`, where APISIX reads a copy that may be late.

use crate::http::identity::text_of;
use crate::read::stored;
use crate::validate::mistakes::Mistakes;
use crate::{Admin, AdminResponse};
use model::{Kind, PluginMap};
use serde::Deserialize;
use serde_json::{Map, Value};
use store::{Entry, StoreError};

/// A field that names another resource, that resource's kind, and APISIX's words for it.
type Reference = (&'static str, Kind, &'static str);

const UPSTREAM: Reference = ("upstream_id", Kind::Upstream, "upstream info by upstream id");
const SERVICE: Reference = ("service_id", Kind::Service, "service info by service id");
const PLUGIN_CONFIG: Reference =
    ("plugin_config_id", Kind::PluginConfig, "plugin config info by plugin config id");
const GROUP: Reference = ("group_id", Kind::ConsumerGroup, "consumer group info by consumer group id");

/// Checks that everything a resource refers to exists.
pub(crate) async fn check_existence(
    admin: &Admin,
    kind: Kind,
    fields: &Map<String, Value>,
    found: &mut Mistakes,
) -> Result<(), StoreError> {
    let upstream = if kind == Kind::Upstream { Some(fields) } else { object(fields, "upstream") };
    let place = if kind == Kind::Upstream { "" } else { "/upstream" };
    if matches!(kind, Kind::Upstream | Kind::Route | Kind::Service | Kind::StreamRoute)
        && let Some(id) = upstream.and_then(|upstream| object(upstream, "tls")?.get("client_cert_id"))
    {
        check_client_certificate(admin, id, format!("{place}/tls/client_cert_id"), found).await?;
    }
    let known: &[Reference] = match kind {
        Kind::Route => &[UPSTREAM, SERVICE, PLUGIN_CONFIG],
        Kind::Service => &[UPSTREAM],
        Kind::StreamRoute => &[UPSTREAM, SERVICE],
        Kind::Consumer => &[GROUP],
        _ => &[],
    };
    for (field, target, words) in known {
        // Of another type the schema has said enough.
        let Some(id) = fields.get(*field).filter(|id| id.is_string() || id.is_number()) else { continue };
        if stored::entry(admin, &target.key(&text_of(id))).await?.is_none() {
            found.push(format!("/{field}"), missing(words, id));
        }
    }
    Ok(())
}

/// The certificate that an upstream is shown must be one for upstreams.
async fn check_client_certificate(
    admin: &Admin,
    id: &Value,
    path: String,
    found: &mut Mistakes,
) -> Result<(), StoreError> {
    #[derive(Deserialize)]
    struct Side {
        r#type: Option<String>,
    }
    let words = "ssl info by ssl id";
    match stored::entry(admin, &Kind::Ssl.key(&text_of(id))).await? {
        None => found.push(path, missing(words, id)),
        Some(entry) => {
            let side = serde_json::from_slice::<Side>(&entry.value).ok().and_then(|ssl| ssl.r#type);
            if side.as_deref() != Some("client") {
                found.push(path, format!("failed to fetch {words} [{}], wrong ssl type", text_of(id)));
            }
        }
    }
    Ok(())
}

fn missing(words: &str, id: &Value) -> String {
    format!("failed to fetch {words} [{}], response code: 404", text_of(id))
}

fn object<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Map<String, Value>> {
    fields.get(name).and_then(Value::as_object)
}

/// Checks that no other global rule than `id` has one of `plugins`.
pub(crate) async fn check_conflicts(
    admin: &Admin,
    id: Option<&str>,
    plugins: &PluginMap,
    found: &mut Mistakes,
) -> Result<(), StoreError> {
    for entry in stored::entries(admin, Kind::GlobalRule, None).await? {
        let Some(other) = Referrer::read(&entry) else { continue };
        let other_id = other.name(&entry);
        if Some(other_id.as_str()) == id {
            continue;
        }
        for name in plugins.keys().filter(|name| other.plugins.get(name.as_str()).is_some()) {
            found.push(
                format!("/plugins/{}", name.replace('~', "~0").replace('/', "~1")),
                format!("plugin '{name}' already exists in global rule with id '{other_id}'"),
            );
        }
    }
    Ok(())
}

/// Refuses to delete what another resource still refers to.
pub(crate) async fn check_unused(admin: &Admin, kind: Kind, id: &str) -> Result<(), AdminResponse> {
    // APISIX's words for the kinds that may refer to one of `kind`, in its order.
    let (what, referring): (&str, &[(Kind, &str)]) = match kind {
        Kind::Service => ("service directly", &[(Kind::Route, "route"), (Kind::StreamRoute, "stream_route")]),
        Kind::PluginConfig => ("plugin config", &[(Kind::Route, "route")]),
        Kind::ConsumerGroup => ("consumer group", &[(Kind::Consumer, "consumer")]),
        Kind::Proto => ("proto", &[(Kind::Route, "route"), (Kind::Service, "service")]),
        Kind::StreamRoute => ("stream route directly", &[(Kind::StreamRoute, "stream route")]),
        Kind::Upstream => (
            "upstream",
            &[
                (Kind::Route, "route"),
                (Kind::Service, "service"),
                (Kind::PluginConfig, "plugin_config"),
                (Kind::Consumer, "consumer"),
                (Kind::ConsumerGroup, "consumer_group"),
                (Kind::GlobalRule, "global_rules"),
            ],
        ),
        _ => return Ok(()),
    };
    let how = if kind == Kind::StreamRoute { "as superior_id" } else { "now" };
    for (referring, words) in referring {
        for entry in stored::entries(admin, *referring, None).await? {
            let Some(referrer) = Referrer::read(&entry) else { continue };
            let Some(whose) = referrer.use_of(kind, id) else { continue };
            let user = referrer.name(&entry);
            let message =
                format!("can not delete this {what}, {whose}{words} [{user}] is still using it {how}");
            return Err(AdminResponse::error(400, message));
        }
    }
    Ok(())
}

/// The fields of a resource that refer to others.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Referrer {
    id: Value,
    upstream_id: Value,
    service_id: Value,
    plugin_config_id: Value,
    group_id: Value,
    protocol: Value,
    plugins: Value,
}

impl Referrer {
    /// `None` for what is no resource at all.
    fn read(entry: &Entry) -> Option<Self> {
        serde_json::from_slice(&entry.value).ok()
    }

    /// Whether it refers to that resource: itself (an empty text), or as a plugin in it.
    fn use_of(&self, kind: Kind, id: &str) -> Option<&'static str> {
        let used = match kind {
            Kind::Service => is(&self.service_id, id),
            Kind::PluginConfig => is(&self.plugin_config_id, id),
            Kind::ConsumerGroup => is(&self.group_id, id),
            Kind::StreamRoute => self.protocol.get("superior_id").is_some_and(|superior| is(superior, id)),
            Kind::Proto => names(&self.plugins, "proto_id", id),
            _ if names(&self.plugins, "upstream_id", id) => return Some("plugin in "),
            _ => is(&self.upstream_id, id),
        };
        used.then_some("")
    }

    /// Its id, which the key has too.
    fn name(&self, entry: &Entry) -> String {
        if self.id.is_null() {
            return entry.key.rsplit('/').next().unwrap_or_default().to_owned();
        }
        text_of(&self.id)
    }
}

fn is(reference: &Value, id: &str) -> bool {
    !reference.is_null() && text_of(reference) == id
}

/// Whether a plugin's configuration has a `field` that is `id`, wherever it stands there. APISIX looks where its one
/// plugin of that kind has it. Recursion is bounded by the JSON reader's depth.
fn names(config: &Value, field: &str, id: &str) -> bool {
    match config {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| (name == field && is(value, id)) || names(value, field, id))
        }
        Value::Array(items) => items.iter().any(|item| names(item, field, id)),
        _ => false,
    }
}
