//! `openid-connect` with a real provider: login, sessions in cookies and in Redis, tokens, logout.

use e2e::{Gateway, Home, Message, OidcProvider, Peer, Redis, Upstream, eventually, own_network};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The provider's port.
const PROVIDER: u16 = 9998;

/// A browser: it keeps cookies by port, and follows nothing by itself.
#[derive(Default, Clone)]
struct Browser(BTreeMap<(u16, String), String>);

impl Browser {
    fn send(&mut self, method: &str, url: &str, body: &str) -> Message {
        let rest =
            url.strip_prefix("http://localhost:").unwrap_or_else(|| panic!("not on this machine: {url}"));
        let (port, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let port: u16 = port.parse().unwrap();
        let cookies: Vec<_> = self
            .0
            .iter()
            .filter(|((of, _), _)| *of == port)
            .map(|((_, name), value)| format!("{name}={value}"))
            .collect();
        let mut peer = Peer::connect(port);
        peer.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nCookie: {}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            cookies.join("; "),
            body.len()
        ));
        let answer = peer.response();
        for cookie in answer.all("set-cookie") {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            let key = (port, name.to_owned());
            if cookie.contains("Max-Age=0") || value.is_empty() {
                self.0.remove(&key);
            } else {
                self.0.insert(key, value.to_owned());
            }
        }
        answer
    }

    fn get(&mut self, url: &str) -> Message {
        self.send("GET", url, "")
    }

    /// The URL that an answer redirects to.
    fn location(answer: &Message, from: &str) -> String {
        let location =
            answer.field("location").unwrap_or_else(|| panic!("{} {}", answer.start, answer.text()));
        if location.starts_with('/') {
            let origin = &from[..from.match_indices('/').nth(2).map_or(from.len(), |(at, _)| at)];
            return format!("{origin}{location}");
        }
        location.to_owned()
    }

    /// Logs in as the provider's user, from the gateway's answer on: the URL with which the client comes back.
    fn log_in(&mut self, asked: &Message) -> String {
        let authorize = Self::location(asked, "");
        let page = Self::location(&self.get(&authorize), &authorize);
        let (login, id) = page.split_once("?").unwrap();
        let id = id.split('&').find_map(|pair| pair.split_once('=')).unwrap().1;
        let form = format!("username=test-user%40localhost&password=verysecure&id={id}");
        let done = self.send("POST", login, &form);
        let callback = Self::location(&done, login);
        Self::location(&self.get(&callback), &callback)
    }
}

fn argument<'u>(url: &'u str, name: &str) -> &'u str {
    let query = url.split_once('?').unwrap().1;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
}

fn protect(gateway: &Gateway, upstream: &Upstream, more: &Value) {
    let mut config = json!({
        "client_id": "web", "client_secret": "secret", "scope": "openid profile offline_access",
        "discovery": format!("http://localhost:{PROVIDER}/.well-known/openid-configuration"),
        "redirect_uri": format!("http://localhost:{}/auth/callback", gateway.port),
        "use_pkce": true, "use_nonce": true, "set_refresh_token_header": true, "set_raw_id_token_header": true,
        "session": { "secret": "a-secret-of-the-test" }
    });
    config.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": { "openid-connect": config } }));
}

fn with_provider(name: &str, body: impl Fn(&Gateway, &Upstream, &e2e::Seen)) {
    let Some(program) = OidcProvider::program() else { return };
    own_network(name, &[PROVIDER], |home| {
        if home == Home::Shared {
            return;
        }
        let (upstream, seen) = Upstream::recording();
        let gateway = Gateway::with(json!({ "nginx_config": { "worker_processes": 2 } }));
        let _provider =
            OidcProvider::start(program, &format!("http://localhost:{}/auth/callback", gateway.port));
        body(&gateway, &upstream, &seen);
        assert!(!gateway.stderr().contains("panicked"), "{}", gateway.stderr());
    });
}

