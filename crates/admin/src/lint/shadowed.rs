//! `unreachable-route`: another route takes every request that would be this one's.
//!
//! Routes compete where they have the same host and the same path; the higher priority goes first, then the lesser
//! id. Whether a more exact host or path takes all of a wider one can't be said of patterns in general, so that is
//! never found; what is found is so.

use super::scene::{Item, Scene};
use document::diagnostic::Code;
use document::{Diagnostic, Severity, codes};
use model::Kind;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

const RULE: (Code, Severity) = (codes::UNREACHABLE_ROUTE, Severity::Warning);

/// What a route asks of a request beside host and path.
#[derive(Debug, Clone, PartialEq)]
struct Demand<'a> {
    id: &'a str,
    priority: i64,
    /// None stands for any.
    methods: BTreeSet<&'a str>,
    addresses: BTreeSet<&'a str>,
    vars: Option<&'a Value>,
    filter: Option<&'a Value>,
}

pub(super) fn check(scene: &Scene<'_>, found: &mut Vec<Diagnostic>) {
    let mut places: HashMap<(String, &str), Vec<Demand<'_>>> = HashMap::new();
    let routes: Vec<&Item<'_>> = scene.of(Kind::Route).filter(|route| route.is_on()).collect();
    for route in &routes {
        for place in places_of(scene, route) {
            places.entry(place).or_default().push(Demand::of(route));
        }
    }
    for demands in places.values_mut() {
        demands.sort_by_key(|demand| (Reverse(demand.priority), demand.id));
    }
    for route in routes {
        let own = Demand::of(route);
        let mut takers: Vec<&str> = Vec::new();
        let taken = places_of(scene, route).into_iter().all(|place| {
            let before = places.get(&place).into_iter().flatten().take_while(|other| other.id != own.id);
            let taker = before.into_iter().find(|other| other.takes_all_of(&own));
            takers.extend(taker.map(|taker| taker.id));
            taker.is_some()
        });
        takers.sort_unstable();
        takers.dedup();
        if taken && !takers.is_empty() {
            let takers = takers.join(", ");
            found.push(route.finding(
                RULE,
                "",
                format!("every request that it matches is taken by route {takers}"),
                "raise its priority, give it a narrower condition, or delete it",
            ));
        }
    }
}

/// Each host with each path; the empty host stands for any.
fn places_of<'a>(scene: &Scene<'a>, route: &Item<'a>) -> Vec<(String, &'a str)> {
    let mut hosts = scene.hosts(route);
    if hosts.is_empty() {
        hosts.push(String::new());
    }
    let paths = route.texts("uris", "uri");
    hosts.iter().flat_map(|host| paths.iter().map(move |path| (host.clone(), *path))).collect()
}

impl<'a> Demand<'a> {
    fn of(route: &Item<'a>) -> Self {
        let methods = route.fields.get("methods").and_then(Value::as_array).into_iter().flatten();
        let says = |name: &str| route.fields.get(name).filter(|value| !is_empty(value));
        Self {
            id: route.id,
            priority: route.fields.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            methods: methods.filter_map(Value::as_str).collect(),
            addresses: route.texts("remote_addrs", "remote_addr").into_iter().collect(),
            vars: says("vars"),
            filter: says("filter_func"),
        }
    }

    /// Whether whatever the other asks for is enough for this one.
    fn takes_all_of(&self, other: &Self) -> bool {
        let covers = |own: &BTreeSet<&str>, others: &BTreeSet<&str>| {
            own.is_empty() || (!others.is_empty() && others.is_subset(own))
        };
        covers(&self.methods, &other.methods)
            && covers(&self.addresses, &other.addresses)
            && (self.vars.is_none() || self.vars == other.vars)
            && (self.filter.is_none() || self.filter == other.filter)
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_taken_whole_is_found() {
        for (first, second, expected) in [
            (json!({"uri": "/a"}), json!({"uri": "/a"}), Some("/routes/2")),
            (json!({"uri": "/a"}), json!({"uri": "/a", "priority": 1}), Some("/routes/1")),
            (json!({"uri": "/a"}), json!({"uri": "/b"}), None),
            (json!({"uri": "/*"}), json!({"uri": "/a"}), None),
            (json!({"uri": "/a", "methods": ["GET"]}), json!({"uri": "/a"}), None),
            (json!({"uri": "/a"}), json!({"uri": "/a", "methods": ["GET"]}), Some("/routes/2")),
            (
                json!({"uri": "/a", "methods": ["GET", "PUT"]}),
                json!({"uri": "/a", "methods": ["GET"]}),
                Some("/routes/2"),
            ),
            (json!({"uri": "/a", "vars": [["arg_a", "==", "1"]]}), json!({"uri": "/a"}), None),
            (json!({"uri": "/a"}), json!({"uri": "/a", "vars": [["arg_a", "==", "1"]]}), Some("/routes/2")),
            (json!({"uri": "/a", "host": "a.com"}), json!({"uri": "/a"}), None),
            (
                json!({"uri": "/a", "host": "A.com"}),
                json!({"uri": "/a", "hosts": ["a.com"]}),
                Some("/routes/2"),
            ),
            (json!({"uri": "/a"}), json!({"uris": ["/a", "/b"]}), None),
            (json!({"uris": ["/a", "/b"]}), json!({"uris": ["/b", "/a"]}), Some("/routes/2")),
            (json!({"uri": "/a", "status": 0}), json!({"uri": "/a"}), None),
            (json!({"uri": "/a", "remote_addr": "10.0.0.0/8"}), json!({"uri": "/a"}), None),
        ] {
            let places = found(check, &[("/routes/1", first.clone()), ("/routes/2", second.clone())]);
            let keys: Vec<&str> = places.iter().map(|(key, _)| key.as_str()).collect();
            assert_eq!(keys, expected.into_iter().collect::<Vec<_>>(), "{first} {second}");
        }
    }

    #[test]
    fn the_hosts_of_the_service_count() {
        let service = json!({"hosts": ["a.com"]});
        let route = json!({"uri": "/a", "service_id": "1"});
        let other = json!({"uri": "/a", "host": "a.com"});
        let resources = [("/services/1", service), ("/routes/1", route), ("/routes/2", other)];
        assert_eq!(found(check, &resources), [("/routes/2".to_owned(), String::new())]);
    }
}
