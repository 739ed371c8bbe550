//! `deployment.role`, its `config_provider` and `deployment.etcd`: which parts of the gateway run, and where its
//! configuration comes from.

use std::path::PathBuf;
use std::time::Duration;

use store::etcd::Endpoint;
use store::file::Format;

/// Which parts of the gateway run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Data plane and Admin API.
    #[default]
    Traditional,
    /// The Admin API alone.
    ControlPlane,
    /// The data plane alone.
    DataPlane,
}

/// Where the configuration comes from.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Provider {
    /// The gateway keeps it itself, in its data directory.
    #[default]
    Embedded,
    /// A cluster that a fleet shares.
    Etcd(Etcd),
    /// A file beside `config.yaml`.
    File(Format),
    /// One document, put as a whole through the Admin API.
    Standalone,
}

/// `deployment.etcd`.
#[derive(Clone, PartialEq)]
pub struct Etcd {
    /// `host`.
    pub endpoints: Vec<Endpoint>,
    /// `prefix`.
    pub prefix: String,
    /// `timeout`: of one call, all members tried.
    pub timeout: Duration,
    /// `user` and `password`.
    pub user: Option<(String, String)>,
    /// `tls.verify`.
    pub verify: bool,
    /// `tls.cert` and `tls.key`: files in PEM, relative to the data directory.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// `tls.sni`.
    pub server_name: Option<String>,
}

impl Default for Etcd {
    fn default() -> Self {
        Self {
            endpoints: vec![Endpoint { tls: false, authority: "127.0.0.1:2379".to_owned() }],
            prefix: "/apisix".to_owned(),
            timeout: Duration::from_secs(30),
            user: None,
            verify: true,
            certificate: None,
            server_name: None,
        }
    }
}

impl std::fmt::Debug for Etcd {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Etcd")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
