//! All certificates of one configuration: part of the snapshot, cheap to copy and to change.

use crate::names::Names;
use crate::{Identity, Site};
use std::sync::Arc;

/// All certificates of one configuration.
#[derive(Debug, Clone, Default)]
pub struct Sites {
    names: Names<Site>,
    clients: Names<Identity>,
    /// How many sites ask clients for a certificate.
    guarded: usize,
}

/// What a resource puts there.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A certificate for clients that ask for its names.
    Site(Arc<Site>),
    /// A certificate for upstreams that ask who calls, by the resource's id.
    Client(Arc<Identity>),
    /// Nothing: it is switched off.
    Off,
}

impl Sites {
    /// Puts there what the resource `id` has become; what it put there before is to be removed first.
    pub fn insert(&mut self, id: &str, entry: &Entry) {
        let owner = Arc::from(id);
        match entry {
            Entry::Site(site) => {
                self.guarded += usize::from(site.asks_clients());
                for name in site.names() {
                    self.names.insert(name, &owner, site);
                }
            }
            Entry::Client(identity) => self.clients.insert(id, &owner, identity),
            Entry::Off => {}
        }
    }

    /// Takes away what the resource `id` put there.
    pub fn remove(&mut self, id: &str, entry: &Entry) {
        match entry {
            Entry::Site(site) => {
                self.guarded -= usize::from(site.asks_clients());
                for name in site.names() {
                    self.names.remove(name, id);
                }
            }
            Entry::Client(_) => self.clients.remove(id, id),
            Entry::Off => {}
        }
    }

    /// The site for a server name in lower case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Site>> {
        self.names.find(name)
    }

    /// The certificate to show upstreams, by the id of its resource.
    #[must_use]
    pub fn client(&self, id: &str) -> Option<&Arc<Identity>> {
        self.clients.find(id)
    }

    /// Whether any site asks clients for a certificate: where none does, requests need no look at their host's site.
    #[must_use]
    pub fn ask_clients(&self) -> bool {
        self.guarded > 0
    }
}
