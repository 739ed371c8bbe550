//! What is allowed and yet most likely a mistake: rules over the whole configuration, each in a file of its own.
//!
//! [`lint`] is a pure function; `GET /lint` calls it with what the store has, `tidegate lint FILE` with a file.

mod authentication;
mod certificates;
mod idle_plugins;
mod references;
mod scene;
mod settings;
mod shadowed;
mod unused;
mod weights;

use crate::http::respond::Answer;
use crate::{Admin, AdminResponse, Resource};
use document::{Diagnostic, Report};
use plugin::Registry;
use scene::Scene;
use store::{Clock, SystemClock};

type Rule = fn(&Scene<'_>, &mut Vec<Diagnostic>);

const RULES: [Rule; 7] = [
    references::check,
    weights::check,
    certificates::check,
    shadowed::check,
    authentication::check,
    idle_plugins::check,
    unused::check,
];

/// What all rules find in `resources`, whose secrets may be encrypted; `now_s` is the time in seconds since 1970.
/// Errors come first, then the order is that of the keys.
#[must_use]
pub fn lint(registry: &Registry, resources: &[Resource], now_s: i64) -> Vec<Diagnostic> {
    let scene = Scene::new(registry, resources, now_s);
    let mut found = Vec::new();
    for rule in RULES {
        rule(&scene, &mut found);
    }
    found.sort_by(|a, b| {
        let order = |d: &Diagnostic| (d.severity, d.resource.clone(), d.path.clone(), d.code.name());
        order(a).cmp(&order(b))
    });
    found
}

/// Returns the references among resources that the Admin API requires to hold, and that don't: `upstream_id` and the like,
/// and the consumer of a credential.
#[must_use]
pub fn dangling(resources: &[Resource]) -> Vec<Diagnostic> {
    references::required(&Scene::new(&Registry::default(), resources, 0))
}

/// `GET /lint`: what this gateway is told in `config.yaml`, then the resources.
pub(crate) async fn answer(admin: &Admin) -> Answer {
    let resources: Vec<Resource> = admin
        .store
        .list("")
        .await?
        .entries
        .into_iter()
        .filter_map(|entry| {
            let fields = serde_json::from_slice(&entry.value).ok()?;
            Some(Resource { key: entry.key.to_string(), fields })
        })
        .collect();
    let now = i64::try_from(SystemClock.unix_ms() / 1000).unwrap_or(i64::MAX);
    let mut found = settings::check(&admin.settings);
    found.extend(lint(&admin.registry, &resources, now));
    for diagnostic in found.iter_mut().filter(|diagnostic| !diagnostic.resource.is_empty()) {
        diagnostic.resource.insert_str(0, &admin.settings.prefix);
    }
    Ok(AdminResponse::json(200, &Report { diagnostics: found }.to_json()))
}

#[cfg(test)]
use serde_json::Value;

#[cfg(test)]
fn found(rule: Rule, resources: &[(&str, Value)]) -> Vec<(String, String)> {
    found_at(rule, resources, 1_700_000_000)
}

/// Key and pointer of each finding of one rule.
#[cfg(test)]
fn found_at(rule: Rule, resources: &[(&str, Value)], now_s: i64) -> Vec<(String, String)> {
    let auth = plugin::PluginDef::new::<tests::Keys>("key-auth", 2500).authenticates().build();
    let other = plugin::PluginDef::new::<tests::Other>("limit-count", 1002).build();
    let registry = Registry::new([auth, other], serde_json::Map::new()).unwrap();
    let resources: Vec<Resource> = resources
        .iter()
        .map(|(key, value)| Resource { key: (*key).to_owned(), fields: value.as_object().unwrap().clone() })
        .collect();
    let mut found = Vec::new();
    rule(&Scene::new(&registry, &resources, now_s), &mut found);
    for finding in &found {
        assert!(!finding.message.is_empty() && finding.hint.is_some(), "{finding:?}");
    }
    found.into_iter().map(|finding| (finding.resource, finding.path)).collect()
}

#[cfg(test)]
mod tests;
