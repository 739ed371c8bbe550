//! Static files: served whole and in part, and never from outside of their root.

use e2e::{Gateway, Message, Pattern};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A gateway that serves the folder `root` of `home` with these settings, and plugins if any.
fn serving(home: &TempDir, settings: Value) -> Gateway {
    let root = home.path().join("root");
    fs::create_dir_all(root.join("dir")).unwrap();
    fs::write(home.path().join("secret"), "secret").unwrap();
    fs::write(root.join("index.html"), "<p>home</p>").unwrap();
    fs::write(root.join("a.txt"), "0123456789").unwrap();
    fs::write(root.join("dir/index.html"), "in dir").unwrap();
    let gateway = Gateway::with(json!({ "apisix": { "static_roots": [home.path()] } }));
    let mut site = settings;
    site["root"] = json!(root);
    gateway.put("/routes/1", &json!({ "uri": "/*", "static": site }));
    gateway
}

fn ask(gateway: &Gateway, head: &str) -> Message {
    let mut client = gateway.connect();
    client.send(format!("{head}\r\nHost: a\r\n\r\n"));
    client.try_response(head.split(' ').next().unwrap()).unwrap()
}

#[test]
fn files_are_served_with_what_caches_need() {
    let home = tempfile::tempdir().unwrap();
    let gateway = serving(&home, json!({ "expires": "1h" }));
    let answer = ask(&gateway, "GET /a.txt HTTP/1.1");
    assert_eq!((answer.status(), answer.text().as_str()), (200, "0123456789"));
    assert_eq!(answer.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.field("cache-control"), Some("max-age=3600"));
    let tag = answer.field("etag").unwrap();
    let same = ask(&gateway, &format!("GET /a.txt HTTP/1.1\r\nIf-None-Match: {tag}"));
    assert_eq!((same.status(), same.body.len()), (304, 0));
    let head = ask(&gateway, "HEAD /a.txt HTTP/1.1");
    assert_eq!((head.status(), head.field("content-length")), (200, Some("10")));
    let part = ask(&gateway, "GET /a.txt HTTP/1.1\r\nRange: bytes=2-3");
    assert_eq!((part.status(), part.text().as_str()), (206, "23"));
    assert_eq!(ask(&gateway, "GET / HTTP/1.1").text(), "<p>home</p>");
    assert_eq!(ask(&gateway, "GET /dir?x=1 HTTP/1.1").field("location"), Some("/dir/?x=1"));
    assert_eq!(ask(&gateway, "GET /dir/ HTTP/1.1").text(), "in dir");
    let refused = ask(&gateway, "POST /a.txt HTTP/1.1\r\nContent-Length: 0");
    assert_eq!((refused.status(), refused.field("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn large_files_arrive_whole_in_the_clear_and_over_tls() {
    let home = tempfile::tempdir().unwrap();
    let gateway = serving(&home, json!({}));
    let size = 20 << 20;
    fs::write(home.path().join("root/large"), Pattern::bytes(size)).unwrap();
    let mut client = gateway.connect();
    for path in ["/large", "/a.txt", "/large"] {
        let answer = client.get(path);
        assert_eq!(answer.status(), 200);
        if path == "/large" {
            Pattern::check(&answer.body, size);
        }
    }
    let part = ask(&gateway, "GET /large HTTP/1.1\r\nRange: bytes=1000000-15000000");
    assert_eq!(part.body, Pattern::bytes(size)[1_000_000..=15_000_000]);
}

#[test]
fn compressed_once_and_served_to_who_wants_it() {
    let home = tempfile::tempdir().unwrap();
    let gateway = serving(&home, json!({ "compress": { "encodings": ["gzip"], "min_length": 100 } }));
    // Short enough to be compressed at once, and long enough to be compressed elsewhere.
    for (name, words) in [("short.txt", 1000), ("long.txt", 100_000)] {
        let text = "many words ".repeat(words);
        fs::write(home.path().join("root").join(name), &text).unwrap();
        for _ in 0..2 {
            let answer = ask(&gateway, &format!("GET /{name} HTTP/1.1\r\nAccept-Encoding: gzip"));
            assert_eq!(answer.field("content-encoding"), Some("gzip"), "{name}");
            assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
            assert!(answer.body.len() < text.len() / 20);
            assert_eq!(answer.body[..2], [0x1f, 0x8b]);
        }
        let plain = ask(&gateway, &format!("GET /{name} HTTP/1.1"));
        assert_eq!((plain.field("content-encoding"), plain.text()), (None, text));
    }
}

#[test]
fn nothing_outside_the_root_is_served() {
    let home = tempfile::tempdir().unwrap();
    let gateway = serving(&home, json!({ "autoindex": true, "hidden": true }));
    let root = home.path().join("root");
    std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
    std::os::unix::fs::symlink(home.path(), root.join("up")).unwrap();
    let paths = [
        "/../secret",
        "/%2e%2e/secret",
        "/%2e%2e%2fsecret",
        "/..%2fsecret",
        "/dir/../../secret",
        "/dir/%2e%2e/%2e%2e/secret",
        "/..%5csecret",
        "/..\\secret",
        "/%252e%252e/secret",
        "/a.txt%00/../../secret",
        "/link",
        "/up/secret",
        "//../secret",
        "/./../secret",
    ];
    for path in paths {
        let answer = ask(&gateway, &format!("GET {path} HTTP/1.1"));
        assert!([400, 404].contains(&answer.status()), "{path}: {}", answer.status());
        assert!(!answer.text().contains("secret\n") && answer.text() != "secret", "{path}");
    }
    assert!(Path::new(&root).join("a.txt").exists());
}

#[test]
fn plugins_and_error_pages_go_together_with_files() {
    let home = tempfile::tempdir().unwrap();
    let gateway = serving(&home, json!({}));
    fs::write(home.path().join("root/404.html"), "not here").unwrap();
    let site = json!({ "root": home.path().join("root"), "error_pages": { "404": "/404.html" } });
    let plugins = json!({ "response-rewrite": { "headers": { "set": { "X-From": "tidegate" } } } });
    gateway.put("/routes/1", &json!({ "uri": "/*", "static": site, "plugins": plugins }));
    let missing = ask(&gateway, "GET /none HTTP/1.1");
    assert_eq!((missing.status(), missing.text().as_str()), (404, "not here"));
    assert_eq!(missing.field("x-from"), Some("tidegate"));
    assert_eq!(ask(&gateway, "GET /a.txt HTTP/1.1").field("x-from"), Some("tidegate"));
}

#[test]
fn a_static_origin_that_can_not_be_is_refused() {
    let gateway = Gateway::start();
    let both =
        json!({ "uri": "/*", "static": { "root": "/srv" }, "upstream": { "nodes": { "127.0.0.1:1": 1 } } });
    assert_eq!(gateway.admin("PUT", "/routes/1", &both).status(), 400);
    let rootless = json!({ "uri": "/*", "static": {} });
    assert_eq!(gateway.admin("PUT", "/routes/1", &rootless).status(), 400);
}

#[test]
fn only_the_folders_of_the_configuration_file_are_served() {
    let home = tempfile::tempdir().unwrap();
    let (www, secret) = (home.path().join("www"), home.path().join("secret"));
    for folder in [&www, &secret] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("f"), "text").unwrap();
    }
    std::os::unix::fs::symlink(&secret, www.join("link")).unwrap();
    std::os::unix::fs::symlink("/", www.join("all")).unwrap();
    let mut gateway = Gateway::with(json!({ "apisix": { "static_roots": [&www] } }));
    let put = |gateway: &Gateway, root: &Path| {
        let site = json!({ "root": root, "symlinks": "follow", "hidden": true });
        gateway.admin("PUT", "/routes/1", &json!({ "uri": "/*", "static": site }))
    };
    for root in [
        "/",
        "/etc",
        "/proc/self",
        "link",
        "link/",
        "all/etc",
        ".",
        "..",
        "../secret",
        "./../secret",
        "none/../../secret",
        "../www-not",
    ] {
        let answer = put(&gateway, &www.join(root));
        let text = answer.text();
        if root == "." {
            assert_eq!(answer.status(), 201, "{text}");
            continue;
        }
        assert_eq!(answer.status(), 400, "{root}: {text}");
        assert!(text.contains("apisix.static_roots") && text.contains("/static/root"), "{root}: {text}");
    }
    // A link below the root that leads out is nothing, whatever the route says.
    assert_eq!(ask(&gateway, "GET /f HTTP/1.1").text(), "text");
    assert_eq!(ask(&gateway, "GET /link/f HTTP/1.1").status(), 404);
    assert_eq!(ask(&gateway, "GET /all/etc/passwd HTTP/1.1").status(), 404);
    // A root that doesn't exist yet may become a link.
    assert_eq!(put(&gateway, &www.join("later")).status(), 200);
    std::os::unix::fs::symlink(&secret, www.join("later")).unwrap();
    assert_eq!(ask(&gateway, "GET /f HTTP/1.1").status(), 404);
    // What the file no longer allows is not served after a reload.
    assert_eq!(put(&gateway, &www).status(), 200);
    assert_eq!(ask(&gateway, "GET /f HTTP/1.1").status(), 200);
    gateway.reload(&json!({ "apisix": { "static_roots": [&secret] } }));
    assert_eq!(ask(&gateway, "GET /f HTTP/1.1").status(), 404);
    assert_eq!(put(&gateway, &www).status(), 400);
    assert_eq!(put(&gateway, &secret).status(), 200);
}

#[test]
fn a_root_that_the_store_holds_is_checked_as_well() {
    let config = json!({
        "apisix": { "static_roots": ["/srv/www"] },
        "deployment": { "role": "data_plane", "role_data_plane": { "config_provider": "yaml" } },
    });
    let text = "routes:\n  - id: a\n    uri: /*\n    static: {root: /etc}\n#END\n";
    let gateway = Gateway::with_file("apisix.yaml", text, config);
    assert_eq!(ask(&gateway, "GET /hostname HTTP/1.1").status(), 404);
    assert!(gateway.stderr().contains("apisix.static_roots"), "{}", gateway.stderr());
}
