//! Keys, roles, addresses and CORS (t/admin/token.t, api.t).

use crate::bench::{Bench, KEY, VIEWER, request, route, settings};
use admin::{AdminKey, AdminRequest, AdminSettings, Role};
use serde_json::json;

fn with_headers(method: &str, target: &str, headers: &[(&str, &str)]) -> AdminRequest {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    AdminRequest { headers, ..request(method, target, "") }
}

#[tokio::test]
async fn keys_come_by_argument_header_or_cookie() {
    let bench = Bench::new();
    let routes = "/apisix/admin/routes";
    let by_query = format!("{routes}?api_key={KEY}");
    let cookie = format!("a=b; x_api_key={KEY}");
    for (target, headers, expected) in [
        (routes, vec![], Err("missing apikey")),
        (routes, vec![("x-api-key", "wrong")], Err("wrong apikey")),
        (routes, vec![("x-api-key", "")], Err("wrong apikey")),
        (routes, vec![("X-Api-Key", KEY)], Ok(())),
        (&by_query, vec![], Ok(())),
        (routes, vec![("Cookie", &cookie)], Ok(())),
        ("/apisix/admin/routes?api_key=wrong", vec![("X-API-KEY", KEY)], Err("wrong apikey")),
        ("/apisix/admin/unknown", vec![], Err("missing apikey")),
        ("/apisix/admin/plugins/list", vec![], Err("missing apikey")),
        ("/apisix/admin/schema/route", vec![], Err("missing apikey")),
    ] {
        let reply = bench.send(with_headers("GET", target, &headers)).await;
        match expected {
            Ok(()) => assert_eq!(reply.status, 200, "{target} {headers:?}"),
            Err(description) => {
                assert_eq!(reply.status, 401, "{target} {headers:?}");
                let body = json!({ "error_msg": "failed to check token", "description": description });
                assert_eq!(reply.json(), body);
                assert_eq!(reply.header("X-API-VERSION"), None);
            }
        }
    }
}

#[tokio::test]
async fn a_viewer_only_looks() {
    let bench = Bench::new();
    for (method, target, status) in [
        ("GET", "/apisix/admin/routes", 200),
        ("GET", "/apisix/admin/schema/route", 200),
        ("PUT", "/apisix/admin/plugins/reload", 401),
        ("POST", "/apisix/admin/schema/validate/routes", 401),
        ("DELETE", "/apisix/admin/routes/1", 401),
    ] {
        let reply = bench.send(with_headers(method, target, &[("X-API-KEY", VIEWER)])).await;
        assert_eq!(reply.status, status, "{method} {target}");
        if status == 401 {
            assert_eq!(reply.json()["description"], json!("invalid method for role viewer"));
        }
    }
}

#[tokio::test]
async fn no_key_is_needed_on_this_machine_where_configured() {
    let bench = Bench::with(AdminSettings { key_required: false, ..settings() });
    for (host, status) in [
        ("127.0.0.1:9180", 200),
        ("[::1]:9180", 200),
        ("localhost", 200),
        ("LOCALHOST.:9180", 200),
        ("gateway:9180", 403),
        ("evil.example:9180", 403),
        ("127.0.0.1.evil.example", 403),
    ] {
        let request = with_headers("GET", "/apisix/admin/routes", &[("Host", host)]);
        assert_eq!(bench.send(request).await.status, status, "{host}");
    }
    for (peer, origin, status) in [
        ("127.0.0.1", None, 200),
        ("::1", None, 200),
        ("::ffff:127.0.0.1", None, 200),
        ("10.0.0.1", None, 401),
        ("127.0.0.1", Some("http://localhost:9180"), 200),
        ("127.0.0.1", Some("http://localhost:9000"), 403),
        ("127.0.0.1", Some("http://[::1]:9180"), 403),
        ("127.0.0.1", Some("https://evil.example"), 403),
        ("127.0.0.1", Some("https://localhost.evil.example"), 403),
        ("127.0.0.1", Some("null"), 403),
    ] {
        let mut request = with_headers("GET", "/apisix/admin/routes", &[("Host", "localhost:9180")]);
        request.peer = peer.parse().unwrap();
        request.headers.extend(origin.map(|origin| ("Origin".to_owned(), origin.to_owned())));
        assert_eq!(bench.send(request).await.status, status, "{peer} {origin:?}");
    }
    // A key opens it to other names all the same.
    let keyed = [("Host", "gateway:9180"), ("X-API-KEY", KEY)];
    assert_eq!(bench.send(with_headers("GET", "/apisix/admin/routes", &keyed)).await.status, 200);
}

/// The key of APISIX's own examples.
const PUBLISHED: &str = "edd1c9f034335f136f87ad84b625c8f1";

