//! Clusters that keep accounts, and clusters behind TLS.

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use super::{Server, config, store};
use crate::etcd::EtcdTls;
use crate::{Etcd, EtcdConfig, Store, StoreError};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// etcd's own command line: accounts are the operator's to make.
fn etcdctl(server: &Server, arguments: &[&str]) {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", &server.endpoint()]).args(arguments);
    let output = command.output();
    let output =
        output.unwrap_or_else(|error| panic!("etcdctl (Debian: etcd-client) can't be started: {error}"));
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn an_account_confined_to_apisixs_keys_is_enough() {
    let server = Server::start();
    for arguments in [
        &["user", "add", "root:secret"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "gw:pw"],
        &["role", "add", "gw"],
        &["role", "grant-permission", "gw", "readwrite", "/apisix", "--prefix=true"],
        &["user", "grant-role", "gw", "gw"],
        &["auth", "enable"],
    ] {
        etcdctl(&server, arguments);
    }
    let base = config(&[server.endpoint()], "/apisix");
    let user = |name: &str, password: &str| Some((name.to_owned(), password.to_owned()));
    let etcd = Etcd::new(EtcdConfig { user: user("gw", "pw"), ..base.clone() });
    etcd.put("/routes/1", b"{}".as_slice().into(), Some("ada")).await.unwrap();
    assert_eq!(etcd.list("").await.unwrap().entries.len(), 1);
    assert_eq!(etcd.history(None, 10).await.unwrap().len(), 1, "the key as it stands");
    let wrong = Etcd::new(EtcdConfig { user: user("gw", "no"), ..base.clone() });
    let begin = Instant::now();
    let refused = wrong.list("").await.unwrap_err().to_string();
    assert!(refused.contains("authentication failed"), "{refused}");
    assert!(begin.elapsed() < base.timeout, "a wrong password is not tried again and again");
    let nobody = store(&[server.endpoint()], "/apisix");
    assert!(matches!(nobody.list("").await, Err(StoreError::Unavailable(_))));
}

#[tokio::test]
async fn tls_is_verified() {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["etcd.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (cert_file, key_file) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    std::fs::write(&cert_file, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    let flags = ["--cert-file", cert_file.to_str().unwrap(), "--key-file", key_file.to_str().unwrap()];
    let server = Server::with(1, &flags).pop().unwrap();
    let endpoint = server.endpoint().replace("http://", "https://");

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certificate.der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tls =
        |name: &str| Some(EtcdTls { config: Arc::new(client.clone()), server_name: Some(name.to_owned()) });
    let base = config(&[endpoint], "/apisix");
    let etcd = Etcd::new(EtcdConfig { tls: tls("etcd.test"), ..base.clone() });
    etcd.put("/routes/1", b"{}".as_slice().into(), None).await.unwrap();
    let other = Etcd::new(EtcdConfig { tls: tls("other.test"), ..base });
    let refused = other.list("").await.unwrap_err().to_string();
    assert!(refused.contains("TLS"), "{refused}");
}
