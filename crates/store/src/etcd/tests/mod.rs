//! The etcd backend against real etcd: the common suite, and what only a shared cluster can do.

mod accounts;
mod cluster;
mod server;
mod sharing;
mod suite;

pub(crate) use server::Server;

use std::time::Duration;

use super::{Endpoint, Etcd, EtcdConfig};

/// The store of a test on these members.
pub(crate) fn store(endpoints: &[String], prefix: &str) -> Etcd {
    Etcd::new(config(endpoints, prefix))
}

fn config(endpoints: &[String], prefix: &str) -> EtcdConfig {
    EtcdConfig {
        endpoints: endpoints.iter().map(|endpoint| Endpoint::parse(endpoint).unwrap()).collect(),
        prefix: prefix.to_owned(),
        timeout: Duration::from_secs(10),
        user: None,
        tls: None,
    }
}
