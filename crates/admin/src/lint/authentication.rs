//! `missing-authentication`: most routes of a service, or of a host, ask who the client is, and one does not.

use super::scene::{Item, Scene};
use document::diagnostic::Code;
use document::{Diagnostic, Severity, codes};
use model::Kind;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

const RULE: (Code, Severity) = (codes::MISSING_AUTHENTICATION, Severity::Warning);

pub(super) fn check(scene: &Scene<'_>, found: &mut Vec<Diagnostic>) {
    let global = scene.of(Kind::GlobalRule).flat_map(Item::plugins);
    // Where a global rule asks everybody, no route need do so.
    if global.into_iter().any(|(name, config)| authenticates(scene, name, config)) {
        return;
    }
    let mut groups: BTreeMap<String, Vec<(&Item<'_>, bool)>> = BTreeMap::new();
    for route in scene.of(Kind::Route).filter(|route| route.is_on()) {
        let asks = scene.merged(route).iter().any(|(name, config)| authenticates(scene, name, config));
        match route.reference("service_id") {
            Some(service) => groups.entry(format!("service {service}")).or_default().push((route, asks)),
            None => {
                for host in scene.hosts(route) {
                    groups.entry(format!("host {host}")).or_default().push((route, asks));
                }
            }
        }
    }
    let mut said = HashSet::new();
    for (group, routes) in groups {
        let asking = routes.iter().filter(|(_, asks)| *asks).count();
        for (route, _) in routes.iter().filter(|(_, asks)| !asks) {
            let others = routes.len() - 1;
            if asking * 2 > others && said.insert(route.key) {
                let message = format!(
                    "{asking} of the {others} other routes of {group} authenticate clients, it does not"
                );
                let advice = "give it the plugin that its siblings have, or put that into the service";
                found.push(route.finding(RULE, "/plugins", message, advice));
            }
        }
    }
}

fn authenticates(scene: &Scene<'_>, name: &str, config: &Value) -> bool {
    let off = config.get("_meta").and_then(|meta| meta.get("disable")) == Some(&Value::Bool(true));
    !off && scene.registry.get(name).is_some_and(|def| def.is_auth())
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;
    use serde_json::json;

    #[test]
    fn the_odd_one_out_is_found() {
        let auth = || json!({"key-auth": {}});
        let off = json!({"key-auth": {"_meta": {"disable": true}}});
        let route = |plugins: Value| json!({"uri": "/a", "service_id": "1", "plugins": plugins});
        let service = || ("/services/1", json!({}));
        for (resources, expected) in [
            (
                vec![service(), ("/routes/1", route(auth())), ("/routes/2", route(json!({})))],
                Some("/routes/2"),
            ),
            (vec![service(), ("/routes/1", route(auth())), ("/routes/2", route(off))], Some("/routes/2")),
            (vec![service(), ("/routes/1", route(json!({}))), ("/routes/2", route(json!({})))], None),
            (
                vec![
                    ("/services/1", json!({"plugins": auth()})),
                    ("/routes/1", route(auth())),
                    ("/routes/2", route(json!({}))),
                ],
                None,
            ),
            (
                vec![
                    service(),
                    ("/routes/1", route(auth())),
                    ("/routes/2", route(json!({}))),
                    ("/global_rules/1", json!({"plugins": auth()})),
                ],
                None,
            ),
            (
                vec![
                    ("/routes/1", json!({"uri": "/a", "host": "a.com", "plugins": auth()})),
                    ("/routes/2", json!({"uri": "/b", "host": "a.com"})),
                    ("/routes/3", json!({"uri": "/b", "host": "b.com"})),
                ],
                Some("/routes/2"),
            ),
        ] {
            let places = found(check, &resources);
            let keys: Vec<&str> = places.iter().map(|(key, _)| key.as_str()).collect();
            assert_eq!(keys, expected.into_iter().collect::<Vec<_>>(), "{resources:?}");
        }
    }
}
