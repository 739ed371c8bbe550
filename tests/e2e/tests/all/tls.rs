//! TLS, asked for by curl and OpenSSL: names, changes while it runs, client certificates, sessions, upstreams.

use e2e::{Gateway, Upstream, eventually};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// An authority, and a folder for the files that tools want.
pub(crate) struct Authority {
    pub(crate) issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

/// A chain and its key in PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "root");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("root.pem"), issuer.pem()).unwrap();
        Self { issuer, dir }
    }

    fn leaf(&self, name: &str) -> Pair {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { cert, key: key.serialize_pem() }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("root.pem")
    }

    /// Files with a certificate and its key.
    pub(crate) fn files(&self, name: &str, pair: &Pair) -> (String, String) {
        let (cert, key) =
            (self.dir.path().join(format!("{name}.crt")), self.dir.path().join(format!("{name}.key")));
        std::fs::write(&cert, &pair.cert).unwrap();
        std::fs::write(&key, &pair.key).unwrap();
        (cert.display().to_string(), key.display().to_string())
    }
}

fn ssl(names: &[&str], pair: &Pair) -> Value {
    json!({ "snis": names, "cert": pair.cert, "key": pair.key })
}

/// What curl is told: the status and, after a line, its view of the certificate's subject.
fn curl(gateway: &Gateway, authority: &Authority, url: &str, args: &[&str]) -> Output {
    let url = url.replace("PORT", &gateway.tls_port.to_string());
    let host = url.trim_start_matches("https://").split(['/', ':']).next().unwrap();
    let resolve = format!("{host}:{}:127.0.0.1", gateway.tls_port);
    let mut command = Command::new("curl");
    command.args(["-sv", "--max-time", "20", "--resolve", &resolve, "--cacert"]).arg(authority.root());
    command.args(["-w", "%{http_code}", "-o", "/dev/null"]).args(args).arg(&url).output().unwrap()
}

/// The status that curl was told; 0 where there was none.
fn status(output: &Output) -> u16 {
    String::from_utf8_lossy(&output.stdout).parse().unwrap_or(0)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A gateway that serves everything from `upstream`.
fn gateway(upstream: &Upstream) -> Gateway {
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    gateway
}

/// Waits until the certificate shown for `name` is in use.
fn shown(gateway: &Gateway, authority: &Authority, name: &str) {
    eventually("the certificate is in use", || {
        let answer = curl(gateway, authority, &format!("https://{name}:PORT/"), &[]);
        (status(&answer) == 200).then_some(())
    });
}

#[test]
fn the_name_chooses_the_certificate() {
    let (upstream, authority) = (Upstream::hello(), Authority::new());
    let gateway = gateway(&upstream);
    gateway.put("ssls/1", &ssl(&["a.test"], &authority.leaf("a.test")));
    gateway.put("ssls/2", &ssl(&["*.b.test"], &authority.leaf("*.b.test")));
    shown(&gateway, &authority, "x.b.test");
    for (name, subject) in [("a.test", "CN=a.test"), ("x.b.test", "CN=*.b.test")] {
        for version in ["--tlsv1.3", "--tls-max=1.2"] {
            let version: Vec<&str> = version.split('=').collect();
            let answer = curl(&gateway, &authority, &format!("https://{name}:PORT/"), &version);
            assert_eq!(status(&answer), 200, "{name} {}", said(&answer));
            assert!(said(&answer).contains(subject), "{}", said(&answer));
        }
    }
    for name in ["other.test", "x.y.b.test"] {
        let answer = curl(&gateway, &authority, &format!("https://{name}:PORT/"), &["-k"]);
        assert_eq!(status(&answer), 0, "{}", said(&answer));
    }
    // Switched off, it is shown to nobody.
    let mut off = ssl(&["a.test"], &authority.leaf("a.test"));
    off["status"] = json!(0);
    gateway.put("ssls/1", &off);
    eventually("it is off", || {
        let answer = curl(&gateway, &authority, "https://a.test:PORT/", &[]);
        (status(&answer) == 0).then_some(())
    });
}

#[test]
fn certificates_change_under_load_without_a_failed_request() {
    let (upstream, authority) = (Upstream::hello(), Authority::new());
    let gateway = gateway(&upstream);
    gateway.put("ssls/1", &ssl(&["a.test"], &authority.leaf("a.test")));
    shown(&gateway, &authority, "a.test");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Acquire) {
                let answer = curl(&gateway, &authority, "https://a.test:PORT/[1-5]", &[]);
                let codes = String::from_utf8_lossy(&answer.stdout).into_owned();
                assert_eq!(
                    (codes.as_str(), answer.status.success()),
                    ("200200200200200", true),
                    "{}",
                    said(&answer)
                );
                count += 1;
            }
            count
        });
        for _ in 0..10 {
            gateway.put("ssls/1", &ssl(&["a.test"], &authority.leaf("a.test")));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        done.store(true, Ordering::Release);
        assert!(load.join().unwrap() > 0);
    });
}

