//! The attempts of `drive_by` by a real browser: pages on other loopback ports, on the data port itself, and on a foreign
//! name that resolves to 127.0.0.1.

use crate::drive_by::{PUBLISHED, body, quickstart, routes, without_key};
use e2e::{Gateway, Upstream};
use serde_json::json;
use std::path::Path;

/// A page that tries everything that a page can, and says how each attempt ended. `BASES`, `KEY` and `BODY` are filled in.
const PAGE: &str = r#"<!DOCTYPE html><title>page</title><link rel="icon" href="data:,"><pre id="seen"></pre><script>
const lines = [], bases = BASES, key = 'KEY', body = JSON.stringify(BODY);
const path = '/apisix/admin/routes';
async function attempt(name, url, options) {
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
  document.getElementById('seen').textContent = lines.join('\n') + '\nfinished';
})();
</script>"#;

/// What chromium has at `url` once the page has finished.
fn dom(chromium: &Path, folder: &Path, url: &str) -> String {
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let output = std::process::Command::new("timeout")
        .args(["--kill-after=5", "90"])
        .arg(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--disable-background-networking", "--host-resolver-rules=MAP evil.test 127.0.0.1"])
        // The browser's own guard of loopback addresses would hide what the gateway does.
        .args(["--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"])
        .args(["--virtual-time-budget=30000", "--dump-dom", &profile, url])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// An upstream that has the page, aimed at `bases`.
fn site(bases: &[String]) -> Upstream {
    let page = PAGE
        .replace("BASES", &json!(bases).to_string())
        .replace("'KEY'", &format!("'{PUBLISHED}'"))
        .replace("BODY", &body().to_string());
    let page =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}", page.len());
    Upstream::answering(move |_| page.clone().into_bytes())
}

/// The operator's only route: the page, on the data port.
fn proxy(gateway: &Gateway, site: &Upstream) {
    let body =
        json!({ "uri": "/page", "upstream": { "type": "roundrobin", "nodes": { site.address(): 1 } } });
    let output = std::process::Command::new("curl")
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
    let site = site(&bases);
    proxy(&gateway, &site);
    let before = (routes(&gateway), routes(&keyless));
    assert_eq!(before, (1, 0));
    for url in [
        format!("http://127.0.0.1:{}/page", site.port),
        format!("http://evil.test:{}/page", gateway.port),
        format!("http://127.0.0.1:{}/page", gateway.port),
    ] {
        let dom = dom(&chromium, gateway.dir(), &url);
        assert!(dom.contains("finished"), "{url}: {dom}");
        let results: Vec<_> =
            dom.lines().filter(|line| line.starts_with("preflight") || line.starts_with("read")).collect();
        assert!(results.len() >= 3 * bases.len() - 1, "{url}: {dom}");
        assert!(!results.iter().any(|line| line.ends_with(" 200") || line.ends_with(" 201")), "{url}: {dom}");
        assert_eq!((routes(&gateway), routes(&keyless)), before, "{url}: {dom}");
    }
    // The browser did reach both gateways.
    for gateway in [&gateway, &keyless] {
        let refused = gateway.stderr().matches("refused a request of a web page").count();
        assert!(refused > 10, "{refused}: {}", gateway.stderr());
    }
}
