//! The order of choice, in the cases that APISIX's own tests and documentation name.

mod request;

use request::{Request, entry};
use router::{Beaten, Condition, Conditions, Mode, Outcome, RouteEntry, Router};
use serde_json::json;

fn router(mode: Mode, entries: Vec<RouteEntry<String>>) -> Router<String> {
    let mut router = Router::new(mode);
    for entry in entries {
        router.insert(entry);
    }
    router
}

/// `host/path` of a request to the id that is found, or `-`.
fn check(router: &Router<String>, cases: &[(&str, &str)]) {
    for (request, expected) in cases {
        let (host, path) = request.split_at(request.find('/').expect("a path"));
        let found = router.find(&Request::new("GET", host, path)).map_or("-", |found| found.payload);
        assert_eq!(found, *expected, "{request}");
    }
}

#[test]
fn exact_paths_go_before_prefixes_and_long_ones_before_short_ones() {
    let router = router(
        Mode::HostUri,
        vec![
            entry("foo/*", &[], &["/blog/foo/*"], 9, &[]),
            entry("foo/a/*", &[], &["/blog/foo/a/*"], 0, &[]),
            entry("foo/c/*", &[], &["/blog/foo/c/*"], 0, &[]),
            entry("foo/bar", &[], &["/blog/foo/bar"], -5, &[]),
            entry("equal*", &[], &["/equal*"], 0, &[]),
            entry("equal123*", &[], &["/equal123*"], 0, &[]),
            entry("equal", &[], &["/equal"], 0, &[]),
            entry("file:x", &[], &["/file:x"], 0, &[]),
            entry("doc/*/edit", &[], &["/doc/*/edit"], 0, &[]),
            entry("doc/*", &[], &["/doc/*"], 0, &[]),
        ],
    );
    check(
        &router,
        &[
            ("/blog/foo/bar", "foo/bar"),
            ("/blog/foo/a/b/c", "foo/a/*"),
            ("/blog/foo/c/d", "foo/c/*"),
            ("/blog/foo/gloo", "foo/*"),
            ("/blog/foo/", "foo/*"),
            ("/blog/foo", "-"),
            ("/blog/bar", "-"),
            ("/equal", "equal"),
            ("/equal1", "equal*"),
            ("/equal12", "equal*"),
            ("/equal123", "equal123*"),
            ("/equal1234", "equal123*"),
            ("/file:x", "file:x"),
            ("/file:y", "-"),
            ("/doc/1/edit", "doc/*/edit"),
            ("/doc/1/read", "doc/*"),
        ],
    );
}

#[test]
fn within_one_path_the_priority_decides_and_then_the_id() {
    let entries = [("3", 0), ("1", 0), ("2", 7), ("10", 0), ("4", -1)];
    let entries = entries.map(|(id, priority)| entry(id, &[], &["/hello"], priority, &[]));
    let mut router = router(Mode::HostUri, entries.into());
    for expected in ["2", "1", "10", "3", "4", "-"] {
        check(&router, &[("/hello", expected)]);
        router.remove(expected);
    }
    assert!(router.is_empty());
}

#[test]
fn hosts_go_from_exact_to_the_shortest_wildcard_and_fall_back_when_the_path_fits_nowhere_below() {
    let router = router(
        Mode::HostUri,
        vec![
            entry("exact", &["WWW.foo.com"], &["/a"], 0, &[]),
            entry("*.foo.com", &["*.foo.com"], &["/*"], 0, &["GET"]),
            entry("*.com", &["*.Com", "bar.org"], &["/b/*"], 0, &[]),
            entry("posts", &["www.foo.com"], &["/c"], 0, &["POST"]),
            entry("any", &[], &["/b/x"], 100, &[]),
            entry("star", &["*"], &["/s"], 0, &[]),
        ],
    );
    check(
        &router,
        &[
            ("www.foo.com/a", "exact"),
            ("www.foo.com/c", "*.foo.com"),
            ("www.foo.com/b/x", "*.foo.com"),
            ("a.b.foo.com/a", "*.foo.com"),
            (".foo.com/a", "*.foo.com"),
            ("foo.com/a", "-"),
            ("foo.com/b/x", "*.com"),
            ("bar.org/b/x", "*.com"),
            ("x.org/b/x", "any"),
            ("x.org/s", "star"),
            ("/b/x", "any"),
            ("/s", "star"),
        ],
    );
    let found = router.find(&Request::new("GET", "a.foo.com", "/x/y")).expect("a match");
    assert_eq!((found.host, found.path), (Some("*.foo.com"), "/*"));
    let found = router.find(&Request::new("GET", "foo.com", "/b/c")).expect("a match");
    assert_eq!((found.host, found.path), (Some("*.com"), "/b/*"));
    let found = router.find(&Request::new("GET", "x.org", "/b/x")).expect("a match");
    assert_eq!((found.host, found.path), (None, "/b/x"));
}

