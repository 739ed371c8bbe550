use super::*;
use proptest::prelude::*;
use std::fs;

fn translated(text: &str) -> Translation {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nginx.conf");
    for name in ["server.crt", "server.key"] {
        fs::write(folder.path().join(name), format!("text of {name}")).unwrap();
    }
    fs::write(&path, text).unwrap();
    let mut out = translate(&path).unwrap();
    let prefix = folder.path().to_str().unwrap();
    let text = serde_json::to_string(&out.resources).unwrap().replace(prefix, "/etc/nginx");
    out.resources = serde_json::from_str(&text).unwrap();
    out
}

fn refused(out: &Translation) -> Vec<String> {
    let refused = out.notes.iter().filter(|note| note.verdict == Verdict::Refused);
    refused.map(|note| format!("{}: {}", note.directive, note.reason)).collect()
}

/// The configuration of the HTTPS study that the product is measured by.
const STUDY: &str = r#"
worker_processes auto;  worker_rlimit_nofile 104857600;
events { use epoll; accept_mutex off; worker_connections 10240; }
http { access_log off; open_file_cache max=10240000 inactive=60s; open_file_cache_valid 80s; open_file_cache_min_uses 1;
  keepalive_requests 100000000000; keepalive_timeout 300s; sendfile on; tcp_nopush on; tcp_nodelay on; types_hash_max_size 4096;
  include mime.types; default_type application/octet-stream;
  gzip on; gzip_min_length 100; gzip_buffers 8 32k; gzip_types text/plain text/css application/x-javascript text/xml application/xml text/javascript; gzip_vary on;
  server { listen 443 ssl http2; listen [::]:443 ssl http2; server_name _; root /usr/share/nginx/html;
    ssl_certificate server.crt; ssl_certificate_key server.key; ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;
    ssl_ciphers "AES128+SHA256 !aNULL !eNULL !LOW !3DES !MD5 !EXP !PSK !SRP !DSS !MEDIUM !RC4"; ssl_prefer_server_ciphers on;
    error_page 404 /404.html; location = /40x.html { }  error_page 500 502 503 504 /50x.html; location = /50x.html { } } }
"#;

