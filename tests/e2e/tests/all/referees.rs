//! HTTP/2 judged from outside: the conformance suite, and clients that load a page. A referee that the machine lacks is
//! skipped; `cargo xtask ci` installs them where it may.

use crate::http2::{certify, curl};
use e2e::{Gateway, Upstream, eventually, program};
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;

/// A page that says how it was loaded: each file's protocol, and whether style, script and image took effect.
const PAGE: &[(&str, &str)] = &[
    (
        "index.html",
        "<!DOCTYPE html><title>page</title><link rel=\"stylesheet\" href=\"style.css\"><link rel=\"icon\" href=\"data:,\">\n\
         <script src=\"script.js\"></script><img src=\"image.svg\"><pre id=\"seen\"></pre>\n",
    ),
    ("style.css", "body { color: rgb(1, 2, 3) }\n"),
    ("image.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"7\" height=\"7\"></svg>\n"),
    (
        "script.js",
        "addEventListener('load', () => {\n\
           const entries = ['navigation', 'resource'].flatMap(type => performance.getEntriesByType(type));\n\
           const lines = entries.map(entry => new URL(entry.name).pathname + ' ' + entry.nextHopProtocol);\n\
           lines.push('style ' + getComputedStyle(document.body).color, 'image ' + document.images[0].width);\n\
           document.getElementById('seen').textContent = lines.join('\\n');\n\
         });\n",
    ),
];

/// Where a referee is.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(crate) fn referee(name: &str) -> Option<PathBuf> {
    let found = program(name);
    if found.is_none() {
        eprintln!("skipped: {name} is not there");
    }
    found
}

/// A gateway that serves the page, for `localhost` also by TLS.
fn page() -> Gateway {
    let gateway = Gateway::start();
    let root = gateway.dir().join("page");
    std::fs::create_dir(&root).unwrap();
    for (name, text) in PAGE {
        std::fs::write(root.join(name), text).unwrap();
    }
    gateway.put("routes/1", &json!({ "uri": "/*", "static": { "root": root } }));
    certify(&gateway, "localhost");
    let (out, url) = (gateway.dir().join("out"), url(&gateway));
    eventually("the certificate is in use", || {
        curl(&["--connect-to", "::127.0.0.1:"], &url, &out).starts_with("200 2 ").then_some(())
    });
    gateway
}

fn url(gateway: &Gateway) -> String {
    format!("https://localhost:{}/", gateway.tls_port)
}

/// What a referee says. One that takes too long is ended together with what it started.
fn said(referee: PathBuf, arguments: &[&str]) -> String {
    let mut command = Command::new("timeout");
    let output = command.args(["--kill-after=5", "90"]).arg(referee).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() || !said.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn the_conformance_suite_passes_with_tls_and_without() {
    let Some(h2spec) = referee("h2spec") else { return };
    let gateway = page();
    // The suite spoils requests whose head has come. A file would answer them before, and end their streams (RFC 9113
    // section 8.1); this upstream waits for the whole of each request.
    let upstream = Upstream::hello();
    let whole = json!({ "type": "roundrobin", "nodes": { upstream.address(): 1 } });
    gateway.put("routes/whole", &json!({ "uri": "/whole", "upstream": whole }));
    eventually("the route is in use", || (gateway.get("/whole").status() == 200).then_some(()));
    let (tls, clear) = (gateway.tls_port.to_string(), gateway.port.to_string());
    for arguments in [&["-p", &tls, "-t", "-k"][..], &["-p", &clear]] {
        let said = said(
            h2spec.clone(),
            &[&["-h", "localhost", "-P", "/whole", "-o", "5", "-S"], arguments].concat(),
        );
        assert!(said.contains(" passed, 0 skipped, 0 failed"), "{said}");
    }
}

#[test]
fn a_browser_loads_a_page() {
    let Some(chromium) = referee("chromium") else { return };
    let gateway = page();
    let profile = format!("--user-data-dir={}", gateway.dir().join("profile").display());
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--ignore-certificate-errors",
        "--dump-dom",
        &profile,
        &url(&gateway),
    ];
    let dom = said(chromium, &arguments);
    for line in ["/ h2", "/style.css h2", "/script.js h2", "/image.svg h2", "style rgb(1, 2, 3)", "image 7"] {
        assert!(dom.contains(line), "{line} is not in {dom}");
    }
}

#[test]
fn nghttp_and_curl_load_a_page() {
    let gateway = page();
    let out = gateway.dir().join("out");
    for (name, text) in PAGE {
        let url = url(&gateway) + name;
        let expected = format!("200 2 {}", text.len());
        assert_eq!(curl(&["--connect-to", "::127.0.0.1:", "--http2"], &url, &out), expected);
        assert_eq!(std::fs::read_to_string(&out).unwrap(), *text);
    }
    let Some(nghttp) = referee("nghttp") else { return };
    // All that the page names is asked for on its connection.
    let statistics = said(nghttp, &["-ansy", &url(&gateway)]);
    for path in ["/", "/style.css", "/script.js", "/image.svg"] {
        let ends = format!(" {path}");
        let line = statistics.lines().find(|line| line.ends_with(&ends));
        assert!(line.is_some_and(|line| line.contains(" 200 ")), "{path}: {statistics}");
    }
}