#[test]
fn a_broken_certificate_is_refused_and_the_old_one_serves_on() {
    let (upstream, authority) = (Upstream::hello(), Authority::new());
    let gateway = gateway(&upstream);
    let good = authority.leaf("a.test");
    gateway.put("ssls/1", &ssl(&["a.test"], &good));
    shown(&gateway, &authority, "a.test");
    let noise = "x".repeat(200);
    for (cert, key, reason) in [
        (&noise, &good.key, "failed to parse cert: PEM_read_bio_X509_AUX() failed"),
        (&good.cert, &format!("-----BEGIN {noise}"), "failed to parse key: PEM_read_bio_PrivateKey() failed"),
        (&good.cert, &authority.leaf("a.test").key, "failed to match key"),
    ] {
        let answer = gateway.admin("PUT", "ssls/1", &json!({ "sni": "a.test", "cert": cert, "key": key }));
        assert_eq!(answer.status(), 400, "{}", answer.text());
        assert!(answer.text().contains(reason), "{}", answer.text());
        assert_eq!(status(&curl(&gateway, &authority, "https://a.test:PORT/", &[])), 200);
    }
}

#[test]
fn client_certificates_are_asked_for_and_verified() {
    let (upstream, authority, other) = (Upstream::hello(), Authority::new(), Authority::new());
    let gateway = gateway(&upstream);
    let ca = std::fs::read_to_string(authority.root()).unwrap();
    let with = |names: &[&str], client: Value| {
        let mut resource = ssl(names, &authority.leaf(names[0]));
        resource["client"] = client;
        resource
    };
    gateway.put("ssls/1", &with(&["strict.test"], json!({ "ca": ca })));
    gateway.put("ssls/2", &with(&["mild.test"], json!({ "ca": ca, "skip_mtls_uri_regex": ["^/open"] })));
    gateway.put("ssls/3", &ssl(&["free.test"], &authority.leaf("free.test")));
    shown(&gateway, &authority, "free.test");
    let (cert, key) = authority.files("me", &authority.leaf("me"));
    let (strange, strange_key) = other.files("me", &other.leaf("me"));
    let own = ["--cert", cert.as_str(), "--key", &key];
    let foreign = ["--cert", strange.as_str(), "--key", &strange_key];
    for (url, args, expected) in [
        ("https://strict.test:PORT/", &own[..], 200),
        ("https://strict.test:PORT/", &[], 0),
        ("https://strict.test:PORT/", &foreign, 0),
        ("https://mild.test:PORT/closed", &own, 200),
        ("https://mild.test:PORT/closed", &[], 400),
        ("https://mild.test:PORT/closed", &foreign, 400),
        ("https://mild.test:PORT/open", &[], 200),
        ("https://mild.test:PORT/open", &foreign, 200),
        ("https://free.test:PORT/", &["-H", "Host: strict.test"], 400),
        ("https://free.test:PORT/", &["-H", "Host: elsewhere.test"], 200),
    ] {
        let answer = curl(&gateway, &authority, url, args);
        assert_eq!(status(&answer), expected, "{url} {args:?}: {}", said(&answer));
    }
}

#[test]
fn sessions_are_resumed() {
    let (upstream, authority) = (Upstream::hello(), Authority::new());
    for tickets in [true, false] {
        let gateway = Gateway::with(json!({ "apisix": { "ssl": { "ssl_session_tickets": tickets } } }));
        gateway.route_all(&upstream.address());
        gateway.put("ssls/1", &ssl(&["a.test"], &authority.leaf("a.test")));
        shown(&gateway, &authority, "a.test");
        for version in ["-tls1_2", "-tls1_3"] {
            let session = authority.dir.path().join(format!("session{version}{tickets}"));
            let session = session.to_str().unwrap();
            let first = s_client(&gateway, &[version, "-sess_out", session]);
            assert!(first.contains("New, TLSv1"), "{first}");
            let second = s_client(&gateway, &[version, "-sess_in", session]);
            assert!(
                second.contains("Reused, TLSv1") && second.contains("HTTP/1.1 200"),
                "{tickets} {version} {second}"
            );
        }
    }
}

