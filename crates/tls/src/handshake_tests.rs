//! Whole handshakes in memory, with certificates made here.

use crate::{Choice, Entry, Identity, Peer, Protocols, Server, ServerOptions, Site, Sites, Trust, Upstreams};
use crate::{Verdict, Verify};
use model::resource::{ClientVerification, Ssl};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PKCS_ED25519};
use rustls::pki_types::ServerName;
use rustls::server::Acceptor;
use rustls::{ClientConfig, ClientConnection, ServerConnection, SignatureScheme};
use std::sync::Arc;

/// A chain and its key in PEM.
struct Pair(String, String);

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str, above: Option<&Authority>) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    match above {
        None => CertifiedIssuer::self_signed(params, key).unwrap(),
        Some(above) => CertifiedIssuer::signed_by(params, key, above).unwrap(),
    }
}

fn signed(name: &str, by: &Authority, key: &KeyPair) -> Pair {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    Pair(params.signed_by(key, by).unwrap().pem(), key.serialize_pem())
}

fn leaf(name: &str, by: &Authority) -> Pair {
    signed(name, by, &KeyPair::generate().unwrap())
}

fn ssl(names: &[&str], pair: &Pair) -> Ssl {
    Ssl {
        id: None,
        side: model::resource::SslSide::Server,
        cert: pair.0.clone(),
        key: pair.1.as_str().into(),
        sni: None,
        snis: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        certs: Vec::new(),
        keys: Vec::new(),
        client: None,
        status: None,
        ssl_protocols: None,
    }
}

fn sites(resources: &[Ssl]) -> Sites {
    let mut sites = Sites::default();
    for (id, resource) in resources.iter().enumerate() {
        let (site, _) = Site::compile(resource).unwrap();
        sites.insert(&id.to_string(), &Entry::Site(Arc::new(site)));
    }
    sites
}

fn server(options: &ServerOptions) -> Server {
    Server::new(options).unwrap().0
}

/// A client that trusts `root` and shows `own`.
fn client(root: &Authority, own: Option<&Pair>) -> Arc<ClientConfig> {
    let upstreams = Upstreams::new(Trust { pem: vec![root.pem()], system: false }).unwrap();
    let own = own.map(|Pair(cert, key)| Identity::from_pem(cert, key).unwrap());
    upstreams.config(Verify::Name, own.as_ref(), &["http/1.1"]).unwrap()
}

/// Runs a handshake to its end, and reads what the server sends after it.
fn shake(config: &Arc<ClientConfig>, name: &str, server: &Server, sites: &Sites) -> Result<Peer, String> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    let mut acceptor = Acceptor::default();
    acceptor.read_tls(&mut hello.as_slice()).unwrap();
    let accepted = acceptor.accept().map_err(|(error, _)| error.to_string())?.unwrap();
    let choice: Choice = server.choose(&accepted.client_hello(), sites)?;
    let mut connection: ServerConnection =
        accepted.into_connection(Arc::clone(&choice.config)).map_err(|(error, _)| error.to_string())?;
    for _ in 0..10 {
        let mut bytes = Vec::new();
        connection.write_tls(&mut bytes).unwrap();
        if !bytes.is_empty() {
            client.read_tls(&mut bytes.as_slice()).unwrap();
            client.process_new_packets().map_err(|error| format!("client: {error}"))?;
        }
        bytes.clear();
        client.write_tls(&mut bytes).unwrap();
        if !bytes.is_empty() {
            connection.read_tls(&mut bytes.as_slice()).unwrap();
            connection.process_new_packets().map_err(|error| error.to_string())?;
        }
    }
    assert!(!connection.is_handshaking() && !client.is_handshaking());
    Ok(Peer::new(&connection, choice))
}

