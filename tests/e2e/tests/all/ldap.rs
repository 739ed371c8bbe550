//! `ldap-auth` and `ldap-auth-advanced`: a real directory, names that want to be more, and servers that lie.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::{Gateway, Message, Peer, Slapd, Upstream, eventually};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// The entries: users below `ou=users`, two with the same `uid`, and names with the signs of names and filters.
const ENTRIES: &str = r"dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
o: example
dc: example

dn: ou=users,dc=example,dc=org
objectClass: organizationalUnit
ou: users

dn: cn=jack,ou=users,dc=example,dc=org
objectClass: inetOrgPerson
cn: jack
sn: jack
uid: jack01
userPassword: pass:word

dn: cn=a\,b (*),ou=users,dc=example,dc=org
objectClass: inetOrgPerson
cn: a,b (*)
sn: x
uid: odd*
userPassword: odd

dn: cn=one,ou=users,dc=example,dc=org
objectClass: inetOrgPerson
cn: one
sn: x
uid: twice
userPassword: same

dn: cn=two,ou=users,dc=example,dc=org
objectClass: inetOrgPerson
cn: two
sn: x
uid: twice
userPassword: same
";

fn get(gateway: &Gateway, scheme: &str, user: &str, password: &str) -> Message {
    let credentials = STANDARD.encode(format!("{user}:{password}"));
    let mut peer = gateway.connect();
    peer.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization: {scheme} {credentials}\r\n\r\n"));
    peer.response()
}

/// A gateway with the plugin on its route, and consumers for two of the entries.
fn guarded(upstream: &Upstream, plugin: &str, config: &Value) -> Gateway {
    let gateway = Gateway::start();
    for (name, dn) in [
        ("jack", "cn=jack,ou=users,dc=example,dc=org"),
        ("odd", "cn=a\\,b (*),ou=users,dc=example,dc=org"),
        ("odd_hex", "cn=a\\2Cb (*),ou=users,dc=example,dc=org"),
    ] {
        gateway.put("consumers", &json!({ "username": name, "plugins": { plugin: { "user_dn": dn } } }));
    }
    configure(&gateway, upstream, plugin, config);
    gateway
}

fn configure(gateway: &Gateway, upstream: &Upstream, plugin: &str, config: &Value) {
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": { plugin: config } }));
}

fn simple(port: u16, more: &Value) -> Value {
    let mut config =
        json!({ "ldap_uri": format!("127.0.0.1:{port}"), "base_dn": "ou=users,dc=example,dc=org" });
    config.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    config
}

#[test]
fn a_directory_takes_names_and_passwords_and_nothing_else() {
    if !Slapd::is_installed() {
        return;
    }
    let (mut slapd, (upstream, seen)) = (Slapd::start(ENTRIES, None), Upstream::recording());
    let gateway = guarded(&upstream, "ldap-auth", &simple(slapd.port, &json!({ "hide_credentials": true })));
    for (user, password, status) in [
        ("jack", "pass:word", 200),
        ("a,b(*)", "odd", 401),
        ("jack", "pass", 401),
        ("jack", "", 401),
        ("", "pass:word", 401),
        ("one", "same", 401),
        ("*", "pass:word", 401),
        ("jack,ou=users", "pass:word", 401),
        ("jack)(cn=*", "pass:word", 401),
        ("nobody", "x", 401),
    ] {
        assert_eq!(get(&gateway, "Basic", user, password).status(), status, "{user}:{password}");
    }
    let passed = seen.take();
    assert_eq!(passed.len(), 1);
    assert_eq!(
        (passed[0].all("x-consumer-username"), passed[0].all("authorization").len()),
        (vec!["jack"], 0)
    );
    // Connections that were kept are closed, and nobody notices.
    slapd.restart();
    assert_eq!(get(&gateway, "basic", "jack", "pass:word").status(), 200);
    slapd.stop();
    let refused = get(&gateway, "BASIC", "jack", "pass:word");
    assert_eq!((refused.status(), refused.field("www-authenticate")), (401, Some("Basic realm=\"ldap\"")));
    eventually("the log tells", || {
        gateway.stderr().contains("ldap-auth failed: cannot connect").then_some(())
    });
    assert!(!gateway.stderr().contains("pass:word"), "{}", gateway.stderr());
}