#[test]
fn in_uri_mode_the_path_goes_first_and_the_host_is_a_condition() {
    let router = router(
        Mode::Uri,
        vec![
            entry("host", &["foo.com", "*.Bar.com"], &["/*"], 9, &[]),
            entry("port", &["foo.com:9080"], &["/p"], 9, &[]),
            entry("any", &[], &["/a"], 0, &[]),
        ],
    );
    check(
        &router,
        &[
            ("foo.com/a", "any"),
            ("foo.com/b", "host"),
            ("www.bar.com/b", "host"),
            ("bar.com/b", "-"),
            ("x/b", "-"),
        ],
    );
    let mut request = Request::new("GET", "foo.com", "/p");
    assert_eq!(router.find(&request).map(|found| found.host), Some(Some("foo.com")));
    request.host_header = b"Foo.com:9080";
    assert_eq!(router.find(&request).map(|found| found.host), Some(Some("foo.com:9080")));
}

#[test]
fn a_candidate_that_fails_a_condition_gives_way_to_the_next() {
    let mut with_vars = entry("vars", &[], &["/a/b*"], 5, &[]);
    let route = model::Route {
        vars: Some(json!([["arg_k", "==", "v"]])),
        remote_addrs: Some(vec!["10.0.0.0/8".into()]),
        ..model::Route::default()
    };
    with_vars.conditions = Conditions::compile(&route).expect("valid");
    let router = router(
        Mode::HostUri,
        vec![
            with_vars,
            entry("post", &[], &["/a/b*"], 1, &["POST", "PUT"]),
            entry("short", &[], &["/a*"], 0, &[]),
        ],
    );
    let mut request = Request::new("GET", "", "/a/b/c");
    for (method, ip, value, expected) in [
        ("GET", [10, 1, 2, 3], Some("v"), "vars"),
        ("GET", [10, 1, 2, 3], Some("w"), "short"),
        ("GET", [10, 1, 2, 3], None, "short"),
        ("POST", [11, 1, 2, 3], Some("v"), "post"),
        ("BREW", [11, 1, 2, 3], Some("v"), "short"),
    ] {
        request.method = method.as_bytes();
        request.ip = ip.into();
        request.value = value.map(str::as_bytes);
        assert_eq!(router.find(&request).expect("a match").payload, expected, "{method} {ip:?} {value:?}");
    }
}

#[test]
fn a_clone_does_not_see_later_changes_and_an_insert_replaces() {
    let mut router = router(Mode::HostUri, vec![entry("1", &["a.com"], &["/x", "/y/*"], 0, &[])]);
    let before = router.clone();
    router.insert(entry("1", &["b.com"], &["/y/*"], 0, &[]));
    router.insert(entry("2", &["a.com"], &["/x"], 0, &[]));
    assert_eq!((before.len(), router.len()), (1, 2));
    check(&before, &[("a.com/x", "1"), ("a.com/y/1", "1"), ("b.com/y/1", "-")]);
    check(&router, &[("a.com/x", "2"), ("a.com/y/1", "-"), ("b.com/y/1", "1")]);
    assert_eq!(router.hosts("1"), Some(&["b.com".to_owned()][..]));

    assert_eq!(router.remove("2").as_deref(), Some("2"));
    assert!(router.remove("2").is_none());
    check(&router, &[("a.com/x", "-")]);
}

#[test]
fn a_replaced_payload_is_found_in_all_places_and_not_by_earlier_clones() {
    let mut router = router(Mode::HostUri, vec![entry("1", &["a.com", "b.com"], &["/x", "/y/*"], 0, &[])]);
    let before = router.clone();
    assert!(router.replace("1", "new".to_owned()));
    assert!(!router.replace("2", "new".to_owned()));
    for (router, expected) in [(&before, "1"), (&router, "new")] {
        let cases = ["a.com/x", "b.com/y/1"].map(|request| (request, expected));
        check(router, &cases);
        assert_eq!(router.get("1").map(String::as_str), Some(expected));
    }
}

