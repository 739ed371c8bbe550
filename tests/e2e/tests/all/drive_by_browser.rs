//! The attempts of `drive_by` by a real browser: pages on other loopback ports, on the data port itself, and on a foreign
//! name that resolves to 127.0.0.1.

use crate::drive_by::{PUBLISHED, body, quickstart, routes, without_key};
use e2e::{Gateway, Process, Upstream, free_ports};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a page may take: a browser on a busy machine may need minutes to start.
const PATIENCE: Duration = Duration::from_secs(300);

/// A page that tries everything that a page can, and reports to its site how each attempt ended. `BASES`, `KEY`, `BODY` and
/// `SITE` are filled in.
const PAGE: &str = r#"<!DOCTYPE html><title>page</title><link rel="icon" href="data:,"><script>
const lines = [], bases = BASES, key = 'KEY', body = JSON.stringify(BODY);
const path = '/apisix/admin/routes';
async function attempt(name, url, options) {
  name += ' ' + Math.round(performance.now()) + ' ms';
  try {
    const answer = await fetch(url, options);
    lines.push(name + ' ' + (answer.type == 'opaque' ? 'opaque' : answer.status));
  } catch (error) { lines.push(name + ' refused'); }
}
function form(url, enctype) {
  const frame = document.createElement('iframe'), form = document.createElement('form');
  frame.name = 'frame' + Math.random();
  document.body.append(frame, form);
  Object.assign(form, { method: 'POST', action: url, enctype, target: frame.name });
  const field = document.createElement('input');
  field.name = body.slice(0, -1) + ',"x":"';
  field.value = '"}';
  form.append(field);
  return new Promise(done => { frame.onload = done; form.submit(); setTimeout(done, 3000); });
}
(async () => {
  for (const base of bases) {
    const headers = { 'X-API-KEY': key };
    await attempt('preflight', base + path + '/1', { method: 'PUT', headers, body });
    await attempt('preflight-query', base + path + '/2?api_key=' + key, { method: 'PUT', body });
    await attempt('simple', base + path + '?api_key=' + key, { method: 'POST', body });
    await attempt('opaque', base + path + '?api_key=' + key, { method: 'POST', body, mode: 'no-cors' });
    await attempt('keyless', base + path, { method: 'POST', body, mode: 'no-cors', credentials: 'include' });
    await attempt('hidden', base + path, { method: 'POST', body, mode: 'no-cors', referrerPolicy: 'no-referrer' });
    await attempt('read', base + path, { headers });
    document.cookie = 'x_api_key=' + key;
    await attempt('cookie', base + path, { method: 'POST', body, mode: 'no-cors', credentials: 'include' });
    navigator.sendBeacon(base + path + '?api_key=' + key, body);
    new Image().src = base + path + '?api_key=' + key;
    await form(base + path + '?api_key=' + key, 'text/plain');
    await form(base + path, 'text/plain');
  }
  const sandbox = document.createElement('iframe');
  sandbox.sandbox = 'allow-scripts allow-forms';
  sandbox.srcdoc = '<script>for (const base of ' + JSON.stringify(bases) + ') fetch(base + "' + path
    + '?api_key=' + key + '", { method: "POST", mode: "no-cors", body: ' + JSON.stringify(body) + ' })<\/script>';
  document.body.append(sandbox);
  await new Promise(done => setTimeout(done, 500));
  lines.push('end ' + Math.round(performance.now()) + ' ms');
  await fetch('SITE/report', { method: 'POST', mode: 'no-cors', body: lines.join('\n') });
})();
</script>"#;

/// A browser that shows `url`, until it is dropped.
fn browser(chromium: &Path, profile: &Path, url: &str) -> Process {
    Process::start(
        Command::new(chromium)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--remote-debugging-port=0"])
            .arg("--host-resolver-rules=MAP evil.test 127.0.0.1")
            // The browser's own guard of loopback addresses would hide what the gateway does.
            .arg("--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests")
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(url)
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )
}

/// An upstream that has the page, aimed at `bases`; and what its pages report.
fn site(bases: &[String]) -> (Upstream, Receiver<String>) {
    let [port] = free_ports();
    let page = PAGE
        .replace("BASES", &json!(bases).to_string())
        .replace("'KEY'", &format!("'{PUBLISHED}'"))
        .replace("BODY", &body().to_string())
        .replace("SITE", &format!("http://127.0.0.1:{port}"));
    let page =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}", page.len());
    let (sender, reports) = channel();
    let upstream = Upstream::answering_on(port, move |request| {
        if !request.start.starts_with("POST /report ") {
            return page.clone().into_bytes();
        }
        let _ = sender.send(request.text());
        b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
    });
    (upstream, reports)
}

/// The operator's only route: the page, on the data port.
fn proxy(gateway: &Gateway, site: &Upstream) {
    let body =
        json!({ "uri": "/page", "upstream": { "type": "roundrobin", "nodes": { site.address(): 1 } } });
    let output = Command::new("curl")
        .args(["-sf", "-X", "PUT", "-H", &format!("X-API-KEY: {PUBLISHED}"), "-d", &body.to_string()])
        .arg(format!("http://127.0.0.1:{}/apisix/admin/routes/page", gateway.admin_port))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn no_page_in_a_browser_changes_anything() {
    let Some(chromium) = crate::referees::referee("chromium") else { return };
    let ((gateway, _), keyless) = (quickstart(), without_key());
    let mut bases = Vec::new();
    for port in [gateway.port, gateway.admin_port, keyless.admin_port] {
        bases.extend(["127.0.0.1", "localhost"].map(|host| format!("http://{host}:{port}")));
    }
    // After DNS rebinding, the page's own origin is the gateway.
    bases.push(format!("http://evil.test:{}", gateway.port));
    bases.push(format!("http://evil.test:{}", keyless.admin_port));
    let (site, reports) = site(&bases);
    proxy(&gateway, &site);
    let before = (routes(&gateway), routes(&keyless));
    assert_eq!(before, (1, 0));
    let urls = [
        format!("http://127.0.0.1:{}/page", site.port),
        format!("http://evil.test:{}/page", gateway.port),
        format!("http://127.0.0.1:{}/page", gateway.port),
    ];
    for (number, url) in urls.iter().enumerate() {
        let browser = browser(&chromium, &gateway.dir().join(format!("profile-{number}")), url);
        let report = reports.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{url}: no report"));
        drop(browser);
        let results: Vec<_> =
            report.lines().filter(|line| line.starts_with("preflight") || line.starts_with("read")).collect();
        assert_eq!(results.len(), 3 * bases.len(), "{url}: {report}");
        assert!(
            !results.iter().any(|line| line.ends_with(" 200") || line.ends_with(" 201")),
            "{url}: {report}"
        );
        assert_eq!((routes(&gateway), routes(&keyless)), before, "{url}: {report}");
    }
    // The browser did reach both gateways.
    for gateway in [&gateway, &keyless] {
        let refused = gateway.stderr().matches("refused a request of a web page").count();
        assert!(refused > 10, "{refused}: {}", gateway.stderr());
    }
}
