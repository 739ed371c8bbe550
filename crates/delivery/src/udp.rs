//! A collector at a UDP port.

use crate::tcp::reach;
use crate::{Destination, Framing};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// A UDP server.
#[derive(Debug)]
pub struct UdpCollector {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How a batch is written, in one datagram; plain entries have one each.
    pub framing: Framing,
}

impl Destination for UdpCollector {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        let sent = reach(&self.host, self.port, |address| {
            let own = match address.ip() {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            };
            let socket = UdpSocket::bind((own, 0))?;
            socket.connect(address)?;
            if self.framing == Framing::Plain {
                return entries.iter().try_for_each(|entry| socket.send(entry).map(drop));
            }
            socket.send(&self.framing.join(entries)).map(drop)
        });
        sent.map_err(|error| format!("{}:{}: {error}", self.host, self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn plain_entries_are_datagrams_and_others_one_together() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let port = server.local_addr().unwrap().port();
        for (framing, expected) in [(Framing::Plain, &["a", "b"][..]), (Framing::Array, &["[a,b]"])] {
            let collector = UdpCollector { host: "127.0.0.1".to_owned(), port, framing };
            collector.send(&[b"a".to_vec(), b"b".to_vec()]).unwrap();
            for datagram in expected {
                let mut buffer = [0; 64];
                let length = server.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], datagram.as_bytes());
            }
        }
    }
}