#[test]
fn parameters_stand_for_one_segment_each() {
    let entries = vec![
        entry("id", &[], &["/user/:id"], 0, &[]),
        entry("orders", &[], &["/user/:id/orders/:order"], 0, &[]),
        entry("any", &[], &["/user/*"], 0, &[]),
        entry("me", &["foo.com"], &["/user/me"], 0, &[]),
    ];
    let with = router(Mode::UriWithParameter, entries.clone());
    check(
        &with,
        &[
            ("foo.com/user/me", "me"),
            ("bar.com/user/me", "id"),
            ("/user/", "any"),
            ("/user/7", "id"),
            ("/user/7/orders/8", "orders"),
            ("/user/7/orders/8/9", "any"),
        ],
    );
    let without = router(Mode::Uri, entries);
    check(&without, &[("/user/7", "any"), ("/user/:id", "id")]);
}

#[test]
fn an_explanation_names_what_was_tried_and_why_it_was_passed_over() {
    let vars = json!([["arg_a", "==", "v"], ["arg_b", "==", "w"]]);
    let conditions = Conditions {
        vars: Some(router::Expr::compile(&vars).expect("valid rules")),
        ..Conditions::default()
    };
    let entries = vec![
        RouteEntry { conditions, ..entry("vars", &["a.com"], &["/x/y"], 5, &[]) },
        entry("post", &["a.com"], &["/x/y"], 4, &["POST"]),
        entry("won", &["a.com"], &["/x/y"], 3, &[]),
        entry("lower", &["a.com"], &["/x/y"], 2, &[]),
        entry("prefix", &["a.com"], &["/x/*"], 9, &[]),
        entry("wildcard", &["*.com"], &["/x/y"], 9, &[]),
        entry("any host", &[], &["/x/y"], 9, &[]),
        entry("tail", &["a.com"], &["/x/*/z"], 9, &[]),
        entry("other host", &["b.org"], &["/x/y"], 9, &[]),
        entry("other path", &["a.com"], &["/z"], 9, &[]),
    ];
    let router = router(Mode::HostUri, entries);
    let mut request = Request::new("GET", "a.com", "/x/y");
    request.value = Some(b"v");
    let explained = router.explain(&request, 100);
    let outcomes: Vec<_> = explained.considered.iter().map(|one| (one.id, one.outcome)).collect();
    let failed = Outcome::Failed;
    assert_eq!(
        outcomes,
        [
            ("vars", failed(Condition::Vars(Some(1)))),
            ("post", failed(Condition::Method)),
            ("won", Outcome::Chosen),
            ("lower", Outcome::Beaten(Beaten::Priority)),
            ("tail", failed(Condition::Path)),
            ("prefix", Outcome::Beaten(Beaten::Path)),
            ("wildcard", Outcome::Beaten(Beaten::Host)),
            ("any host", Outcome::Beaten(Beaten::Host)),
            ("other host", failed(Condition::Host)),
            ("other path", failed(Condition::Path)),
        ]
    );
    let short = router.explain(&request, 2);
    assert_eq!((short.considered.len(), short.omitted), (3, 7));
    assert_eq!(short.considered[2].id, "won");
}

#[test]
fn what_conditions_look_at_in_the_body_is_known_as_long_as_they_are_there() {
    let with = |id, vars: serde_json::Value| RouteEntry {
        conditions: Conditions {
            vars: Some(router::Expr::compile(&vars).expect("valid rules")),
            ..Conditions::default()
        },
        ..entry(id, &[], &["/"], 0, &[])
    };
    let mut router = router(Mode::HostUri, vec![with("1", json!([["arg_a", "==", "b"]]))]);
    assert!(router.body_need().is_none());
    router.insert(with("2", json!([["OR", ["arg_a", "b"], ["post_arg.model", "b"]]])));
    router.insert(with("3", json!([["graphql_name", "b"]])));
    assert!(router.body_need().fields && router.body_need().graphql);
    router.remove("2");
    router.insert(with("3", json!([["arg_a", "==", "b"]])));
    assert!(router.body_need().is_none());
}
