//! Connections to upstreams that are encrypted (`scheme: https`): what is shown and asked of which node.

use super::{AddrPool, Protocol, Upstreams};
use crate::error::{ErrorKind, ProxyError, Side};
use snapshot::{Snapshot, Upstream, UpstreamTls};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use tls::Verify;
use tls::rustls::ClientConfig;
use tls::rustls::pki_types::ServerName;

/// How the connections of a pool are encrypted.
#[derive(Debug, Clone)]
pub(crate) struct Secure {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) session: Session,
}

/// What tells encrypted connections to one address apart: none may carry a request that is meant for another server,
/// shows another certificate or wants another check.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    pub(crate) name: ServerName<'static>,
    /// The uid of the certificate shown; 0 for none.
    identity: u64,
    verify: Verify,
    /// The generation of what is trusted: [`Upstreams::reconfigure`] counts it.
    pub(super) trust: u64,
}

/// What handshakes are done with, by the certificate shown and what is asked of the server.
#[derive(Default)]
pub(crate) struct Configs(RefCell<HashMap<(u64, Verify, Protocol), Arc<ClientConfig>>>);

impl Configs {
    /// Forgets those that no pool uses.
    pub(crate) fn sweep(&self) {
        self.0.borrow_mut().retain(|_, config| Arc::strong_count(config) > 1);
    }

    /// Forgets all: what is trusted has changed.
    pub(crate) fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    fn get(
        &self,
        tls: &tls::Upstreams,
        session: &Session,
        identity: Option<&tls::Identity>,
        protocol: Protocol,
    ) -> Option<Arc<ClientConfig>> {
        let key = (session.identity, session.verify, protocol);
        if let Some(config) = self.0.borrow().get(&key) {
            return Some(Arc::clone(config));
        }
        let offered: &[&str] = match protocol {
            Protocol::Http1 => &["http/1.1"],
            Protocol::Http2 => &["h2"],
            // The client's protocol is not known.
            Protocol::Opaque => &[],
        };
        let made = tls.config(session.verify, identity, offered);
        let config = made.inspect_err(|error| tracing::error!("TLS to upstreams: {error}")).ok()?;
        self.0.borrow_mut().insert(key, Arc::clone(&config));
        Some(config)
    }
}

/// The pool of encrypted connections to the address of `plain`, for a request that names `host` (with or without a
/// port), as `pass_host` has it.
///
/// # Errors
/// A certificate to show that is not there.
pub(crate) fn pool(
    upstreams: &Upstreams,
    snapshot: &Snapshot,
    upstream: &Upstream,
    plain: &AddrPool,
    host: &[u8],
) -> Result<Rc<AddrPool>, ProxyError> {
    let missing =
        || ProxyError::new(Side::Upstream, ErrorKind::Connection, "no certificate to show the upstream");
    let default = UpstreamTls::default();
    let tls = upstream.tls.as_ref().unwrap_or(&default);
    let identity = match (&tls.identity, &tls.client_cert_id) {
        (Some(identity), _) => Some(identity),
        (None, Some(id)) => Some(snapshot.tls.client(id).ok_or_else(|| {
            tracing::error!("failed to get ssl cert: no ssl {id} of type 'client' is in use");
            missing()
        })?),
        (None, None) => None,
    };
    let session = Session {
        name: server_name(host, plain.address.ip()),
        identity: identity.map_or(0, |identity| identity.uid),
        verify: if tls.verify { Verify::Name } else { Verify::Nothing },
        trust: upstreams.trust.get(),
    };
    let settings = upstreams.tls();
    let protocol = plain.protocol;
    let identity = identity.map(|identity| &**identity);
    let config = upstreams.configs.get(&settings, &session, identity, protocol);
    let config = config.ok_or_else(missing)?;
    Ok(upstreams.pools.at(plain.address, plain.keepalive, Some(Secure { config, session }), protocol))
}

/// The name that the server is asked for and checked against: the host without its port; an address sends none. A host
/// that can be no name leaves the node's address.
pub(super) fn server_name(host: &[u8], address: IpAddr) -> ServerName<'static> {
    let bare = match memchr::memrchr2(b':', b']', host) {
        Some(at) if host[at] == b':' && memchr::memchr(b':', &host[..at]).is_none_or(|_| host[0] == b'[') => {
            &host[..at]
        }
        _ => host,
    };
    let bare = bare.strip_prefix(b"[").and_then(|bare| bare.strip_suffix(b"]")).unwrap_or(bare);
    let named = std::str::from_utf8(bare).ok().and_then(|name| ServerName::try_from(name).ok());
    named.map_or_else(|| ServerName::from(address), |name| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_asked_for_the_host_alone() {
        let node = IpAddr::from([127, 0, 0, 1]);
        for (host, expected) in [
            ("a.com", "a.com"),
            ("a.com:8443", "a.com"),
            ("10.0.0.1:80", "10.0.0.1"),
            ("[::1]:443", "::1"),
            ("[::1]", "::1"),
            ("", "127.0.0.1"),
            ("not a name", "127.0.0.1"),
        ] {
            assert_eq!(server_name(host.as_bytes(), node).to_str(), expected, "{host}");
        }
    }
}