#[test]
fn a_user_logs_in_at_a_real_provider_and_out() {
    with_provider("openid_connect::a_user_logs_in_at_a_real_provider_and_out", |gateway, upstream, seen| {
        protect(gateway, upstream, &json!({}));
        let url = |path: &str| format!("http://localhost:{}{path}", gateway.port);
        let mut browser = Browser::default();
        let asked = browser.get(&url("/page?x=1"));
        let back = browser.log_in(&asked);
        let before = browser.clone();
        let inside = browser.get(&back);
        assert_eq!(
            (inside.status(), inside.field("location")),
            (302, Some("/page?x=1")),
            "{}",
            gateway.stderr()
        );
        for _ in 0..6 {
            assert_eq!(browser.get(&url("/page?x=1")).status(), 200);
        }
        let request = seen.take().pop().unwrap();
        for field in ["x-access-token", "x-id-token", "x-userinfo", "x-refresh-token", "x-raw-id-token"] {
            assert_eq!(request.all(field).len(), 1, "{field}");
        }
        // The same way back again, with the cookies of before: no session.
        let mut thief = before;
        let again = thief.get(&back);
        assert_eq!((again.status(), again.field("location")), (302, Some("/page?x=1")));
        assert_eq!(thief.get(&url("/page")).status(), 302);
        // Without its own cookies a way back leads nowhere.
        assert_eq!(Browser::default().get(&back).status(), 500);
        let out = browser.get(&url("/logout"));
        let end = Browser::location(&out, "");
        assert!(
            end.starts_with(&format!("http://localhost:{PROVIDER}/end_session?id_token_hint=ey")),
            "{end}"
        );
        assert_eq!(browser.get(&url("/page")).status(), 302);
        assert!(!gateway.stderr().contains("verysecure"));
    });
}

#[test]
fn sessions_live_in_redis_and_end_there() {
    if !Redis::is_installed() {
        return;
    }
    with_provider("openid_connect::sessions_live_in_redis_and_end_there", |gateway, upstream, seen| {
        let redis = Redis::start(&[]);
        let session = json!({
            "secret": "a-secret-of-the-test", "storage": "redis",
            "redis": { "host": "127.0.0.1", "port": redis.port, "prefix": "oidc" }
        });
        protect(gateway, upstream, &json!({ "session": session }));
        let url = |path: &str| format!("http://localhost:{}{path}", gateway.port);
        let mut browser = Browser::default();
        let asked = browser.get(&url("/page"));
        let back = browser.log_in(&asked);
        assert_eq!(browser.get(&back).status(), 302, "{}", gateway.stderr());
        for _ in 0..6 {
            assert_eq!(browser.get(&url("/page")).status(), 200);
        }
        assert!(seen.take().iter().all(|request| request.all("x-access-token").len() == 1));
        let keys = redis.ask(&["KEYS", "oidc:*"]);
        assert_eq!(keys.lines().count(), 1, "{keys}");
        assert!(!redis.ask(&["GET", keys.trim()]).contains("access_token"), "encrypted");
        assert!(browser.0.iter().all(|((_, name), value)| name != "session" || value.len() < 300));
        let kept = browser.clone();
        browser.get(&url("/logout"));
        eventually("the session is gone", || redis.ask(&["KEYS", "oidc:*"]).trim().is_empty().then_some(()));
        assert_eq!(kept.clone().get(&url("/page")).status(), 302, "also for who kept the cookie");
        drop(redis);
        assert_eq!(kept.clone().get(&url("/page")).status(), 500, "nobody knows");
    });
}

#[test]
fn access_tokens_are_looked_up_at_the_provider() {
    with_provider(
        "openid_connect::access_tokens_are_looked_up_at_the_provider",
        |gateway, upstream, seen| {
            protect(gateway, upstream, &json!({}));
            let url = |path: &str| format!("http://localhost:{}{path}", gateway.port);
            let mut browser = Browser::default();
            let asked = browser.get(&url("/page"));
            assert_eq!(argument(asked.field("location").unwrap(), "code_challenge_method"), "S256");
            let back = browser.log_in(&asked);
            browser.get(&back);
            browser.get(&url("/page"));
            let request = seen.take().pop().unwrap();
            let (token, id_token) =
                (request.field("x-access-token").unwrap(), request.field("x-raw-id-token").unwrap());
            protect(gateway, upstream, &json!({ "bearer_only": true }));
            let status = |token: &str| {
                let mut peer = gateway.connect();
                peer.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer {token}\r\n\r\n"));
                peer.response().status()
            };
            assert_eq!(status(token), 200, "{}", gateway.stderr());
            assert_eq!(status(&token[1..]), 401);
            assert_eq!(status("x"), 401);
            // An ID token is a JWT of the provider, signed with a key that it publishes.
            protect(gateway, upstream, &json!({ "bearer_only": true, "use_jwks": true }));
            assert_eq!(status(id_token), 200, "{}", gateway.stderr());
            assert_eq!(status(token), 401);
            let (rest, signature) = id_token.rsplit_once('.').unwrap();
            let swapped: String = signature.chars().rev().collect();
            assert_eq!(status(&format!("{rest}.{swapped}")), 401);
        },
    );
}
