//! Listening sockets: one per worker and address, told apart by the kernel (`SO_REUSEPORT`).

use crate::config::{Listen, Serves};
use crate::port_owner::port_owner;
use observe::error_log::NOTICE;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// Connections that wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// A socket that connections are accepted on, or that datagrams come to.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: Socket,
    /// What asks for it.
    pub(crate) listen: Listen,
    /// Where it is: its port is the one that the kernel chose.
    pub(crate) address: SocketAddr,
}

/// Why an address can't be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {reason}")]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// What is wrong and, for a port in use, who uses it.
    pub reason: String,
}

/// Binds `count` sockets to each of `wanted` that is not among `held`. A port of 0 is chosen by the kernel once and
/// shared by all.
///
/// # Errors
/// The first address that can't be had; sockets bound before are closed again.
pub(crate) fn bind(
    wanted: &[Listen],
    held: &[Listen],
    count: usize,
) -> Result<Vec<Vec<Listener>>, BindError> {
    let mut workers: Vec<Vec<Listener>> = (0..count).map(|_| Vec::new()).collect();
    for &listen in wanted.iter().filter(|listen| !held.contains(listen)) {
        let Listen { address: wanted, optional, serves, .. } = listen;
        let refuse = |error: io::Error| BindError { address: wanted, reason: describe(wanted, &error) };
        // SO_REUSEPORT would let two gateways share a port without a word; a socket without it finds out. Unless it is
        // this one that has the port, for another address or in the clear.
        let same =
            |held: &Listen| held.address.port() == wanted.port() && is_udp(held.serves) == is_udp(serves);
        let ours = held.iter().any(same);
        let probe = match socket(wanted, serves, ours) {
            Ok(probe) => probe,
            Err(error) if optional => {
                tracing::warn!(address = %wanted, %error, "not listening");
                continue;
            }
            Err(error) => return Err(refuse(error)),
        };
        let address = probe.local_addr().map_err(refuse)?.as_socket().unwrap_or(wanted);
        drop(probe);
        for listeners in &mut workers {
            let socket = socket(address, serves, true).map_err(refuse)?;
            if !is_udp(serves) {
                socket.listen(BACKLOG).map_err(refuse)?;
            }
            listeners.push(Listener { socket, listen, address });
        }
        tracing::info!(target: NOTICE, %address, serves = listen.what(), "listening");
    }
    Ok(workers)
}

/// Binds one socket to each of `lost`, which the sockets of other workers of this process may share.
///
/// # Errors
/// The first address that can't be had; sockets bound before are closed again.
pub(crate) fn bind_again(lost: &[(Listen, SocketAddr)]) -> Result<Vec<Listener>, BindError> {
    let bound = lost.iter().map(|&(listen, address)| {
        let refuse = |error: io::Error| BindError { address, reason: describe(address, &error) };
        let socket = socket(address, listen.serves, true).map_err(refuse)?;
        if !is_udp(listen.serves) {
            socket.listen(BACKLOG).map_err(refuse)?;
        }
        Ok(Listener { socket, listen, address })
    });
    bound.collect()
}

fn is_udp(serves: Serves) -> bool {
    serves == Serves::Udp
}

fn socket(address: SocketAddr, serves: Serves, shared: bool) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = if is_udp(serves) {
        Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?
    } else {
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        // A port whose last connections are still ending is free. (For UDP it would mean to share it.)
        socket.set_reuse_address(true)?;
        socket
    };
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() {
        // An IPv4 address is served by its own socket, so that both can be named in the configuration.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn describe(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => match port_owner(address.port()) {
            Some(owner) => format!("port {} is in use by {owner}", address.port()),
            None => format!("port {} is in use by another process", address.port()),
        },
        io::ErrorKind::PermissionDenied => {
            format!(
                "not permitted to bind port {}; ports below 1024 need CAP_NET_BIND_SERVICE",
                address.port()
            )
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(address: SocketAddr) -> Listen {
        Listen { address, optional: false, tls: false, proxy_protocol: false, serves: Serves::Http }
    }

    #[test]
    fn a_udp_port_is_another_than_the_tcp_port_of_its_number() {
        let udp = |address| Listen { serves: Serves::Udp, ..listen(address) };
        let first = bind(&[udp("127.0.0.1:0".parse().expect("address"))], &[], 2).expect("a free port");
        let address = first[0][0].address;
        assert!(bind(&[udp(address)], &[], 1).is_err(), "taken");
        assert!(bind(&[udp(address)], &[listen(address)], 1).is_err(), "taken, and not by the TCP port");
    }

    #[test]
    fn a_port_in_use_is_named_even_if_shared() {
        let first = bind(&[listen("127.0.0.1:0".parse().expect("address"))], &[], 2).expect("a free port");
        let address = first[0][0].address;
        assert_eq!(first[1][0].address, address);
        let error = bind(&[listen(address)], &[], 1).expect_err("taken");
        assert!(error.reason.contains(&address.port().to_string()), "{error}");
        assert!(error.reason.contains(&std::process::id().to_string()), "{error}");
    }

    #[test]
    fn a_port_is_taken_again_beside_those_of_other_workers() {
        let mut first =
            bind(&[listen("127.0.0.1:0".parse().expect("address"))], &[], 2).expect("a free port");
        let lost = first.remove(0).remove(0);
        let lost = (lost.listen, lost.address);
        assert_eq!(bind_again(&[lost]).expect("shared")[0].address, lost.1);
    }

    #[test]
    fn what_is_held_is_not_taken_again_and_may_change() {
        let first = bind(&[listen("127.0.0.1:0".parse().expect("address"))], &[], 1).expect("a free port");
        let held = listen(first[0][0].address);
        assert!(bind(&[held], &[held], 1).expect("nothing to take")[0].is_empty());
        let encrypted = Listen { tls: true, ..held };
        assert_eq!(bind(&[encrypted], &[held], 1).expect("shared")[0].len(), 1);
    }
}
