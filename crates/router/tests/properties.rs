//! `find` against a linear search over random routes, and no panic on any input.

mod request;

use proptest::prelude::*;
use request::{Request, entry};
use router::{Expr, Mode, RequestFacts, RouteEntry, Router};
use serde_json::Value;
use std::cmp::Reverse;

/// How well `pattern` fits `text`: none, or something the greater the better.
fn path_fit(pattern: &str, path: &str) -> Option<(bool, usize)> {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix).then_some((false, prefix.len())),
        None => (pattern == path).then_some((true, pattern.len())),
    }
}

fn host_fit(pattern: &str, host: &str) -> Option<(bool, usize)> {
    let pattern = pattern.to_ascii_lowercase();
    match pattern.strip_prefix('*') {
        Some(suffix) => host.ends_with(suffix).then_some((false, suffix.len())),
        None => (pattern == host).then_some((true, pattern.len())),
    }
}

/// The id, path and host of the best entry, by looking at all of them.
fn linear(
    mode: Mode,
    entries: &[RouteEntry<String>],
    request: &Request<'_>,
) -> Option<(String, String, Option<String>)> {
    let text = |bytes| std::str::from_utf8(bytes).expect("the strategy makes text");
    let mut fits = Vec::new();
    for entry in entries.iter().filter(|entry| entry.conditions.allow(request)) {
        let any_host = vec![None];
        let hosts = if entry.hosts.is_empty() {
            any_host
        } else {
            entry.hosts.iter().map(|host| Some(host.to_ascii_lowercase())).collect()
        };
        for path in &entry.paths {
            let Some(path_fit) = path_fit(path, text(request.path())) else { continue };
            for (at, host) in hosts.iter().enumerate() {
                let host_fit = match host {
                    None => (false, None),
                    Some(host) => match host_fit(host, text(request.host())) {
                        Some(fit) => (true, Some(fit)),
                        None => continue,
                    },
                };
                let host_rank = (mode == Mode::HostUri).then_some(host_fit);
                let rank = (host_rank, path_fit, entry.priority, Reverse(entry.id.clone()), Reverse(at));
                fits.push((rank, (entry.id.clone(), path.clone(), host.clone())));
            }
        }
    }
    fits.into_iter().max_by(|a, b| a.0.cmp(&b.0)).map(|(_, found)| found)
}

prop_compose! {
    fn any_entry()(
        id in 0..40u8,
        hosts in prop::collection::btree_set("(\\*|\\*\\.|[ab]\\.)?[ab]\\.(C|c|d)", 0..3),
        paths in prop::collection::btree_set("/[ab]{0,2}(/[ab]{0,2}){0,2}\\*?", 1..4),
        priority in -1..2i64,
        methods in prop::sample::subsequence(vec!["GET", "POST", "PUT"], 0..=3),
    ) -> RouteEntry<String> {
        let hosts: Vec<_> = hosts.iter().map(String::as_str).collect();
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        entry(&id.to_string(), &hosts, &paths, priority, &methods)
    }
}

fn any_request() -> impl Strategy<Value = (String, String, &'static str)> {
    (
        "([ab]\\.){0,3}(c|d)?",
        "/[ab]{0,2}(/[ab]{0,2}){0,2}",
        prop::sample::select(vec!["GET", "POST", "DELETE", "BREW"]),
    )
}

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        prop::sample::select(vec![
            "AND",
            "or",
            "!AND",
            "!OR",
            "==",
            "~=",
            ">",
            ">=",
            "<",
            "<=",
            "~~",
            "~*",
            "in",
            "has",
            "ipmatch",
            "!",
            "arg_k",
            "1",
            "(a+)+$",
            "10.0.0.0/8",
            "host",
        ])
        .prop_map(str::to_owned),
        ".{0,8}",
    ];
    let leaf = prop_oneof![
        6 => word.prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(5, 60, 5, |inner| {
        prop_oneof![
            8 => prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            1 => prop::collection::vec(("[a1]", inner), 0..2)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn finds_what_a_linear_search_finds(
        mode in prop::sample::select(vec![Mode::HostUri, Mode::Uri]),
        entries in prop::collection::vec(any_entry(), 0..40),
        removals in prop::collection::vec(0..40u8, 0..20),
        requests in prop::collection::vec(any_request(), 1..20),
    ) {
        let mut router = Router::new(mode);
        let mut kept: Vec<RouteEntry<String>> = Vec::new();
        let agree = |router: &Router<String>, kept: &[RouteEntry<String>]| {
            for (host, path, method) in &requests {
                let request = Request::new(method, host, path);
                let found = router.find(&request).map(|found| {
                    (found.payload.clone(), found.path.to_owned(), found.host.map(str::to_owned))
                });
                prop_assert_eq!(found, linear(mode, kept, &request), "{} {}{}", method, host, path);
            }
            Ok(())
        };
        for entry in entries {
            kept.retain(|other| other.id != entry.id);
            kept.push(entry.clone());
            router.insert(entry);
        }
        agree(&router, &kept)?;
        let (before, all) = (router.clone(), kept.clone());
        for id in removals {
            let id = id.to_string();
            kept.retain(|other| other.id != id);
            router.remove(&id);
        }
        prop_assert_eq!(router.len(), kept.len());
        agree(&router, &kept)?;
        agree(&before, &all)?;
    }

    #[test]
    fn no_pattern_and_no_request_panics(
        hosts in prop::collection::vec(".{0,6}", 0..3),
        paths in prop::collection::vec("[/*:a]{0,12}|.{0,6}", 0..4),
        host in prop::collection::vec(any::<u8>(), 0..12),
        path in prop::collection::vec(prop_oneof![Just(b'/'), Just(b'a'), any::<u8>()], 0..16),
        method in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let hosts: Vec<_> = hosts.iter().map(String::as_str).collect();
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        for mode in [Mode::HostUri, Mode::Uri] {
            let mut router = Router::new(mode);
            router.insert(entry("1", &hosts, &paths, 0, &[]));
            router.insert(entry("2", &[], &["*"], 0, &["PUT"]));
            let request =
                Request { host: &host, path: &path, method: &method, ..Request::new("", "", "") };
            let _ = router.find(&request);
            router.remove("1");
            prop_assert!(router.find(&request).is_none());
        }
    }

    #[test]
    fn any_json_compiles_or_is_refused_with_places_that_exist(
        vars in any_json(),
        value in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
    ) {
        match Expr::compile(&vars) {
            Ok(expr) => {
                let _ = expr.eval(&Request { value: value.as_deref(), ..Request::new("GET", "h", "/") });
            }
            Err(errors) => {
                prop_assert!(!errors.is_empty());
                for error in errors {
                    // A right side that is left out is named by where it would stand.
                    let parent = error.path.rsplit_once('/').map_or("", |(parent, _)| parent);
                    prop_assert!(vars.pointer(parent).is_some(), "{} in {}", error, vars);
                }
            }
        }
    }
}
