//! Keys, roles, addresses and CORS (t/admin/token.t, api.t).

use crate::bench::{Bench, KEY, VIEWER, request, route, settings};
use admin::{AdminRequest, AdminSettings};
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
        ("gateway:9180", 200),
        ("evil.example:9180", 401),
        ("127.0.0.1.evil.example", 401),
    ] {
        let request = with_headers("GET", "/apisix/admin/routes", &[("Host", host)]);
        assert_eq!(bench.send(request).await.status, status, "{host}");
    }
    for (peer, origin, status) in [
        ("127.0.0.1", None, 200),
        ("::1", None, 200),
        ("::ffff:127.0.0.1", None, 200),
        ("10.0.0.1", None, 401),
        ("127.0.0.1", Some("http://localhost:9000"), 200),
        ("127.0.0.1", Some("http://[::1]:9000"), 200),
        ("127.0.0.1", Some("https://evil.example"), 401),
        ("127.0.0.1", Some("https://localhost.evil.example"), 401),
        ("127.0.0.1", Some("null"), 401),
    ] {
        let mut request = with_headers("GET", "/apisix/admin/routes", &[]);
        request.peer = peer.parse().unwrap();
        request.headers.extend(origin.map(|origin| ("Origin".to_owned(), origin.to_owned())));
        assert_eq!(bench.send(request).await.status, status, "{peer} {origin:?}");
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
    let bench = Bench::new();
    let reply = bench.send(with_headers("OPTIONS", "/apisix/admin/routes", &[])).await;
    assert_eq!((reply.status, reply.text.as_str()), (200, ""));
    assert_eq!(reply.header("Access-Control-Allow-Methods"), Some("POST, GET, PUT, OPTIONS, DELETE, PATCH"));
    let reply = bench.call("PUT", "/routes/1", route()).await;
    assert_eq!(reply.header("Access-Control-Allow-Origin"), Some("*"));

    let bench = Bench::with(AdminSettings { cors: false, ..settings() });
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