#[test]
fn users_are_searched_and_found_once() {
    if !Slapd::is_installed() {
        return;
    }
    let (slapd, (upstream, seen)) = (Slapd::start(ENTRIES, None), Upstream::recording());
    let reader = json!({
        "base_dn": "dc=example,dc=org", "attribute": "uid",
        "bind_dn": "cn=admin,dc=example,dc=org", "ldap_password": "secret"
    });
    let gateway = guarded(&upstream, "ldap-auth-advanced", &simple(slapd.port, &reader));
    for (scheme, user, password, status) in [
        ("ldap", "jack01", "pass:word", 200),
        ("LDAP", "jack01", "pass:word", 200),
        ("Basic", "jack01", "pass:word", 401),
        ("ldap", "odd*", "odd", 200),
        ("ldap", "jack01", "wrong", 401),
        ("ldap", "*", "pass:word", 401),
        ("ldap", "jack0*", "pass:word", 401),
        ("ldap", "jack01)(objectClass=*", "pass:word", 401),
        ("ldap", "nobody", "x", 401),
        ("ldap", "twice", "same", 401),
        ("ldap", "jack01", "", 401),
    ] {
        assert_eq!(
            get(&gateway, scheme, user, password).status(),
            status,
            "{scheme} {user}:{password}: {}",
            gateway.stderr()
        );
    }
    let names: Vec<_> =
        seen.take().iter().map(|request| request.field("x-consumer-username").unwrap().to_owned()).collect();
    assert_eq!(names[..2], ["jack", "jack"]);
    assert!(names[2].starts_with("odd"), "{names:?}");
    eventually("the log tells", || gateway.stderr().contains("ambiguous user match").then_some(()));
    // What isn't the client's fault is no 401.
    let mut wrong = simple(slapd.port, &reader);
    wrong["ldap_password"] = json!("wrong");
    configure(&gateway, &upstream, "ldap-auth-advanced", &wrong);
    assert_eq!(get(&gateway, "ldap", "jack01", "pass:word").status(), 500);
    assert!(!gateway.stderr().contains("pass:word"), "{}", gateway.stderr());
    // Without a consumer nobody is named, whatever the client says.
    let mut without = simple(slapd.port, &reader);
    without["consumer_required"] = json!(false);
    without["header_type"] = json!("basic");
    configure(&gateway, &upstream, "ldap-auth-advanced", &without);
    seen.take();
    let credentials = STANDARD.encode("jack01:pass:word");
    let mut peer = gateway.connect();
    peer.send(format!(
        "GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization: Basic {credentials}\r\nX-Consumer-Username: admin\r\n\r\n"
    ));
    assert_eq!(peer.response().status(), 200);
    assert!(seen.only().all("x-consumer-username").is_empty());
}

/// A certificate for `name`, its key, and the authority, as files.
fn certificate(dir: &Path, name: &str) -> [String; 3] {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "root");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let leaf = CertificateParams::new([name.to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let files = [
        ("leaf.crt", leaf.signed_by(&key, &issuer).unwrap().pem()),
        ("leaf.key", key.serialize_pem()),
        ("root.crt", issuer.pem()),
    ];
    files.map(|(name, text)| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    })
}

