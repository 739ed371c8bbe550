//! The client of an exchange: its connection, and who it says to speak for.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::rc::Rc;

/// The client's connection.
#[derive(Debug, Clone)]
pub struct Client {
    /// The client's address: the peer's, or what a believed proxy says.
    pub addr: SocketAddr,
    /// Its IP address as text: `$remote_addr`. Written once per connection.
    pub ip_text: String,
    /// The address of the connection's peer, whoever it speaks for.
    pub peer: IpAddr,
    /// The address the connection was accepted on.
    pub local: SocketAddr,
    /// What is known of it where the connection is encrypted.
    pub tls: Option<Rc<tls::Peer>>,
    /// Serial number: `$connection`.
    pub serial: u64,
}

impl Client {
    /// The client behind a connection from `addr` to `local`.
    #[must_use]
    pub fn new(addr: SocketAddr, local: SocketAddr, serial: u64) -> Self {
        // An IPv4 peer of a dual-stack listener is shown as IPv4.
        let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
        Self { addr, ip_text: addr.ip().to_string(), peer: addr.ip(), local, tls: None, serial }
    }

    /// The client at `addr` behind this connection's peer, which is a proxy.
    #[must_use]
    pub fn named(&self, addr: SocketAddr) -> Self {
        Self { tls: self.tls.clone(), peer: self.peer, ..Self::new(addr, self.local, self.serial) }
    }

    /// The client's IP address.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.addr.ip()
    }

    /// `$scheme`.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// The client as an exchange sees it: as it is connected, unless a plugin knows better.
#[derive(Debug, Clone)]
pub enum ClientView<'a> {
    /// Who is at the other end of the connection.
    Connected(&'a Client),
    /// Who a proxy at the other end speaks for.
    Restated(Rc<Client>),
}

impl ClientView<'_> {
    /// From now on the client is the one at `ip` and `port`; the port stays where none is given. Its connection and what
    /// is known of its certificate stay the proxy's.
    pub fn restate(&mut self, ip: IpAddr, port: Option<u16>) {
        let mut client = Client::clone(self);
        client.addr = SocketAddr::new(ip.to_canonical(), port.unwrap_or(client.addr.port()));
        client.ip_text = client.addr.ip().to_string();
        *self = Self::Restated(Rc::new(client));
    }

    /// Whether the client is another one than the connection's.
    #[must_use]
    #[inline]
    pub fn is_restated(&self) -> bool {
        matches!(self, Self::Restated(_))
    }
}

impl Deref for ClientView<'_> {
    type Target = Client;

    #[inline]
    fn deref(&self) -> &Client {
        match self {
            Self::Connected(client) => client,
            Self::Restated(client) => client,
        }
    }
}
