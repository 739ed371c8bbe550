//! What the upstream learns of the client, and what neither side learns of the other.

use e2e::{Gateway, Message, Seen, Upstream};
use serde_json::{Value, json};

fn start(upstream: &Value) -> (Gateway, Upstream, Seen) {
    let (server, seen) = Upstream::recording();
    let gateway = Gateway::start();
    gateway.route_with(&server.address(), upstream, &json!({}));
    (gateway, server, seen)
}

fn ask(gateway: &Gateway, seen: &Seen, fields: &str) -> Message {
    let mut client = gateway.connect();
    client.send(format!("GET /a?b=c HTTP/1.1\r\n{fields}\r\n"));
    assert_eq!(client.response().status(), 200);
    seen.only()
}

#[test]
fn the_host_is_as_pass_host_says() {
    let (gateway, server, seen) = start(&json!({}));
    assert_eq!(ask(&gateway, &seen, "Host: Shop.example:81\r\n").field("host"), Some("Shop.example:81"));
    gateway.route_with(&server.address(), &json!({ "pass_host": "node" }), &json!({}));
    assert_eq!(ask(&gateway, &seen, "Host: shop\r\n").field("host"), Some(server.address().as_str()));
    let rewrite = json!({ "pass_host": "rewrite", "upstream_host": "inside.example" });
    gateway.route_with(&server.address(), &rewrite, &json!({}));
    assert_eq!(ask(&gateway, &seen, "Host: shop\r\n").field("host"), Some("inside.example"));
}

#[test]
fn the_upstream_is_told_who_asks() {
    let (gateway, _server, seen) = start(&json!({}));
    let request = ask(&gateway, &seen, "Host: shop.example\r\n");
    assert_eq!(request.start, "GET /a?b=c HTTP/1.1");
    assert_eq!(request.field("x-real-ip"), Some("127.0.0.1"));
    assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto"), Some("http"));
    assert_eq!(request.field("x-forwarded-host"), Some("shop.example"));
    assert_eq!(request.field("x-forwarded-port"), Some(gateway.port.to_string().as_str()));
    // What the client says of itself is not believed, but for the list of addresses, which grows.
    let request = ask(
        &gateway,
        &seen,
        "Host: shop.example:81\r\nX-Forwarded-For: 10.0.0.1\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Port: 1\r\n",
    );
    assert_eq!(request.field("x-forwarded-for"), Some("10.0.0.1, 127.0.0.1"));
    assert_eq!(request.field("x-real-ip"), Some("127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto"), Some("http"));
    assert_eq!(request.field("x-forwarded-host"), Some("shop.example:81"));
    assert_eq!(request.field("x-forwarded-port"), Some("81"));
}

/// What a peer claims of those it speaks for.
const CLAIMS: &str = "Host: shop.example:81\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\n\
    X-Forwarded-Host: claimed.example\r\nX-Forwarded-Port: 8443\r\nForwarded: for=9.9.9.9\r\n";

#[test]
fn only_trusted_addresses_say_for_whom_they_speak() {
    let told = |trusted: &Value| {
        let (server, seen) = Upstream::recording();
        let gateway = Gateway::with(json!({ "apisix": { "trusted_addresses": trusted } }));
        gateway.route_all(&server.address());
        let request = ask(&gateway, &seen, CLAIMS);
        let names =
            ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "forwarded"];
        names.map(|name| request.all(name).join("|"))
    };
    let trusted = ["9.9.9.9, 127.0.0.1", "https", "claimed.example", "8443", "for=9.9.9.9"];
    assert_eq!(told(&json!(["127.0.0.0/8"])), trusted);
    assert_eq!(told(&json!(["10.0.0.0/8"])), ["127.0.0.1", "http", "shop.example:81", "81", ""]);
    // Without the key nobody is trusted, and the list of addresses grows as ever.
    assert_eq!(told(&json!(null)), ["9.9.9.9, 127.0.0.1", "http", "shop.example:81", "81", ""]);
}

