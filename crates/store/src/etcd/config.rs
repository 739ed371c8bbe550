//! How a cluster is reached.

use std::fmt;
use std::time::Duration;

use super::endpoint::{Endpoint, EtcdTls};

/// How a cluster is reached.
#[derive(Clone)]
pub struct EtcdConfig {
    /// Members of one cluster, in no order.
    pub endpoints: Vec<Endpoint>,
    /// What the keys begin with: `/apisix`.
    pub prefix: String,
    /// How long a call may take, all members tried.
    pub timeout: Duration,
    /// Name and password, where the cluster keeps accounts.
    pub user: Option<(String, String)>,
    /// TLS, for the endpoints that have it.
    pub tls: Option<EtcdTls>,
}

impl fmt::Debug for EtcdConfig {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdConfig")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