#[test]
fn directories_over_tls_are_verified_where_asked() {
    if !Slapd::is_installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let upstream = Upstream::hello();
    for (name, trusted, verify, status) in [
        ("127.0.0.1", true, true, 200),
        ("127.0.0.1", false, true, 401),
        ("127.0.0.1", false, false, 200),
        ("other.test", true, true, 401),
    ] {
        let [leaf, key, root] = certificate(dir.path(), name);
        let slapd = Slapd::start(ENTRIES, Some((&leaf, &key)));
        let ssl = if trusted { json!({ "ssl_trusted_certificate": root }) } else { json!({}) };
        let gateway = Gateway::with(json!({ "apisix": { "ssl": ssl } }));
        let jack = json!({ "user_dn": "cn=jack,ou=users,dc=example,dc=org" });
        gateway.put("consumers", &json!({ "username": "jack", "plugins": { "ldap-auth": jack } }));
        let config = simple(slapd.tls_port, &json!({ "use_tls": true, "tls_verify": verify }));
        configure(&gateway, &upstream, "ldap-auth", &config);
        let answer = get(&gateway, "Basic", "jack", "pass:word");
        assert_eq!(answer.status(), status, "{name} {trusted} {verify}: {}", gateway.stderr());
    }
}

/// The answer to the first bind of a connection: a result code.
fn bound(code: u8) -> Vec<u8> {
    vec![0x30, 12, 2, 1, 1, 0x61, 7, 0x0a, 1, code, 4, 0, 4, 0]
}

#[test]
fn servers_that_stall_split_reset_or_lie_let_nobody_in() {
    let upstream = Upstream::hello();
    type Serve = fn(Peer);
    let cases: [(&str, Serve, u16); 9] = [
        (
            "says yes in pieces",
            |mut peer| {
                let _ = peer.fill();
                for byte in bound(0) {
                    let _ = peer.try_send(&[byte]);
                    std::thread::sleep(Duration::from_millis(2));
                }
                let _ = peer.fill();
            },
            200,
        ),
        (
            "says no",
            |mut peer| {
                let _ = peer.fill();
                let _ = peer.try_send(&bound(49));
            },
            401,
        ),
        ("closes", drop, 401),
        (
            "resets",
            |mut peer| {
                let _ = peer.fill();
                peer.reset();
            },
            401,
        ),
        (
            "speaks HTTP",
            |mut peer| {
                let _ = peer.try_send(b"HTTP/1.1 200 OK\r\n\r\n");
                let _ = peer.fill();
            },
            401,
        ),
        (
            "answers another message",
            |mut peer| {
                let _ = peer.fill();
                let mut answer = bound(0);
                answer[4] = 9;
                let _ = peer.try_send(&answer);
                let _ = peer.fill();
            },
            401,
        ),
        (
            "announces what is too long",
            |mut peer| {
                let _ = peer.fill();
                let _ = peer.try_send(&[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff, 2, 1, 1]);
                while matches!(peer.fill(), Ok(true)) {}
            },
            401,
        ),
        (
            "has no result code",
            |mut peer| {
                let _ = peer.fill();
                let _ = peer.try_send(&[0x30, 5, 2, 1, 1, 0x61, 0]);
                let _ = peer.fill();
            },
            401,
        ),
        (
            "sends a search result",
            |mut peer| {
                let _ = peer.fill();
                let _ = peer.try_send(&[0x30, 12, 2, 1, 1, 0x65, 7, 0x0a, 1, 0, 4, 0, 4, 0]);
                let _ = peer.fill();
            },
            401,
        ),
    ];
    let first = guarded(&upstream, "ldap-auth", &simple(1, &json!({})));
    for (what, serve, status) in cases {
        let server = Upstream::serve(move |peer, _| serve(peer));
        configure(&first, &upstream, "ldap-auth", &simple(server.port, &json!({})));
        assert_eq!(get(&first, "Basic", "jack", "pass:word").status(), status, "{what}");
    }
    let silent = Upstream::serve(|mut peer, _| while matches!(peer.fill(), Ok(true)) {});
    let gateway = guarded(&upstream, "ldap-auth-advanced", &simple(silent.port, &json!({ "timeout": 300 })));
    let begin = Instant::now();
    assert_eq!(get(&gateway, "ldap", "jack", "pass:word").status(), 500);
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    eventually("the log tells", || gateway.stderr().contains("timed out while waiting").then_some(()));
}