#[test]
fn the_name_chooses_the_certificate() {
    let root = authority("root", None);
    let all = sites(&[
        ssl(&["a.test.com"], &leaf("a.test.com", &root)),
        ssl(&["*.Test.com.", "test.com"], &leaf("*.test.com", &root)),
    ]);
    let server =
        server(&ServerOptions { fallback_sni: Some("A.test.com".into()), ..ServerOptions::default() });
    let any = client(&root, None);
    for (name, expected) in [
        ("a.test.com", Some("a.test.com")),
        ("B.test.com", Some("b.test.com")),
        ("b.a.test.com", None),
        ("other.com", None),
    ] {
        let peer = shake(&any, name, &server, &all);
        assert_eq!(peer.as_ref().ok().map(|peer| &*peer.server_name), expected, "{name}: {peer:?}");
    }
    // A client without a name gets the fallback's certificate, which is not valid for its address.
    let error = shake(&any, "127.0.0.1", &server, &all).unwrap_err();
    assert!(error.contains("not valid for name"), "{error}");
    let unnamed = self::server(&ServerOptions::default());
    assert!(shake(&any, "127.0.0.1", &unnamed, &all).unwrap_err().starts_with("failed to find SNI"));
}

#[test]
fn a_new_certificate_is_shown_to_the_next_handshake() {
    let (old, new) = (authority("old", None), authority("new", None));
    let before = sites(&[ssl(&["a.com"], &leaf("a.com", &old))]);
    let server = server(&ServerOptions::default());
    let mut after = before.clone();
    let entry = |sites: &Sites| Entry::Site(Arc::clone(sites.find("a.com").unwrap()));
    after.remove("0", &entry(&before));
    assert!(after.find("a.com").is_none());
    after.insert("0", &entry(&sites(&[ssl(&["a.com"], &leaf("a.com", &new))])));
    for (root, sites, fits) in [(&old, &before, true), (&new, &before, false), (&new, &after, true)] {
        assert_eq!(shake(&client(root, None), "a.com", &server, sites).is_ok(), fits);
    }
}

#[test]
fn of_two_keys_the_client_gets_the_one_it_can_verify() {
    let root = authority("root", None);
    let ecdsa = leaf("a.com", &root);
    let edwards = signed("a.com", &root, &KeyPair::generate_for(&PKCS_ED25519).unwrap());
    let both = Ssl {
        certs: vec![edwards.0.clone()],
        keys: vec![edwards.1.as_str().into()],
        ..ssl(&["a.com"], &ecdsa)
    };
    let (site, _) = Site::compile(&both).unwrap();
    let resolved = |offered: &[SignatureScheme]| {
        let identities = [Identity::from_pem(&ecdsa.0, &ecdsa.1), Identity::from_pem(&edwards.0, &edwards.1)];
        identities.iter().flatten().position(|identity| identity.suits(offered))
    };
    assert_eq!(resolved(&[SignatureScheme::ED25519]), Some(1));
    assert_eq!(resolved(&[SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519]), Some(0));
    let mut sites = Sites::default();
    sites.insert("1", &Entry::Site(Arc::new(site)));
    shake(&client(&root, None), "a.com", &server(&ServerOptions::default()), &sites).unwrap();
}

#[test]
fn sessions_are_resumed_unless_clients_are_asked_for_certificates() {
    let root = authority("root", None);
    let pair = leaf("a.com", &root);
    let own = leaf("me", &root);
    let client_ca = ClientVerification { ca: root.pem(), depth: 1, skip_mtls_uri_regex: Vec::new() };
    let asking = Ssl { client: Some(client_ca), ..ssl(&["a.com"], &pair) };
    for version in ["TLSv1.2", "TLSv1.3"] {
        for (tickets, resource, resumes) in [
            (true, ssl(&["a.com"], &pair), true),
            (false, ssl(&["a.com"], &pair), true),
            (true, asking.clone(), false),
            (false, asking.clone(), false),
        ] {
            let (protocols, _) = Protocols::parse([version]);
            let server = server(&ServerOptions { protocols, tickets, ..ServerOptions::default() });
            let sites = sites(&[resource]);
            let client = client(&root, Some(&own));
            let first = shake(&client, "a.com", &server, &sites).unwrap();
            let second = shake(&client, "a.com", &server, &sites).unwrap();
            assert_eq!((first.protocol, first.resumed), (version, false));
            assert_eq!(second.resumed, resumes, "{version} {tickets}");
            // Other settings, as after a reload: the session lives on.
            let reloaded = self::server(&ServerOptions { protocols, tickets, ..ServerOptions::default() });
            assert_eq!(shake(&client, "a.com", &reloaded, &sites).unwrap().resumed, resumes);
        }
    }
}

