//! Plugins that ask identity servers: with servers that are down, silent, endless or lie, nobody gets in.

use e2e::{Gateway, Message, Upstream, eventually};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn get(gateway: &Gateway, path: &str, fields: &str) -> Message {
    let mut peer = gateway.connect();
    peer.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"));
    peer.response()
}

/// What each plugin is configured with for a server, and a request that makes it ask; the statuses of a refusal.
fn plugins(url: &str) -> Vec<(&'static str, Value, &'static str, String, &'static [u16])> {
    vec![
        ("wolf-rbac", json!({}), "/", "X-Rbac-Token: V1#app#t\r\n".to_owned(), &[500, 401]),
        (
            "authz-keycloak",
            json!({ "client_id": "c", "token_endpoint": format!("{url}/token"), "permissions": ["a"], "timeout": 1000 }),
            "/",
            "Authorization: Bearer t\r\n".to_owned(),
            &[503],
        ),
        (
            "dingtalk-auth",
            json!({
                "app_key": "k", "app_secret": "hidden-secret", "secret": "0123456789", "redirect_uri": "/login", "timeout": 500,
                "access_token_url": format!("{url}/token"), "userinfo_url": format!("{url}/user")
            }),
            "/?code=c",
            String::new(),
            &[500, 503],
        ),
        (
            "feishu-auth",
            json!({
                "app_id": "k", "app_secret": "hidden-secret", "secret": "0123456789", "redirect_uri": "/login", "timeout": 500,
                "auth_redirect_uri": "/back", "access_token_url": format!("{url}/token"), "userinfo_url": format!("{url}/user")
            }),
            "/?code=c",
            String::new(),
            &[401],
        ),
        (
            "openid-connect",
            json!({
                "client_id": "c", "client_secret": "hidden-secret", "discovery": format!("{url}/d"), "timeout": 1,
                "session": { "secret": "0123456789abcdef" }
            }),
            "/",
            String::new(),
            &[500],
        ),
        (
            "openid-connect",
            json!({
                "client_id": "c", "discovery": format!("{url}/d"), "timeout": 1, "bearer_only": true, "use_jwks": true
            }),
            "/",
            "Authorization: Bearer e30.e30.e30\r\n".to_owned(),
            &[401],
        ),
        (
            "openid-connect",
            json!({
                "client_id": "c", "client_secret": "hidden-secret", "discovery": format!("{url}/d"), "timeout": 1,
                "bearer_only": true, "introspection_endpoint": format!("{url}/i")
            }),
            "/",
            "Authorization: Bearer t\r\n".to_owned(),
            &[401],
        ),
    ]
}

#[test]
fn servers_that_are_down_silent_or_talk_nonsense_let_nobody_in() {
    let (upstream, seen) = Upstream::recording();
    let gone = Upstream::hello().address();
    let silent = Upstream::serve(|mut peer, _| while matches!(peer.fill(), Ok(true)) {});
    let resetting = Upstream::serve(|mut peer, _| {
        let _ = peer.request();
        peer.reset();
    });
    let said = |body: &'static str| {
        Upstream::answering(move |_| {
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        })
    };
    let (html, empty, list) = (said("<html>ok</html>"), said("{}"), said("[true]"));
    let endless = Upstream::serve(|mut peer, _| {
        let _ = peer.request();
        let _ = peer.try_send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        while peer.try_send(chunk.as_bytes()).is_ok() {}
    });
    let servers = [
        ("down", gone),
        ("silent", silent.address()),
        ("resets", resetting.address()),
        ("html", html.address()),
        ("empty", empty.address()),
        ("list", list.address()),
        ("endless", endless.address()),
    ];
    let gateway = Gateway::start();
    for (what, address) in &servers {
        let url = format!("http://{address}");
        let wolf = json!({ "wolf-rbac": { "appid": "app", "server": url } });
        gateway.put("consumers", &json!({ "username": "jack", "plugins": wolf }));
        for (plugin, config, path, fields, statuses) in plugins(&url) {
            // Its ten seconds are its own.
            if plugin == "wolf-rbac" && *what == "silent" {
                continue;
            }
            gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": { plugin: config } }));
            let begin = Instant::now();
            let answer = get(&gateway, path, &fields);
            assert!(
                statuses.contains(&answer.status()),
                "{plugin} {what}: {} {}",
                answer.status(),
                gateway.stderr()
            );
            assert!(begin.elapsed() < Duration::from_secs(9), "{plugin} {what}: {:?}", begin.elapsed());
            let name = plugin.split('-').next().unwrap().to_owned();
            eventually("the log tells", || gateway.stderr().contains(&name).then_some(()));
        }
    }
    assert!(seen.take().is_empty());
    assert!(
        !gateway.stderr().contains("hidden-secret") && !gateway.stderr().contains("panicked"),
        "{}",
        gateway.stderr()
    );
}

