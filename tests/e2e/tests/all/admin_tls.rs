//! The Admin API over TLS, asked by curl and by the subcommands.

use crate::tls::{Authority, Pair};
use e2e::{ADMIN_KEY, Gateway, Peer, binary};
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use std::process::{Command, Output};

/// The keys of `deployment.admin` for this certificate, with client certificates of `clients`.
fn https(authority: &Authority, pair: &Pair, clients: Option<&Authority>) -> Value {
    let (cert, key) = authority.files("admin", pair);
    json!({ "deployment": { "admin": { "https_admin": true, "admin_api_mtls": {
        "admin_ssl_cert": cert, "admin_ssl_cert_key": key,
        "admin_ssl_ca_cert": clients.map_or_else(String::new, |ca| ca.root().display().to_string()),
    } } } })
}

/// The certificate of `names`, valid from the first of January of one year to that of another.
fn leaf(authority: &Authority, name: &str, years: (i32, i32)) -> Pair {
    let mut params = CertificateParams::new([name.to_owned(), "127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
    let key = KeyPair::generate().unwrap();
    let cert = params.signed_by(&key, &authority.issuer).unwrap().pem();
    Pair { cert, key: key.serialize_pem() }
}

const NOW: (i32, i32) = (2020, 2090);
const PAST: (i32, i32) = (2001, 2002);

fn curl(gateway: &Gateway, authority: &Authority, args: &[&str]) -> (String, String) {
    let port = gateway.admin_port;
    let mut command = Command::new("curl");
    command.args(["-sv", "--max-time", "20", "--resolve", &format!("admin.test:{port}:127.0.0.1")]);
    command.arg("--cacert").arg(authority.root()).args(["-H", &format!("X-API-KEY: {ADMIN_KEY}")]);
    command.args(["-w", "%{http_code}", "-o", "/dev/null"]).args(args);
    let output = command.arg(format!("https://admin.test:{port}/apisix/admin/routes")).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn command(gateway: &Gateway, words: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(words).args(["-c", "config.yaml", "--data-dir", "data"]).current_dir(gateway.dir());
    command.env_remove("TIDEGATE_DATA_DIR").env_remove("TIDEGATE_ADMIN_KEY").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_admin_api_speaks_tls_and_a_reload_takes_changed_certificates() {
    let authority = Authority::new();
    let first = leaf(&authority, "admin.test", NOW);
    let mut gateway = Gateway::with(https(&authority, &first, None));
    let (status, seen) = curl(&gateway, &authority, &[]);
    assert_eq!(status, "200", "{seen}");
    // In the clear there is an answer that says what to do, and nothing else.
    let mut peer = Peer::connect(gateway.admin_port);
    peer.send(format!("GET /apisix/admin/routes HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\n\r\n"));
    let answer = peer.response();
    assert_eq!(answer.status(), 400);
    assert!(answer.text().contains("HTTPS port"), "{}", answer.text());
    // Who is silent, or says garbage, harms nobody.
    let silent = Peer::connect(gateway.admin_port);
    Peer::connect(gateway.admin_port).send(b"\x16\x03\x01\xff\xff garbage");

    // A changed certificate of another authority, in the same files.
    let other = Authority::new();
    let second = leaf(&other, "admin.test", NOW);
    authority.files("admin", &second);
    let told = gateway.reload(&json!({}));
    assert!(told.contains("configuration read again"), "{told}");
    assert_eq!(curl(&gateway, &other, &[]).0, "200");
    assert_eq!(curl(&gateway, &authority, &[]).0, "000");

    // Neither an expired one nor another's key changes anything.
    for (pair, words) in [
        (leaf(&other, "admin.test", PAST), "certificate has expired"),
        (Pair { key: first.key.clone(), ..second.clone() }, "does not belong to the certificate"),
        (Pair { cert: "none".to_owned(), ..second.clone() }, "failed to parse cert"),
    ] {
        authority.files("admin", &pair);
        let told = gateway.reload(&json!({}));
        assert!(told.contains(words) && told.contains("admin_api_mtls.admin_ssl_cert"), "{told}");
        assert!(told.contains("nothing changes"), "{told}");
        assert_eq!(curl(&gateway, &other, &[]).0, "200");
    }
    // And the API can return to plain text.
    authority.files("admin", &second);
    gateway.reload(&json!({ "deployment": { "admin": { "https_admin": false, "admin_api_mtls": null } } }));
    assert_eq!(gateway.admin("GET", "routes", &json!(null)).status(), 200);
    drop(silent);
}

#[test]
fn clients_need_a_valid_certificate_of_the_named_authority() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let gateway = Gateway::with(https(&authority, &leaf(&authority, "admin.test", NOW), Some(&clients)));
    let attempt = |by: &Authority, years| {
        let (cert, key) = by.files("client", &leaf(by, "operator", years));
        curl(&gateway, &authority, &["--cert", &cert, "--key", &key])
    };
    assert_eq!(attempt(&clients, NOW).0, "200");
    for (result, words) in [
        (curl(&gateway, &authority, &[]), "no required SSL certificate was sent"),
        // Another authority of the same name.
        (attempt(&authority, NOW), "certificate signature failure"),
        (attempt(&clients, PAST), "certificate has expired"),
    ] {
        assert_eq!(result.0, "000", "{}", result.1);
        e2e::eventually(words, || gateway.stderr().contains(words).then_some(()));
    }
}

#[test]
fn the_subcommands_speak_tls() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let gateway = Gateway::with(https(&authority, &leaf(&authority, "admin.test", NOW), Some(&clients)));
    let (cert, key) = clients.files("client", &leaf(&clients, "operator", NOW));
    let root = authority.root().display().to_string();
    let base = format!("https://127.0.0.1:{}", gateway.admin_port);
    let own = ["--client-cert", &cert, "--client-key", &key];
    // From the configuration: scheme, address, key.
    let with = |words: &[&str]| command(&gateway, &[&["config", "dump"], words].concat());
    let output = with(&[&own[..], &["--ca-cert", &root]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let output = with(&[&own[..], &["--ca-cert", &root, "--admin", &base, "--key", ADMIN_KEY]].concat());
    assert!(output.status.success(), "{}", said(&output));
    for (words, told) in [
        (vec!["--ca-cert", &root], "--client-cert"),
        ([&own[..], &["--ca-cert", &cert]].concat(), "--ca-cert"),
        (vec!["--ca-cert", "/no/such/file"], "/no/such/file can't be read"),
        (vec!["--client-cert", &cert, "--client-key", &root], "failed to parse key"),
    ] {
        let output = with(&words);
        assert!(!output.status.success());
        assert!(said(&output).contains(told), "{words:?}: {}", said(&output));
    }
    // A certificate that signed itself needs no authority: this gateway's own files are known.
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "self");
    let key = KeyPair::generate().unwrap();
    let pair = Pair { cert: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() };
    let gateway = Gateway::with(https(&authority, &pair, None));
    let output = command(&gateway, &["lint"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn what_can_not_be_served_is_refused_before_the_start() {
    let authority = Authority::new();
    let expired = https(&authority, &leaf(&authority, "admin.test", PAST), None);
    let missing = json!({ "deployment": { "admin": { "https_admin": true,
        "admin_api_mtls": { "admin_ssl_cert": "/no/such.crt", "admin_ssl_cert_key": "/no/such.key" } } } });
    let unnamed = json!({ "deployment": { "admin": { "https_admin": true } } });
    for (config, words) in [
        (expired, "certificate has expired"),
        (missing, "/no/such.crt can't be read"),
        (unnamed, "needs a certificate and its key"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.yaml"), config.to_string()).unwrap();
        let run = |word: &str| {
            let mut command = Command::new(binary());
            command.args([word, "-c", "config.yaml", "--data-dir", "data"]).current_dir(dir.path());
            command.env_remove("TIDEGATE_DATA_DIR").output().unwrap()
        };
        for word in ["test", "start"] {
            let output = run(word);
            assert_eq!(output.status.code(), Some(1), "{word}: {}", said(&output));
            assert!(said(&output).contains(words), "{word}: {}", said(&output));
        }
    }
}