/// One request by OpenSSL's own client: all that it says.
fn s_client(gateway: &Gateway, args: &[&str]) -> String {
    use std::io::Write;
    let connect = format!("127.0.0.1:{}", gateway.tls_port);
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &connect, "-servername", "a.test", "-ign_eof"]).args(args);
    let mut client =
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    client.stdin.take().unwrap().write_all(request).unwrap();
    String::from_utf8_lossy(&client.wait_with_output().unwrap().stdout).into_owned()
}

/// Two gateways, one the upstream of the other.
#[test]
fn upstreams_are_spoken_with_in_tls() {
    let (upstream, authority, other) = (Upstream::hello(), Authority::new(), Authority::new());
    let behind = gateway(&upstream);
    let ca = std::fs::read_to_string(authority.root()).unwrap();
    let mut asking = ssl(&["asking.test"], &authority.leaf("asking.test"));
    asking["client"] = json!({ "ca": ca });
    behind.put("ssls/1", &ssl(&["b.test"], &authority.leaf("b.test")));
    behind.put("ssls/2", &asking);
    let own = authority.leaf("front");
    for (trusted, known) in [(authority.root(), true), (other.root(), false)] {
        let front = Gateway::with(
            json!({ "apisix": { "ssl": { "ssl_trusted_certificate": trusted.to_str().unwrap() } } }),
        );
        front.put("ssls/own", &json!({ "type": "client", "cert": own.cert, "key": own.key }));
        for (number, (name, tls, works)) in [
            ("b.test", json!({}), true),
            ("b.test", json!({ "verify": true }), known),
            ("asking.test", json!({}), false),
            ("asking.test", json!({ "client_cert": own.cert, "client_key": own.key }), true),
            ("asking.test", json!({ "client_cert_id": "own" }), true),
            ("nobody.test", json!({}), false),
        ]
        .into_iter()
        .enumerate()
        {
            let node = format!("127.0.0.1:{}", behind.tls_port);
            let mut upstream = json!({ "type": "roundrobin", "scheme": "https", "nodes": { node: 1 },
                "pass_host": "rewrite", "upstream_host": name });
            if tls != json!({}) {
                upstream["tls"] = tls.clone();
            }
            let path = format!("/case{number}");
            front.put(&format!("routes/{number}"), &json!({ "uri": path, "upstream": upstream }));
            let expected = if works { 200 } else { 502 };
            eventually("the route is in use", || (front.get(&path).status() != 404).then_some(()));
            for _ in 0..3 {
                assert_eq!(front.get(&path).status(), expected, "{name} {tls} {}", front.stderr());
            }
        }
    }
}

/// The authority that signed an upstream's certificate is trusted no longer: idle connections to it must not be used.
#[test]
fn another_trusted_certificate_holds_for_the_next_request_after_a_reload() {
    let (upstream, authority, other) = (Upstream::hello(), Authority::new(), Authority::new());
    let behind = gateway(&upstream);
    behind.put("ssls/1", &ssl(&["b.test"], &authority.leaf("b.test")));
    let trust = |authority: &Authority| {
        let root = authority.root();
        json!({ "apisix": { "ssl": { "ssl_trusted_certificate": root.to_str().unwrap() } },
                "nginx_config": { "worker_processes": 1 } })
    };
    let mut front = Gateway::with(trust(&authority));
    let node = format!("127.0.0.1:{}", behind.tls_port);
    for (path, scheme) in [("/h1", "https"), ("/h2", "grpcs")] {
        let upstream = json!({ "type": "roundrobin", "scheme": scheme, "nodes": { &node: 1 },
            "pass_host": "rewrite", "upstream_host": "b.test", "tls": { "verify": true } });
        front.put(&format!("routes{path}"), &json!({ "uri": path, "upstream": upstream }));
    }
    for path in ["/h1", "/h2"] {
        eventually("the route is in use", || (front.get(path).status() != 404).then_some(()));
    }
    let both = |gateway: &Gateway| ["/h1", "/h2"].map(|path| gateway.get(path).status());
    let mut kept = front.connect();
    for (trusted, expected) in [(&authority, 200), (&other, 502), (&authority, 200)] {
        front.reload(&trust(trusted));
        assert_eq!(both(&front), [expected; 2], "{}", front.stderr());
        assert_eq!(kept.get("/h1").status(), expected, "on a connection that was open before");
    }
}
