//! What a web page of another site can send to a gateway on the machine of the person who looks at it: nothing of it may
//! have an effect. Here by raw requests; a browser has its turn in `drive_by_browser`.

use e2e::{Gateway, Http2Client, Message, Peer, Spec, asynchronously, free_ports};
use serde_json::{Value, json};

/// The key of APISIX's own examples, which every page knows.
pub(crate) const PUBLISHED: &str = "edd1c9f034335f136f87ad84b625c8f1";

/// A route that would take every request.
pub(crate) fn body() -> Value {
    json!({ "uri": "/*", "upstream": { "type": "roundrobin", "nodes": { "127.0.0.1:1": 1 } } })
}

/// A quick start with the control API, and that one's port.
pub(crate) fn quickstart() -> (Gateway, u16) {
    let [control] = free_ports();
    let config = json!({
        "apisix": { "enable_control": true, "control": { "ip": "127.0.0.1", "port": control } },
        "deployment": { "admin": { "admin_key": null, "enable_admin_cors": true } },
    });
    (Gateway::launch(&Spec { command: "quickstart", config, ..Spec::default() }), control)
}

/// A gateway that asks for no key, with CORS on.
pub(crate) fn without_key() -> Gateway {
    let admin = json!({ "admin_key": null, "admin_key_required": false, "enable_admin_cors": true });
    Gateway::with(json!({ "deployment": { "admin": admin } }))
}

/// The key that the quick start made.
pub(crate) fn private_key(gateway: &Gateway) -> String {
    std::fs::read_to_string(gateway.data_dir().join("admin.key")).unwrap().trim().to_owned()
}

/// Routes that there are, asked for as an operator does.
pub(crate) fn routes(gateway: &Gateway) -> u64 {
    let mut peer = Peer::connect(gateway.admin_port);
    let key = std::fs::read_to_string(gateway.data_dir().join("admin.key")).unwrap_or_default();
    peer.send(format!(
        "GET /apisix/admin/routes HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {}\r\n\r\n",
        key.trim()
    ));
    peer.response().json()["total"].as_u64().unwrap()
}