#[test]
fn the_studys_configuration_loses_nothing_but_the_broken_protocols() {
    let out = translated(STUDY);
    let refused = refused(&out);
    assert_eq!(refused.len(), 1, "{refused:#?}");
    assert!(refused[0].contains("TLSv1, TLSv1.1"), "{refused:?}");
    let config = &out.config;
    assert_eq!(config["nginx_config"]["event"]["worker_connections"], 10_240);
    assert_eq!(config["nginx_config"]["http"]["enable_access_log"], false);
    assert_eq!(config["nginx_config"]["http"]["keepalive_timeout"], 300);
    assert_eq!(config["apisix"]["ssl"]["listen"], json!([{ "port": 443 }]));
    assert_eq!(config["apisix"]["ssl"]["ssl_protocols"], "TLSv1.2 TLSv1.3");
    assert_eq!(config["apisix"]["ssl"]["fallback_sni"], "nameless");
    assert_eq!(config["apisix"]["ssl"]["ssl_session_tickets"], true);
    assert_eq!(config["apisix"]["enable_http2"], true);
    assert_eq!(config["apisix"]["node_listen"], json!([]), "no port that nginx does not open");
    let routes = out.resources["routes"].as_array().unwrap();
    let uris: Vec<_> = routes.iter().map(|route| route["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["/40x.html", "/50x.html", "/*"]);
    let files = &routes[2]["static"];
    assert_eq!(files["root"], "/usr/share/nginx/html");
    assert_eq!(files["compress"]["encodings"], json!(["gzip"]));
    assert_eq!(files["compress"]["min_length"], 100);
    assert_eq!(files["open_file_cache"], json!({ "max": 10_240_000, "inactive": 60, "valid": 80 }));
    assert_eq!(files["error_pages"]["502"], "/50x.html");
    assert_eq!(routes[2].get("hosts"), None);
    let ssl = &out.resources["ssls"][0];
    assert_eq!(ssl["cert"], "text of server.crt");
    assert_eq!(ssl["snis"], json!(["*"]), "whatever name a client asks for");
}

#[test]
fn proxies_keep_their_hosts_paths_and_headers() {
    let out = translated(
        "events { } http { upstream app { least_conn; server 10.0.0.1:8080 weight=3; server b.example backup; keepalive 16; }
         server { listen 80; server_name a.example .b.example; proxy_read_timeout 5s;
           location /api/ { proxy_pass http://app/v1/; proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr;
             proxy_set_header X-Env prod; }
           location /raw/ { proxy_pass https://c.example; }
           location = /old { return 301 https://$host/new; } }
         server { listen 80; server_name other.example; root html; } }",
    );
    assert_eq!(refused(&out), Vec::<String>::new());
    let routes = out.resources["routes"].as_array().unwrap();
    let api = &routes[0];
    assert_eq!(api["uri"], "/api/*");
    assert_eq!(api.get("hosts"), None, "the first server takes what no name matches");
    let expected = json!({
        "name": "app", "type": "least_conn", "keepalive_pool": { "size": 16 },
        "nodes": [
            { "host": "10.0.0.1", "port": 8080, "weight": 3 },
            { "host": "b.example", "port": 80, "weight": 1, "priority": -1 },
        ],
        "scheme": "http", "pass_host": "pass",
    });
    assert_eq!(api["upstream"], expected);
    let rewrite = json!({ "headers": { "set": { "X-Env": "prod" } }, "regex_uri": ["^/api/(.*)", "/v1/$1"] });
    assert_eq!(api["plugins"]["proxy-rewrite"], rewrite);
    assert_eq!(api["timeout"], json!({ "connect": 60, "send": 60, "read": 5 }));
    assert_eq!(routes[1]["upstream"]["pass_host"], "node");
    assert_eq!(routes[1]["upstream"]["nodes"][0], json!({ "host": "c.example", "port": 443, "weight": 1 }));
    assert_eq!(routes[2]["plugins"]["redirect"], json!({ "uri": "https://$host/new", "ret_code": 301 }));
    let last = routes.last().unwrap();
    assert_eq!(last["hosts"], json!(["other.example"]));
    assert_eq!(last["static"]["root"], "/etc/nginx/html");
}

#[test]
fn regexes_overrule_prefixes_in_their_order_and_final_ones_never() {
    let out = translated(
        "events { } http { server { listen 80; root /srv;
           location ~ \\.php$ { return 403; }
           location ~* \\.(png|jpg)$ { expires 30d; }
           location /a/ { }
           location ^~ /b/ { } } }",
    );
    assert_eq!(refused(&out), Vec::<String>::new());
    let routes = out.resources["routes"].as_array().unwrap();
    let found: Vec<_> = routes
        .iter()
        .map(|route| (route["uri"].as_str().unwrap(), route["vars"].to_string(), route["priority"].as_u64()))
        .collect();
    let php = r#"[["uri","~~","\\.php$"]]"#.to_owned();
    let png = r#"[["uri","~*","\\.(png|jpg)$"]]"#.to_owned();
    let none = "null".to_owned();
    let expected = [
        ("/a/*", none.clone(), None),
        ("/a/*", php.clone(), Some(2)),
        ("/a/*", png.clone(), Some(1)),
        ("/b/*", none.clone(), None),
        ("/*", none, None),
        ("/*", php, Some(2)),
        ("/*", png, Some(1)),
    ];
    assert_eq!(found, expected);
    let ids: std::collections::BTreeSet<_> = routes.iter().map(|route| route["id"].to_string()).collect();
    assert_eq!(ids.len(), routes.len());
}

#[test]
fn servers_of_different_ports_ask_for_theirs() {
    let out = translated(
        "events { } http { server { listen 80; root /a; } server { listen 127.0.0.1:8080; root /b; } }",
    );
    let routes = out.resources["routes"].as_array().unwrap();
    assert_eq!(routes[0]["vars"], json!([["server_port", "in", ["80"]]]));
    assert_eq!(routes[1]["vars"], json!([["server_port", "in", ["8080"]]]));
    let listen = json!([{ "port": 80 }, { "ip": "127.0.0.1", "port": 8080 }]);
    assert_eq!(out.config["apisix"]["node_listen"], listen);
}

#[test]
fn what_can_not_be_translated_is_said_with_its_place() {
    let out = translated(
        "events { } stream { }\nhttp { geo $x { }\n server { listen unix:/x; server_name ~^a; \
         location / { if ($a) { return 1; } proxy_pass http://$b; } } }",
    );
    let refused = refused(&out);
    let starts =
        ["stream: ", "geo $x: ", "listen unix:/x: ", "server_name ~^a: ", "if ($a): ", "location /: "];
    for start in starts {
        assert!(refused.iter().any(|refusal| refusal.starts_with(start)), "{start}: {refused:#?}");
    }
    let geo = out.notes.iter().find(|note| note.directive.starts_with("geo")).unwrap();
    assert_eq!((geo.line, geo.column), (2, 8));
    assert!(geo.to_string().contains("nginx.conf:2:8: refused: geo $x: "), "{geo}");
}

#[test]
fn access_rules_become_restrictions() {
    let out = translated(
        "events { } http { server { listen 80; root /a; location /in/ { allow 10.0.0.0/8; deny all; } \
         location /no/ { deny all; } location /bad/ { deny 1.2.3.4; } } }",
    );
    let plugins: Vec<_> = out.resources["routes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|route| route["plugins"].to_string())
        .collect();
    assert_eq!(plugins[0], r#"{"ip-restriction":{"whitelist":["10.0.0.0/8"]}}"#);
    assert_eq!(plugins[1], r#"{"fault-injection":{"abort":{"http_status":403}}}"#);
    assert_eq!(plugins[2], r#"{"ip-restriction":{"blacklist":["1.2.3.4"]}}"#);
}

/// What stands at a path of one of the routes, by the route's name.
fn at(out: &Translation, name: &str, pointer: &str) -> Value {
    let routes = out.resources["routes"].as_array().unwrap();
    let route =
        routes.iter().find(|route| route["name"] == name).unwrap_or_else(|| panic!("{name}: {routes:#?}"));
    route.pointer(pointer).cloned().unwrap_or_default()
}

const ABORTED: &str = "/plugins/fault-injection/abort/http_status";

#[test]
fn what_can_not_be_translated_is_answered_by_nothing_else() {
    let out = translated(
        r"events { } http { server { listen 80; root /srv/app; server_name a; index index.php index.html;
            error_page 403 /403.php; error_page 404 /404.html;
            location / { try_files $uri $uri/ /index.php; }
            location ~ \.php$ { fastcgi_pass unix:/run/php; }
            location /private/ { auth_basic x; auth_basic_user_file y; }
            location /app/ { proxy_pass http://unix:/run/app; }
            location /page/ { try_files $uri @app; }
            location /host/ { root /srv/$host; }
            location /hidden/ { internal; } }
          server { listen 80; server_name b; auth_request /check; location /in/ { } location /out/ { auth_request off; } }
          server { listen 80; server_name c; if ($ssl_client_verify != SUCCESS) { return 403; } } }",
    );
    let files = "a/*";
    assert_eq!(at(&out, files, "/static/index"), json!(["index.html"]), "no script is sent as a file");
    assert_eq!(at(&out, files, "/static/try_files"), json!(["$uri", "$uri/", "=501"]));
    assert_eq!(at(&out, files, "/static/error_pages"), json!({ "404": "/404.html" }));
    assert_eq!(at(&out, "a/page/*", "/static/try_files"), json!(["$uri", "=501"]));
    for (name, status) in [
        ("a/private/*", 501),
        ("a/app/*", 501),
        ("a/host/*", 501),
        ("a/hidden/*", 404),
        ("b/*", 501),
        ("b/in/*", 501),
        ("c/*", 501),
    ] {
        assert_eq!(at(&out, name, ABORTED), status, "{name}");
        assert_eq!(at(&out, name, "/static"), Value::Null, "{name}");
    }
    assert_eq!(at(&out, "b/out/*", "/static/root"), "/etc/nginx/html");
    let php = out.resources["routes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|route| route["vars"][0][0] == "uri")
        .unwrap();
    assert_eq!(php.pointer(ABORTED), Some(&json!(501)));
    assert!(
        refused(&out).iter().any(|refusal| refusal.contains("/index.php is no file here")),
        "{:#?}",
        refused(&out)
    );
}

#[test]
fn lists_are_handed_down_whole_or_not_at_all() {
    let out = translated(
        "events { } http { server { listen 80; root /a; deny 1.2.3.4; deny all; proxy_set_header X-A 1; error_page 404 /4;
           location / { error_page 403 /3; }
           location /open/ { allow all; }
           location /turns/ { deny 10.0.0.1; allow 10.0.0.0/8; deny all; }
           location /more/ { allow all; proxy_set_header X-B 2; proxy_pass http://c; } } }",
    );
    assert_eq!(at(&out, "_/*", ABORTED), 403);
    assert_eq!(at(&out, "_/*", "/static/error_pages"), json!({ "403": "/3" }));
    assert_eq!(at(&out, "_/open/*", "/plugins"), Value::Null);
    assert_eq!(at(&out, "_/turns/*", ABORTED), 501);
    let set = json!({ "X-B": "2" });
    assert_eq!(at(&out, "_/more/*", "/plugins/proxy-rewrite/headers/set"), set);
}

#[test]
fn servers_get_the_requests_that_nginx_would_give_them() {
    let out = translated(
        "events { } http { server { listen 80; server_name a; return 200 a; }
           server { listen 80; server_name _; return 200 never; }
           server { listen 80; server_name ~^x; return 200 never; }
           server { listen 80; listen 81 default_server; server_name b; return 200 b; }
           server { listen 81 quic; listen 81; server_name c; return 200 c; } }",
    );
    let routes = out.resources["routes"].as_array().unwrap();
    let found: Vec<_> = routes
        .iter()
        .map(|route| {
            let text = route.pointer("/plugins/fault-injection/abort/body").unwrap().as_str().unwrap();
            (text, route["hosts"].to_string(), route["vars"][0][2].to_string())
        })
        .collect();
    let own = |text, hosts: &str, ports: &str| (text, hosts.to_owned(), ports.to_owned());
    let expected = [
        own("a", "null", r#"["80"]"#),
        own("b", "null", r#"["81"]"#),
        own("b", r#"["b"]"#, r#"["80"]"#),
        own("c", r#"["c"]"#, r#"["81"]"#),
    ];
    assert_eq!(found, expected);
    assert!(refused(&out).iter().any(|refusal| refusal.starts_with("listen 81 quic: HTTP/3")));
}

#[test]
fn clients_certificates_are_asked_for_where_they_are_verified() {
    let pair = "listen 443 ssl; ssl_certificate server.crt; ssl_certificate_key server.key";
    for (http, server, expected) in [
        ("", "ssl_client_certificate server.crt", false),
        ("", "ssl_client_certificate server.crt; ssl_verify_client on", true),
        ("ssl_client_certificate server.crt; ssl_verify_client on", "ssl_verify_depth 2", true),
        ("ssl_client_certificate server.crt; ssl_verify_client on", "ssl_verify_client off", false),
    ] {
        let out = translated(
            &format!("events {{ }} http {{ {http}; server {{ {pair}; {server}; }} }}").replace("{ ;", "{"),
        );
        assert_eq!(out.resources["ssls"][0].get("client").is_some(), expected, "{http} / {server}");
    }
    let out = translated(&format!("events {{ }} http {{ server {{ {pair}; ssl_verify_client on; }} }}"));
    assert_eq!(at(&out, "_/*", ABORTED), 501, "nobody gets in, rather than everybody");
}

#[test]
fn what_no_route_would_take_is_refused_here() {
    for directive in [
        "expires modified +24h",
        "gzip_comp_level x",
        "error_page 301 /x",
        "proxy_read_timeout 0",
        "index a/b $x",
        "listen host.example:80",
        "listen 82 proxy_protocol",
        "try_files $uri /index.php?$args",
        "location ~ ([ { }",
        "location @named { }",
        "location = { }",
    ] {
        let end = if directive.ends_with('}') { "" } else { ";" };
        let out = translated(&format!("events {{ }} http {{ server {{ listen 80; {directive}{end} }} }}"));
        assert_eq!(refused(&out).len(), 1, "{directive}: {:?}", refused(&out));
    }
}

/// What configurations are made of.
const WORDS: &str = "server { } ; location / = ~ ~* ^~ @a x \"\" allow deny all listen 80 [::1]:81 ssl server_name _ *.a return 301 \
    try_files $uri =404 index error_page 404 proxy_pass http://a/ http://[ if root alias expires gzip on upstream auth_basic off \
    open_file_cache max=1 proxy_set_header ssl_certificate";

proptest! {
    #[test]
    fn no_configuration_is_too_odd(
        words in prop::collection::vec(prop::sample::select(WORDS.split_whitespace().collect::<Vec<_>>()), 0..24),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nginx.conf");
        fs::write(&path, format!("http {{ server {{ {} }} }}", words.join(" "))).unwrap();
        let _ = translate(&path);
    }
}

#[test]
fn what_is_no_regular_file_is_refused_at_its_include() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    fs::File::create(at("sparse")).unwrap().set_len(10 << 30).unwrap();
    fs::write(at("long"), "#".repeat(4 << 20)).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
    let path = at("nginx.conf");
    let refused = |text: &str| {
        fs::write(&path, text).unwrap();
        let message = translate(&path).err().unwrap().to_string();
        message.strip_prefix(path.to_str().unwrap()).unwrap().to_owned()
    };
    for (name, reason) in [
        ("/dev/zero", "it is a device, not a regular file"),
        ("zero", "it is a device, not a regular file"),
        ("z*", "it is a device, not a regular file"),
        ("folder", "it is a directory, not a regular file"),
        ("sparse", "it is larger than 4194304 bytes"),
    ] {
        let message = refused(&format!("events {{}}\nhttp {{ include {name}; }}"));
        assert!(message.starts_with(":2:8: error: "), "{name}: {message}");
        assert!(message.ends_with(&format!("{reason} [TG0601]")), "{name}: {message}");
    }
    let message = refused(&"include long;\n".repeat(17));
    assert!(message.starts_with(":16:1: error: all files together are larger than"), "{message}");
}

#[test]
fn a_certificate_that_is_no_regular_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nginx.conf");
    let text = "http { server { listen 443 ssl; server_name a; ssl_certificate /dev/zero; \
                ssl_certificate_key /dev/zero; } }";
    fs::write(&path, text).unwrap();
    let notes = refused(&translate(&path).unwrap());
    assert!(notes.iter().any(|note| note.contains("it is a device, not a regular file")), "{notes:?}");
}