#[test]
fn a_policy_of_casbin_decides_in_the_gateway() {
    let (upstream, seen) = Upstream::recording();
    let gateway = Gateway::start();
    let model = "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = sub, obj, act\n[role_definition]\n\
                 g = _, _\n[policy_effect]\ne = some(where (p.eft == allow))\n[matchers]\n\
                 m = g(r.sub, p.sub) && keyMatch2(r.obj, p.obj) && regexMatch(r.act, p.act)";
    let metadata = |policy: &str| json!({ "model": model, "policy": policy });
    let route = json!({ "plugins": { "authz-casbin": { "username": "user" } } });
    gateway.route_with(&upstream.address(), &json!({}), &route);
    assert_eq!(get(&gateway, "/orders/7", "user: alice\r\n").status(), 503, "no metadata yet");
    gateway.put("plugin_metadata/authz-casbin", &metadata("p, clerk, /orders/:id, ^GET$\ng, alice, clerk"));
    assert_eq!(get(&gateway, "/orders/7", "user: alice\r\n").status(), 200);
    for (path, fields) in [
        ("/orders/7/x", "user: alice\r\n"),
        ("/orders/7", "user: bob\r\n"),
        ("/orders/7", ""),
        ("/orders/%2e%2e/x", "user: alice\r\n"),
    ] {
        let refused = get(&gateway, path, fields);
        assert_eq!(
            (refused.status(), refused.json()),
            (403, json!({ "message": "Access Denied" })),
            "{path} {fields}"
        );
    }
    gateway.put("plugin_metadata/authz-casbin", &metadata("p, clerk, /orders/:id, ^GET$\ng, bob, clerk"));
    assert_eq!(get(&gateway, "/orders/7", "user: bob\r\n").status(), 200);
    assert_eq!(get(&gateway, "/orders/7", "user: alice\r\n").status(), 403);
    assert_eq!(seen.take().len(), 2);
}

#[test]
fn a_cas_login_ends_with_the_servers_word_on_every_worker() {
    let cas = Upstream::answering(|request| {
        let good = request.start.contains("ticket=ST-1&");
        let body = match good {
            true => {
                "<cas:serviceResponse><cas:authenticationSuccess><cas:user>jack</cas:user></cas:authenticationSuccess>"
            }
            false => "<cas:serviceResponse><cas:authenticationFailure code='INVALID_TICKET'/>",
        };
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    });
    let upstream = Upstream::hello();
    let gateway = Gateway::with(json!({ "nginx_config": { "worker_processes": 2 } }));
    let config = json!({
        "idp_uri": format!("http://{}", cas.address()), "cas_callback_uri": "/back", "logout_uri": "/logout",
        "cookie": { "secret": "0123456789abcdef0123456789abcdef", "secure": false }
    });
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": { "cas-auth": config } }));
    let cookie = |answer: &Message, start: &str| {
        let found = answer
            .all("set-cookie")
            .into_iter()
            .find(|line| line.starts_with(start) && !line.contains("Max-Age=0"));
        found.map(|line| line.split(';').next().unwrap().to_owned())
    };
    let asked = cookie(&get(&gateway, "/page?x=1", ""), "CAS_REQUEST_URI").unwrap();
    assert_eq!(get(&gateway, "/back?ticket=ST-2", &format!("Cookie: {asked}\r\n")).status(), 401);
    let back = get(&gateway, "/back?ticket=ST-1", &format!("Cookie: {asked}\r\n"));
    assert_eq!((back.status(), back.field("location")), (302, Some("/page?x=1")));
    let session = cookie(&back, "CAS_SESSION_").unwrap();
    for _ in 0..8 {
        assert_eq!(get(&gateway, "/page", &format!("Cookie: {session}\r\n")).status(), 200);
    }
    let body = "<samlp:LogoutRequest><samlp:SessionIndex>ST-1</samlp:SessionIndex></samlp:LogoutRequest>";
    let mut peer = gateway.connect();
    peer.send(format!("POST /back HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    assert_eq!(peer.response().status(), 200);
    for _ in 0..8 {
        assert_eq!(get(&gateway, "/page", &format!("Cookie: {session}\r\n")).status(), 302);
    }
}