/// Sends `head` (its lines with `PORT` for the port) with a route as its body.
pub(crate) fn send(port: u16, head: &str) -> Message {
    let body = body().to_string();
    let head = head.replace("PORT", &port.to_string()).replace('\n', "\r\n");
    let mut peer = Peer::connect(port);
    peer.send(format!("{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    peer.response()
}

pub(crate) const PATH: &str = "/apisix/admin/routes/1";

/// What comes with a request that a page sent, or that reached the gateway by a foreign name; each after what it is.
pub(crate) const MARKS: [(&str, &str); 21] = [
    ("a page of another site", "Host: 127.0.0.1:PORT\nOrigin: http://evil.test"),
    ("a page of another site on the same port", "Host: 127.0.0.1:PORT\nOrigin: https://evil.test:PORT"),
    ("a page without an origin (sandboxed frame)", "Host: 127.0.0.1:PORT\nOrigin: null"),
    ("a file that a browser shows", "Host: 127.0.0.1:PORT\nOrigin: file://"),
    ("a page of another local server", "Host: 127.0.0.1:PORT\nOrigin: http://127.0.0.1:1"),
    ("a page of `localhost` on `127.0.0.1`", "Host: 127.0.0.1:PORT\nOrigin: http://localhost:PORT"),
    (
        "the own address as user information of an origin",
        "Host: 127.0.0.1:PORT\nOrigin: http://127.0.0.1:PORT@evil.test",
    ),
    (
        "two origins, the first its own",
        "Host: 127.0.0.1:PORT\nOrigin: http://127.0.0.1:PORT\nOrigin: http://evil.test",
    ),
    ("a page of another local server over IPv6", "Host: [::1]:PORT\norigin:http://[::1]:1"),
    ("a name that begins with `localhost`", "Host: localhost.:PORT\nORIGIN: http://localhost.evil.test:PORT"),
    ("a page that is known by its `Referer` alone", "Host: 127.0.0.1:PORT\nReferer: http://evil.test/page"),
    ("a page that is known by `Sec-Fetch-Site` alone", "Host: 127.0.0.1:PORT\nSec-Fetch-Site: cross-site"),
    ("a page of a sibling site", "Host: 127.0.0.1:PORT\nSec-Fetch-Site: same-site"),
    (
        "a request said to be typed in, with a `Referer`",
        "Host: 127.0.0.1:PORT\nSec-Fetch-Site: none\nReferer: http://evil.test/",
    ),
    ("DNS rebinding", "Host: evil.test"),
    (
        "DNS rebinding: the page takes the gateway for its own origin",
        "Host: evil.test:PORT\nOrigin: http://evil.test:PORT\nSec-Fetch-Site: same-origin",
    ),
    ("DNS rebinding: a name that begins with the address", "Host: 127.0.0.1.evil.test:PORT"),
    ("DNS rebinding: a name that begins with `localhost`", "Host: localhost.evil.test"),
    ("the unspecified address, which connects to this machine", "Host: 0.0.0.0:PORT"),
    ("the unspecified address of IPv6", "Host: [::]:PORT"),
    ("an address of the local network", "Host: 192.168.1.1:PORT"),
];

#[test]
fn no_page_writes_to_a_quick_start() {
    let (gateway, _) = quickstart();
    let mut attempts = 0;
    for port in [gateway.port, gateway.admin_port] {
        for (_, mark) in MARKS {
            let keyed = format!("{mark}\nX-API-KEY: {PUBLISHED}");
            for head in [
                format!("PUT {PATH} HTTP/1.1\n{keyed}"),
                format!("POST /apisix/admin/routes HTTP/1.1\n{keyed}\nContent-Type: text/plain"),
                format!("POST /apisix/admin/routes?api_key={PUBLISHED} HTTP/1.1\n{mark}"),
                format!("PUT {PATH} HTTP/1.1\n{mark}\nCookie: x_api_key={PUBLISHED}"),
                format!("PUT //apisix/./admin/routes/1 HTTP/1.1\n{keyed}"),
            ] {
                let answer = send(port, &head);
                assert!(matches!(answer.status(), 401 | 403 | 404), "{head}: {}", answer.text());
                assert_eq!(answer.field("Access-Control-Allow-Origin"), None, "{head}");
                assert!(!answer.text().contains(PUBLISHED), "{head}");
                attempts += 1;
            }
            let answer = send(port, &format!("GET /apisix/admin/routes HTTP/1.1\n{keyed}"));
            assert_eq!(answer.status(), 403, "{mark}: nothing to read either");
        }
        // The published key is for one header alone, with or without a page.
        for head in [
            format!("POST /apisix/admin/routes?api_key={PUBLISHED} HTTP/1.1\nHost: localhost:PORT"),
            format!("PUT {PATH} HTTP/1.1\nHost: localhost:PORT\nCookie: x_api_key={PUBLISHED}"),
            format!("PUT {PATH} HTTP/1.1\nHost: localhost:PORT\nX_API_KEY: {PUBLISHED}"),
            format!(
                "PUT {PATH} HTTP/1.1\nHost: localhost:PORT\nOrigin: http://localhost:PORT\nX-API-KEY: {PUBLISHED}"
            ),
            format!("PUT http://evil.test{PATH} HTTP/1.1\nHost: localhost:PORT\nX-API-KEY: {PUBLISHED}"),
            format!("PUT http://evil.test:PORT{PATH} HTTP/1.1\nHost: evil.test:PORT\nX-API-KEY: {PUBLISHED}"),
        ] {
            let answer = send(port, &head);
            assert!(matches!(answer.status(), 400 | 401 | 403), "{head}: {}", answer.text());
            attempts += 1;
        }
        for (_, mark) in MARKS {
            let asked = "Access-Control-Request-Method: PUT\nAccess-Control-Request-Headers: x-api-key";
            let answer = send(port, &format!("OPTIONS {PATH} HTTP/1.1\n{mark}\n{asked}"));
            assert!(matches!(answer.status(), 403 | 404), "{mark}");
            assert!(answer.fields.iter().all(|line| !line.to_lowercase().starts_with("access-control")));
        }
    }
    assert!(attempts > 200 && routes(&gateway) == 0);
    // The operator's own commands work on both ports.
    let key = private_key(&gateway);
    for (port, key) in [(gateway.port, PUBLISHED), (gateway.admin_port, PUBLISHED), (gateway.port, &key)] {
        for host in ["127.0.0.1:PORT", "localhost:PORT", "LocalHost.:PORT", "[::1]:PORT"] {
            let answer = send(port, &format!("PUT {PATH} HTTP/1.1\nHost: {host}\nX-API-KEY: {key}"));
            assert!(matches!(answer.status(), 200 | 201), "{host}: {}", answer.text());
        }
    }
    let by_query = format!("PUT {PATH}?api_key={key} HTTP/1.1\nHost: localhost:PORT");
    assert_eq!(send(gateway.port, &by_query).status(), 200, "APISIX's place, for a private key");
}

#[test]
fn no_page_writes_by_a_private_key_in_a_cookie() {
    let (gateway, _) = quickstart();
    let cookie = format!("Cookie: x_api_key={}", private_key(&gateway));
    for port in [gateway.port, gateway.admin_port] {
        for (_, mark) in &MARKS[..14] {
            let answer = send(port, &format!("PUT {PATH} HTTP/1.1\n{mark}\n{cookie}"));
            assert_eq!(answer.status(), 403, "{mark}");
        }
    }
    assert_eq!(routes(&gateway), 0);
}

#[test]
fn no_page_writes_where_no_key_is_required() {
    let gateway = without_key();
    for (_, mark) in MARKS {
        for target in ["POST /apisix/admin/routes", "PUT /apisix/admin/routes/1"] {
            let answer = send(gateway.admin_port, &format!("{target} HTTP/1.1\n{mark}"));
            assert_eq!(answer.status(), 403, "{target} {mark}: {}", answer.text());
        }
        let answer = send(gateway.admin_port, &format!("OPTIONS {PATH} HTTP/1.1\n{mark}"));
        assert!(
            matches!(answer.status(), 403 | 404) && answer.field("Access-Control-Allow-Origin").is_none()
        );
    }
    assert_eq!(routes(&gateway), 0);
    let answer = send(gateway.admin_port, &format!("PUT {PATH} HTTP/1.1\nHost: localhost:PORT"));
    assert_eq!(answer.status(), 201, "{}", answer.text());
}

#[test]
fn no_page_reaches_the_servers_without_keys() {
    let (gateway, control) = quickstart();
    let metrics = "/apisix/prometheus/metrics";
    for (port, path) in
        [(control, "/v1/routes"), (gateway.status_port, "/status"), (gateway.metrics_port, metrics)]
    {
        for (_, mark) in MARKS {
            let answer = send(port, &format!("GET {path} HTTP/1.1\n{mark}"));
            assert_eq!(answer.status(), 403, "{path} {mark}: {}", answer.text());
        }
        for host in ["127.0.0.1:PORT", "localhost:PORT", "[::1]", "127.0.0.1:PORT\nSec-Fetch-Site: none"] {
            assert_eq!(
                send(port, &format!("GET {path} HTTP/1.1\nHost: {host}")).status(),
                200,
                "{path} {host}"
            );
        }
    }
    for call in ["POST /v1/explain", "POST /v1/gc", "PUT /v1/plugins/reload", "GET /v1/schema"] {
        let answer =
            send(control, &format!("{call} HTTP/1.1\nHost: 127.0.0.1:PORT\nOrigin: http://evil.test"));
        assert_eq!(answer.status(), 403, "{call}");
    }
}

#[test]
fn exported_metrics_are_for_every_name() {
    let [port] = free_ports();
    let export = json!({ "prometheus": { "export_addr": { "ip": "0.0.0.0", "port": port } } });
    let _gateway = Gateway::with(json!({ "plugin_attr": export }));
    for host in ["gateway.example:9091", "10.0.0.1", "localhost"] {
        let answer = Peer::connect(port).get_from(host, "/apisix/prometheus/metrics");
        assert_eq!(answer.status(), 200, "{host}");
    }
}

#[test]
fn a_foreign_authority_of_http2_is_refused_too() {
    let (gateway, _) = quickstart();
    asynchronously(async {
        for (authority, expected) in [("localhost", 200), ("127.0.0.1:9080", 200), ("evil.test", 403)] {
            let client = Http2Client::connect(gateway.port).await;
            let request = http::Request::get(format!("http://{authority}/apisix/admin/routes"))
                .header("x-api-key", PUBLISHED)
                .body(())
                .unwrap();
            let (response, _) = client.send.ready().await.unwrap().send_request(request, true).unwrap();
            assert_eq!(response.await.unwrap().status().as_u16(), expected, "{authority}");
        }
    });
}
