//! What of the running gateway's configuration is meant, and reading it.

use crate::admin_client::{AdminClient, said};
use crate::cli::ScopeArgs;
use anyhow::{Context, bail};
use model::Kind;
use serde_json::{Map, Value};

/// The kinds that files have, in the order in which one may refer to the ones before it.
pub(crate) const KINDS: [Kind; 13] = [
    Kind::Secret,
    Kind::Proto,
    Kind::Ssl,
    Kind::Upstream,
    Kind::PluginMetadata,
    Kind::PluginConfig,
    Kind::ConsumerGroup,
    Kind::Service,
    Kind::GlobalRule,
    Kind::Consumer,
    Kind::Credential,
    Kind::Route,
    Kind::StreamRoute,
];

/// A resource of the running gateway.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    /// The store key.
    pub key: String,
    /// The resource as the Admin API shows it.
    pub fields: Map<String, Value>,
    /// The revision that wrote it last.
    pub modified: Value,
}

/// Which resources are meant.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    kinds: Vec<Kind>,
    labels: Vec<(String, String)>,
}

impl Scope {
    /// As the command line says.
    ///
    /// # Errors
    /// For a collection that nobody knows, and for a label without its value.
    pub(crate) fn new(args: &ScopeArgs) -> anyhow::Result<Self> {
        let mut scope = Self::default();
        for name in &args.select {
            let kind = KINDS.into_iter().find(|kind| kind.collection() == name);
            scope.kinds.push(kind.with_context(|| format!("--select {name}: there is no such collection"))?);
        }
        for label in &args.label {
            let (name, value) =
                label.split_once('=').with_context(|| format!("--label {label}: NAME=VALUE is expected"))?;
            scope.labels.push((name.to_owned(), value.to_owned()));
        }
        Ok(scope)
    }

    /// Whether a resource is meant. Credentials go with consumers.
    pub(crate) fn has(&self, key: &str, fields: &Map<String, Value>) -> bool {
        let Some((kind, _)) = Kind::parse_key(key) else { return false };
        let kind = kind.parent().unwrap_or(kind);
        let label =
            |name: &str| fields.get("labels").and_then(|labels| labels.get(name)).and_then(Value::as_str);
        let selected =
            self.kinds.is_empty() || self.kinds.iter().any(|known| known.parent().unwrap_or(*known) == kind);
        selected && self.labels.iter().all(|(name, value)| label(name) == Some(value))
    }

    /// What the running gateway has of it.
    ///
    /// # Errors
    /// When it can't be asked.
    pub(crate) fn running(&self, client: &AdminClient) -> anyhow::Result<Vec<Running>> {
        let mut found = Vec::new();
        for kind in KINDS.into_iter().filter(|kind| kind.parent().is_none()) {
            list(client, &format!("/{}", kind.collection()), &mut found)?;
        }
        let consumers: Vec<String> = found
            .iter()
            .filter(|running| matches!(Kind::parse_key(&running.key), Some((Kind::Consumer, _))))
            .map(|running| format!("{}/credentials", running.key))
            .collect();
        for path in consumers {
            list(client, &path, &mut found)?;
        }
        found.retain(|running| self.has(&running.key, &running.fields));
        Ok(found)
    }
}

/// The resources of one collection. None where there is no such collection now: a gateway without streams has no
/// stream routes, a consumer without credentials no list of them.
fn list(client: &AdminClient, path: &str, found: &mut Vec<Running>) -> anyhow::Result<()> {
    let (status, answer) = client.call("GET", path, None)?;
    match status {
        200 => {}
        400 | 404 => return Ok(()),
        _ => bail!("GET {path}: {status}: {}", said(&answer)),
    }
    let items = answer.get("list").or_else(|| answer.get("node")?.get("nodes")).and_then(Value::as_array);
    for item in items.into_iter().flatten() {
        let key = item["key"].as_str().unwrap_or_default();
        // What stands before the key is the store's own prefix.
        let key =
            (key.match_indices('/').map(|(at, _)| &key[at..])).find(|key| Kind::parse_key(key).is_some());
        if let (Some(key), Some(fields)) = (key, item["value"].as_object()) {
            let modified = item["modifiedIndex"].clone();
            found.push(Running { key: key.to_owned(), fields: fields.clone(), modified });
        }
    }
    Ok(())
}