#[test]
fn claims_of_others_match_no_route_and_reach_no_plugin() {
    let (server, seen) = Upstream::recording();
    let log = "$http_x_forwarded_for|$http_x_forwarded_proto|$original_x_forwarded_for|$original_forwarded";
    let mut gateway = Gateway::with(json!({
        "apisix": { "trusted_addresses": ["10.0.0.0/8"] },
        "nginx_config": { "http": { "access_log_format": log } },
    }));
    let upstream = json!({ "nodes": { server.address(): 1 }, "type": "roundrobin" });
    let route = |id: &str, uri: &str, vars: Value, plugins: Value| {
        let body = json!({ "uri": uri, "vars": vars, "plugins": plugins, "upstream": upstream });
        gateway.put(&format!("routes/{id}"), &body);
    };
    let given = |name: &str, value: &str| json!([[name, "==", value]]);
    route("1", "/for", given("http_x_forwarded_for", "9.9.9.9"), json!({}));
    route("2", "/claimed", given("http_x_forwarded_proto", "https"), json!({}));
    route("3", "/observed", given("http_x_forwarded_proto", "http"), json!({}));
    route("4", "/forwarded", json!([["http_forwarded", "~~", "."]]), json!({}));
    let real_ip =
        json!({ "real-ip": { "source": "http_x_forwarded_for", "trusted_addresses": ["127.0.0.1"] } });
    route("5", "/real-ip", json!([]), real_ip);
    route("6", "/redirect", json!([]), json!({ "redirect": { "http_to_https": true } }));
    let over_http1 = |gateway: &Gateway, path: &str| {
        let mut client = gateway.connect();
        client.send(format!("GET {path} HTTP/1.1\r\n{CLAIMS}\r\n"));
        client.response().status()
    };
    let over_http2 = |gateway: &Gateway, path: &str| -> u16 {
        let mut curl = std::process::Command::new("curl");
        curl.args([
            "-s",
            "--max-time",
            "20",
            "--http2-prior-knowledge",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
        ]);
        CLAIMS.lines().for_each(|line| {
            curl.args(["-H", line]);
        });
        let output = curl.arg(format!("http://127.0.0.1:{}{path}", gateway.port)).output().unwrap();
        String::from_utf8_lossy(&output.stdout).parse().unwrap()
    };
    let statuses = |gateway: &Gateway| {
        let paths = ["/for", "/claimed", "/observed", "/forwarded", "/redirect"];
        paths.map(|path| {
            let (one, two) = (over_http1(gateway, path), over_http2(gateway, path));
            assert_eq!(one, two, "{path}");
            one
        })
    };
    assert_eq!(statuses(&gateway), [404, 404, 200, 404, 301]);
    seen.take();
    for ask in [over_http1, over_http2] {
        assert_eq!(ask(&gateway, "/real-ip"), 200);
        assert_eq!(seen.only().field("x-real-ip"), Some("127.0.0.1"));
    }
    assert_eq!(gateway.access_log(1)[0], "-|http|9.9.9.9|for=9.9.9.9");
    // The same connections are trusted, once a reload says so.
    let mut open = gateway.connect();
    open.send(format!("GET /for HTTP/1.1\r\n{CLAIMS}\r\n"));
    assert_eq!(open.response().status(), 404);
    gateway.reload(&json!({ "apisix": { "trusted_addresses": ["127.0.0.1"] } }));
    open.send(format!("GET /for HTTP/1.1\r\n{CLAIMS}\r\n"));
    assert_eq!(open.response().status(), 200);
    assert_eq!(statuses(&gateway), [200, 200, 404, 200, 200]);
}

#[test]
fn fields_with_underscores_are_dropped_where_the_configuration_says_so() {
    let fields = "Host: a\r\nX_Tenant: 1\r\nX-Kept: 2\r\n_: 3\r\nX-Last: 4\r\n";
    for (setting, tenant) in [("on", Some("1")), ("off", None)] {
        let (server, seen) = Upstream::recording();
        let gateway = Gateway::with_http(&json!({ "underscores_in_headers": setting }));
        gateway.route_with(&server.address(), &json!({}), &json!({ "vars": [["http_x_kept", "==", "2"]] }));
        let request = ask(&gateway, &seen, fields);
        assert_eq!(request.field("x_tenant"), tenant, "{setting}");
        assert_eq!((request.field("x-kept"), request.field("x-last")), (Some("2"), Some("4")));
        assert_eq!(request.field("_").is_some(), tenant.is_some());
    }
}

#[test]
fn a_known_proxy_says_who_its_client_is() {
    let (gateway, server, seen) = start(&json!({}));
    // As in APISIX's defaults a proxy on this machine is believed.
    let told = "Host: a\r\nX-Forwarded-For: 10.0.0.1\r\nX-Real-IP: 10.0.0.2\r\n";
    let request = ask(&gateway, &seen, told);
    assert_eq!(request.field("x-real-ip"), Some("10.0.0.2"));
    assert_eq!(request.field("x-forwarded-for"), Some("10.0.0.1, 10.0.0.2"));
    gateway.route_with(&server.address(), &json!({}), &json!({ "remote_addrs": ["10.0.0.0/8"] }));
    assert_eq!(ask(&gateway, &seen, told).field("x-real-ip"), Some("10.0.0.2"));
    assert_eq!(gateway.get("/").status(), 404, "this machine itself is not of that network");

    let http = json!({
        "real_ip_header": "X-Forwarded-For", "real_ip_recursive": "on", "real_ip_from": ["127.0.0.1", "10.0.0.0/8"],
    });
    let gateway = Gateway::with_http(&http);
    gateway.route_all(&server.address());
    let list = "Host: a\r\nX-Forwarded-For: 1.1.1.1, 9.9.9.9, 10.0.0.1\r\nX-Real-IP: 8.8.8.8\r\n";
    assert_eq!(ask(&gateway, &seen, list).field("x-real-ip"), Some("9.9.9.9"));

    let gateway = Gateway::with_http(&json!({ "real_ip_from": ["192.0.2.1"] }));
    gateway.route_all(&server.address());
    assert_eq!(ask(&gateway, &seen, told).field("x-real-ip"), Some("127.0.0.1"), "nobody it believes");
}

