//! The attempts of web pages and of rebound names against the control plane, and what became of each:
//! `docs/reference/control-plane-attacks.md`. With `TIDEGATE_WRITE_DOCS` set, the page is written anew.

use std::path::Path;

use e2e::{Gateway, Message};

use crate::drive_by::{MARKS, PATH, PUBLISHED, private_key, quickstart, routes, send, without_key};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/control-plane-attacks.md");

/// The page with its attempts, none of which had an effect.
#[derive(Default)]
struct Page {
    text: String,
    attempts: usize,
}

impl Page {
    fn heading(&mut self, title: &str, columns: &[&str]) {
        self.text.push_str(&format!("\n## {title}\n\n| attempt | request |"));
        columns.iter().for_each(|column| self.text.push_str(&format!(" {column} |")));
        self.text.push_str(&format!("\n|---|---|{}\n", "---|".repeat(columns.len())));
    }

    /// A row: `ask` is sent to each of `targets` (port, request line with fields).
    fn row(&mut self, what: &str, fields: &str, targets: &[(u16, String)]) {
        self.text.push_str(&format!("| {what} | {} |", shown(fields)));
        for (port, head) in targets {
            let answer = send(*port, head);
            check(head, &answer);
            self.text.push_str(&format!(" {} |", answer.status()));
            self.attempts += 1;
        }
        self.text.push('\n');
    }
}

/// The lines of a request as the page has them.
fn shown(fields: &str) -> String {
    let fields = fields.replace(PUBLISHED, "KEY");
    let lines: Vec<String> = fields.split('\n').map(|line| format!("`{line}`")).collect();
    lines.join(" ")
}

/// Refused, and nothing that a page could read.
fn check(head: &str, answer: &Message) {
    assert!(
        matches!(answer.status(), 400 | 401 | 403 | 404),
        "{head}: {} {}",
        answer.status(),
        answer.text()
    );
    let cors = |line: &String| line.to_lowercase().starts_with("access-control");
    assert!(!answer.fields.iter().any(cors), "{head}: {:?}", answer.fields);
    assert!(!answer.text().contains(PUBLISHED), "{head}");
}

fn by_pages(page: &mut Page, gateway: &Gateway, control: u16) {
    let columns = ["Admin API, data port", "Admin API", "control API", "status", "metrics"];
    page.heading("By pages and by rebound names", &columns);
    let metrics = "/apisix/prometheus/metrics";
    for (what, mark) in MARKS {
        let put = format!("PUT {PATH} HTTP/1.1\n{mark}\nX-API-KEY: {PUBLISHED}");
        let get = |path: &str| format!("GET {path} HTTP/1.1\n{mark}");
        let targets = [
            (gateway.port, put.clone()),
            (gateway.admin_port, put),
            (control, get("/v1/routes")),
            (gateway.status_port, get("/status")),
            (gateway.metrics_port, get(metrics)),
        ];
        page.row(what, mark, &targets);
    }
}

fn by_keys(page: &mut Page, gateway: &Gateway) {
    page.heading("By keys that a page knows, or that a browser sends along", &["data port", "own port"]);
    let local = "Host: localhost:PORT";
    let evil = "Host: 127.0.0.1:PORT\nOrigin: http://evil.test";
    let key = format!("X-API-KEY: {PUBLISHED}");
    let private = private_key(gateway);
    for (what, head) in [
        (
            "the published key in the query",
            format!("POST /apisix/admin/routes?api_key={PUBLISHED} HTTP/1.1\n{local}"),
        ),
        ("in a cookie", format!("PUT {PATH} HTTP/1.1\n{local}\nCookie: x_api_key={PUBLISHED}")),
        (
            "in a field that CGI would take for the key's",
            format!("PUT {PATH} HTTP/1.1\n{local}\nX_API_KEY: {PUBLISHED}"),
        ),
        (
            "from a page of the gateway's own origin",
            format!("PUT {PATH} HTTP/1.1\n{local}\nOrigin: http://localhost:PORT\n{key}"),
        ),
        (
            "with a foreign authority in the target",
            format!("PUT http://evil.test{PATH} HTTP/1.1\n{local}\n{key}"),
        ),
        (
            "with a foreign authority and `Host`",
            format!("PUT http://evil.test:PORT{PATH} HTTP/1.1\nHost: evil.test:PORT\n{key}"),
        ),
        (
            "a form: no preflight",
            format!("POST /apisix/admin/routes HTTP/1.1\n{evil}\nContent-Type: text/plain\n{key}"),
        ),
        ("a path that is normalized", format!("PUT //apisix/./admin/routes/1 HTTP/1.1\n{evil}\n{key}")),
        ("reading", format!("GET /apisix/admin/routes HTTP/1.1\n{evil}\n{key}")),
        ("deleting", format!("DELETE {PATH} HTTP/1.1\n{evil}\n{key}")),
        ("a transaction", format!("POST /apisix/admin/txn HTTP/1.1\n{evil}\n{key}")),
        (
            "the preflight of a PUT",
            format!("OPTIONS {PATH} HTTP/1.1\n{evil}\nAccess-Control-Request-Method: PUT"),
        ),
        (
            "the private key in a cookie, from a page",
            format!("PUT {PATH} HTTP/1.1\n{evil}\nCookie: x_api_key={private}"),
        ),
    ] {
        let fields = head.replace(" HTTP/1.1", "").replace(&private, "PRIVATE");
        page.row(what, &fields, &[(gateway.port, head.clone()), (gateway.admin_port, head)]);
    }
}

fn without_keys(page: &mut Page, gateway: &Gateway) {
    page.heading("Where the Admin API asks for no key", &["own port"]);
    for (what, mark) in MARKS {
        page.row(what, mark, &[(gateway.admin_port, format!("POST /apisix/admin/routes HTTP/1.1\n{mark}"))]);
    }
}

#[test]
fn each_documented_attempt_ends_as_documented() {
    let (gateway, control) = quickstart();
    let open = without_key();
    let mut page = Page::default();
    by_pages(&mut page, &gateway, control);
    by_keys(&mut page, &gateway);
    without_keys(&mut page, &open);
    assert_eq!((routes(&gateway), routes(&open)), (0, 0), "nothing had an effect");
    assert!(page.attempts >= 40, "{}", page.attempts);
    let text = format!(
        "# Reference: attempts against the control plane\n\n\
         What a web page can make a browser send to a gateway on its user's machine, directly (CSRF, drive-by) or by a name\n\
         that resolves to that machine (DNS rebinding), and the status of each answer. The gateway was started with\n\
         `tidegate quickstart`, `enable_admin_cors` and the control API on; `PORT` is the server's port, `KEY` the key of\n\
         APISIX's examples, which every page knows, `PRIVATE` the one that the quick start made. The first table's requests\n\
         are `PUT {PATH}` with `X-API-KEY: KEY`, `GET /v1/routes`, `GET /status` and\n\
         `GET /apisix/prometheus/metrics`.\n\n\
         {} attempts: none wrote a route, and none was answered with a field that lets a page read the answer.\n\
         `tests/e2e/tests/all/drive_by_table.rs` makes them and compares this page with what it saw;\n\
         [web pages](../guide/configuration.md#web-pages) has the rules.\n{}",
        page.attempts, page.text
    );
    if std::env::var_os("TIDEGATE_WRITE_DOCS").is_some() {
        std::fs::write(Path::new(PAGE), &text).unwrap();
    }
    let documented = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(documented == text, "{PAGE} differs; TIDEGATE_WRITE_DOCS=1 writes it anew:\n{text}");
}