#[tokio::test]
async fn a_published_key_is_for_command_lines_on_this_machine() {
    let key = AdminKey { name: "a".into(), key: PUBLISHED.into(), role: Role::Admin };
    let keys = settings().keys.into_iter().chain([key]).collect();
    let bench = Bench::with(AdminSettings { keys, cors: true, ..settings() });
    let routes = "/apisix/admin/routes";
    let (key, local) = (("X-API-KEY", PUBLISHED), ("Host", "127.0.0.1:9180"));
    let query = format!("{routes}?api_key={PUBLISHED}");
    let cookie = format!("x_api_key={PUBLISHED}");
    for (target, headers, status) in [
        (routes, vec![key], 200),
        (routes, vec![key, local], 200),
        (routes, vec![key, local, ("Sec-Fetch-Site", "none")], 200),
        (routes, vec![key, ("Host", "gateway:9180")], 403),
        (routes, vec![key, local, ("Host", "evil.example")], 403),
        (routes, vec![key, local, ("Origin", "http://127.0.0.1:9180")], 403),
        (routes, vec![key, local, ("Origin", "null")], 403),
        (routes, vec![key, local, ("Referer", "http://127.0.0.1:9180/")], 403),
        (routes, vec![key, local, ("Sec-Fetch-Site", "same-origin")], 403),
        (routes, vec![local, ("X_API_KEY", PUBLISHED)], 401),
        (routes, vec![local, ("Cookie", &cookie)], 401),
        (&query, vec![local], 401),
        (&query, vec![key, local], 401),
    ] {
        let reply = bench.send(with_headers("GET", target, &headers)).await;
        assert_eq!(reply.status, status, "{target} {headers:?} {}", reply.text);
        assert_eq!(reply.header("Access-Control-Allow-Origin"), None, "CORS is for private keys");
        assert!(!reply.text.contains(PUBLISHED));
    }
    let preflight = [local, ("Origin", "http://evil.example"), ("Access-Control-Request-Method", "PUT")];
    let reply = bench.send(with_headers("OPTIONS", routes, &preflight)).await;
    assert_eq!((reply.status, reply.header("Access-Control-Allow-Origin")), (403, None));
}

#[tokio::test]
async fn pages_use_a_private_key_where_cors_is_on() {
    let routes = "/apisix/admin/routes";
    let (host, foreign) = (("Host", "admin.example"), ("Origin", "http://evil.example"));
    let own = ("Origin", "https://admin.example");
    let (key, cookie) = (("X-API-KEY", KEY), format!("x_api_key={KEY}"));
    for (cors, headers, status) in [
        (false, vec![host, key], 200),
        (false, vec![host, key, own], 200),
        (false, vec![host, key, foreign], 403),
        (true, vec![host, key, foreign], 200),
        (false, vec![host, ("Cookie", &*cookie)], 200),
        (false, vec![host, ("Cookie", &cookie), own], 200),
        (false, vec![host, ("Cookie", &cookie), foreign], 403),
        // A browser adds cookies to the requests of every page.
        (true, vec![host, ("Cookie", &cookie), foreign], 403),
        (true, vec![host, ("Cookie", &cookie), ("Sec-Fetch-Site", "same-site")], 403),
    ] {
        let bench = Bench::with(AdminSettings { cors, ..settings() });
        let reply = bench.send(with_headers("GET", routes, &headers)).await;
        assert_eq!(reply.status, status, "{cors} {headers:?}");
        let preflight = bench.send(with_headers("OPTIONS", routes, &[host, foreign])).await;
        assert_eq!(preflight.status, if cors { 200 } else { 403 });
        assert_eq!(preflight.header("Access-Control-Allow-Origin").is_some(), cors);
    }
}

#[tokio::test]
async fn on_the_data_port_no_key_is_for_pages_of_other_origins() {
    let bench = Bench::with(AdminSettings { cors: true, ..settings() });
    let (key, local) = (("X-API-KEY", KEY), ("Host", "127.0.0.1:9080"));
    let own = ("Origin", "http://127.0.0.1:9080");
    let cookie = format!("x_api_key={KEY}");
    for (method, headers, status) in [
        ("GET", vec![key, local], 200),
        ("GET", vec![key, local, own], 200),
        ("GET", vec![local, ("Cookie", &*cookie)], 200),
        ("GET", vec![local, ("Cookie", &cookie), own], 403),
        ("GET", vec![key, ("Host", "gateway:9080")], 403),
        ("GET", vec![key, local, ("Origin", "http://127.0.0.1:9081")], 403),
        ("OPTIONS", vec![local, ("Origin", "http://127.0.0.1:9081")], 403),
        ("HEAD", vec![("Host", "evil.example")], 403),
    ] {
        let mut request = with_headers(method, "/apisix/admin/routes", &headers);
        request.on_data_port = true;
        let reply = bench.send(request).await;
        assert_eq!(reply.status, status, "{method} {headers:?} {}", reply.text);
        assert_eq!(reply.header("Access-Control-Allow-Origin"), None);
    }
}

#[tokio::test]
async fn only_allowed_networks_connect() {
    let allow = vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
    let bench = Bench::with(AdminSettings { allow, ..settings() });
    for (peer, status) in
        [("10.1.2.3", 200), ("::ffff:10.1.2.3", 200), ("::1", 200), ("127.0.0.1", 403), ("fe80::1", 403)]
    {
        let mut request = request("GET", "/apisix/admin/routes", "");
        request.peer = peer.parse().unwrap();
        let reply = bench.send(request).await;
        assert_eq!(reply.status, status, "{peer}");
        assert!(status == 200 || reply.error().ends_with("is not in allow_admin"));
    }
}

#[tokio::test]
async fn browsers_are_told_what_they_may() {
    let bench = Bench::with(AdminSettings { cors: true, ..settings() });
    let reply = bench.send(with_headers("OPTIONS", "/apisix/admin/routes", &[])).await;
    assert_eq!((reply.status, reply.text.as_str()), (200, ""));
    assert_eq!(reply.header("Access-Control-Allow-Methods"), Some("POST, GET, PUT, OPTIONS, DELETE, PATCH"));
    let reply = bench.call("PUT", "/routes/1", route()).await;
    assert_eq!(reply.header("Access-Control-Allow-Origin"), Some("*"));

    let bench = Bench::new();
    let reply = bench.send(with_headers("OPTIONS", "/apisix/admin/routes", &[])).await;
    assert_eq!(reply.status, 404);
    assert_eq!(reply.header("Access-Control-Allow-Origin"), None);
}

#[tokio::test]
async fn a_probe_needs_no_key() {
    let bench = Bench::new();
    let reply = bench.send(with_headers("HEAD", "/apisix/admin", &[])).await;
    assert_eq!((reply.status, reply.text.as_str()), (200, ""));
}