#[test]
fn client_certificates_are_verified() {
    let (root, other) = (authority("root", None), authority("other", None));
    let middle = authority("middle", Some(&root));
    let deep = leaf("deep", &middle);
    let deep = Pair(deep.0 + &middle.pem(), deep.1);
    let (own, strange) = (leaf("me", &root), leaf("me", &other));
    let asking = |depth: u32, skip: &[&str]| {
        let skip_mtls_uri_regex = skip.iter().map(|pattern| (*pattern).to_owned()).collect();
        let client = Some(ClientVerification { ca: root.pem(), depth, skip_mtls_uri_regex });
        sites(&[Ssl { client, ..ssl(&["a.com"], &leaf("a.com", &root)) }])
    };
    let server = server(&ServerOptions::default());
    for (depth, shown, accepted) in [
        (1, Some(&own), true),
        (1, None, false),
        (1, Some(&strange), false),
        (1, Some(&deep), true),
        (0, Some(&deep), false),
    ] {
        let peer = shake(&client(&root, shown), "a.com", &server, &asking(depth, &[]));
        assert_eq!(peer.is_ok(), accepted, "{peer:?}");
    }
    let lenient = asking(0, &["^/open"]);
    let site = lenient.find("a.com");
    for (shown, verdict, text) in [
        (Some(&own), Verdict::Success, "SUCCESS"),
        (None, Verdict::None, "NONE"),
        (
            Some(&strange),
            Verdict::Failed("unable to get local issuer certificate"),
            "FAILED:unable to get local issuer certificate",
        ),
        (Some(&deep), Verdict::Failed("certificate chain too long"), "FAILED:certificate chain too long"),
    ] {
        let peer = shake(&client(&root, shown), "a.com", &server, &lenient).unwrap();
        assert_eq!((&peer.verdict, &*peer.verdict.text()), (&verdict, text));
        let admitted =
            |host, path: &str| peer.admits(host, path.as_bytes(), site.map(|site| &**site)).is_ok();
        assert!(admitted("a.com", "/open/1"));
        assert_eq!(admitted("a.com", "/closed"), verdict == Verdict::Success);
        assert!(!admitted("b.com", "/open"), "reached by another name");
        assert_eq!(peer.subject().is_some(), shown.is_some());
    }
}

#[test]
fn a_version_that_a_site_does_not_want_is_refused() {
    let root = authority("root", None);
    let old = Ssl { ssl_protocols: Some(vec!["TLSv1.1".into()]), ..ssl(&["a.com"], &leaf("a.com", &root)) };
    assert_eq!(Site::compile(&old).unwrap_err()[0].path, "/ssl_protocols");
    let mixed = Ssl { ssl_protocols: Some(vec!["TLSv1.1".into(), "TLSv1.2".into()]), ..old };
    assert_eq!(Site::compile(&mixed).unwrap().1[0].what, "TLSv1.1");
    let newest = server(&ServerOptions { ciphers: Some("AES128-SHA".into()), ..ServerOptions::default() });
    let error =
        shake(&client(&root, None), "a.com", &newest, &sites(std::slice::from_ref(&mixed))).unwrap_err();
    assert!(error.contains("can't be used"), "{error}");
    let peer = shake(&client(&root, None), "a.com", &server(&ServerOptions::default()), &sites(&[mixed]));
    assert_eq!(peer.unwrap().protocol, "TLSv1.2");
}

#[test]
fn a_hundred_thousand_names_change_one_by_one() {
    let root = authority("root", None);
    let pair = leaf("x.com", &root);
    let (site, _) = Site::compile(&ssl(&["x.com"], &pair)).unwrap();
    let site = Arc::new(site);
    let mut names = crate::names::Names::default();
    for number in 0..100_000 {
        names.insert(&format!("h{number}.com"), &number.to_string().into(), &site);
    }
    let begun = std::time::Instant::now();
    for number in 0..100 {
        let kept = names.clone();
        names.insert(&format!("new{number}.com"), &"new".into(), &site);
        assert!(kept.find(&format!("new{number}.com")).is_none());
    }
    // Microseconds each; the bound leaves room for a slow and busy machine.
    assert!(begun.elapsed().as_millis() < 2000, "{:?}", begun.elapsed());
}