#[test]
fn fields_of_the_connection_stay_on_it() {
    let (gateway, _server, seen) = start(&json!({}));
    let request = ask(
        &gateway,
        &seen,
        "Host: a\r\nConnection: keep-alive, X-Secret\r\nKeep-Alive: timeout=5\r\nProxy-Connection: close\r\n\
         TE: trailers\r\nUpgrade: websocket\r\nX-Secret: 1\r\nX-Kept: yes\r\nX-Kept: again\r\n",
    );
    for gone in ["connection", "keep-alive", "proxy-connection", "te", "upgrade", "x-secret"] {
        assert_eq!(request.all(gone), [""; 0], "{gone}");
    }
    assert_eq!(request.all("x-kept"), ["yes", "again"]);
}

#[test]
fn the_responses_own_fields_are_passed_on() {
    let upstream = Upstream::answering(|_| {
        b"HTTP/1.1 299 Peculiar\r\nServer: inside\r\nDate: x\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=1\r\n\
          Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n\r\nok"
            .to_vec()
    });
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let answer = gateway.get("/");
    assert_eq!(answer.start, "HTTP/1.1 299 Peculiar");
    assert_eq!(answer.all("set-cookie"), ["a=1", "b=2"]);
    for gone in ["x-hop", "keep-alive", "connection"] {
        assert_eq!(answer.field(gone), None, "{gone}");
    }
    assert!(
        answer.field("server").unwrap().starts_with("Tidegate")
            || answer.field("server").unwrap().starts_with("APISIX")
    );
    assert!(answer.field("date").unwrap().ends_with(" GMT"));
}

#[test]
fn a_connection_field_does_not_take_the_length_away() {
    let upstream = Upstream::answering(|_| {
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Own, Content-Length\r\nX-Own: 1\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    for _ in 0..2 {
        let answer = client.get("/");
        let fields = (answer.field("x-own"), answer.field("content-length"));
        assert_eq!((answer.text().as_str(), fields), ("ok", (None, Some("2"))));
    }
}

#[test]
fn clients_speak_neither_for_the_gateway_nor_for_a_consumer() {
    let (gateway, server, seen) = start(&json!({}));
    let forged = "Host: a\r\nX_Real_IP: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\nx-forwarded_host: evil\r\n\
        X-Consumer-Username: admin\r\nx_consumer_username: admin\r\nX-Credential-Identifier: 6\r\nuser_id: 1\r\n";
    let request = ask(&gateway, &seen, forged);
    for name in [
        "x_real_ip",
        "x_forwarded_for",
        "x-forwarded_host",
        "x-consumer-username",
        "x_consumer_username",
        "x-credential-identifier",
    ] {
        assert_eq!(request.field(name), None, "{name}");
    }
    assert_eq!((request.field("x-real-ip"), request.field("user_id")), (Some("127.0.0.1"), Some("1")));
    // A chain of gateways says so.
    let told = json!({ "headers": { "set": { "X-Consumer-Username": "$http_x_consumer_username" } } });
    gateway.route_with(&server.address(), &json!({}), &json!({ "plugins": { "proxy-rewrite": told } }));
    assert_eq!(ask(&gateway, &seen, forged).all("x-consumer-username"), ["admin"]);
}

#[test]
fn values_of_clients_add_no_line_to_a_request() {
    let (gateway, server, seen) = start(&json!({}));
    let rewrite = |settings: &Value| {
        let plugins = json!({ "plugins": { "proxy-rewrite": settings } });
        gateway.route_with(&server.address(), &json!({}), &plugins);
    };
    let get = |target: &str| {
        let mut client = gateway.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.response().status()
    };
    let line = "%20HTTP/1.1%0d%0aX-Consumer-Username:%20admin%0d%0aX:%20";
    rewrite(&json!({ "headers": { "set": { "Host": "${arg_t}.example" } } }));
    assert_eq!(get(&format!("/?t=a{line}")), 400);
    assert!(seen.take().is_empty());
    assert_eq!(get("/?t=a"), 200);
    assert_eq!(seen.only().field("host"), Some("a.example"));
    rewrite(&json!({ "uri": "/$arg_t", "headers": { "set": { "X-T": "$arg_t" } } }));
    assert_eq!(get(&format!("/?t=a{line}")), 200);
    let request = seen.only();
    let encoded = "a%20HTTP/1.1%0D%0AX-Consumer-Username:%20admin%0D%0AX:%20";
    assert_eq!(request.start, format!("GET /{encoded}?t=a{line} HTTP/1.1"));
    assert_eq!(request.field("x-t"), Some("a HTTP/1.1  X-Consumer-Username: admin  X:"));
    assert_eq!(request.field("x-consumer-username"), None);
}
