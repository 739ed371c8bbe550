//! What systemd is told: that the gateway is ready, and that it ends (`sd_notify(3)`).
//!
//! systemd names a datagram socket in `NOTIFY_SOCKET`: a path, or a name in the abstract namespace after `@`. Without it
//! nothing is sent.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A state that systemd knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Every listener is open.
    Ready,
    /// No new connections are taken.
    Stopping,
}

impl State {
    fn message(self) -> &'static [u8] {
        match self {
            Self::Ready => b"READY=1\n",
            Self::Stopping => b"STOPPING=1\n",
        }
    }
}

/// Sends `state` to the socket that `NOTIFY_SOCKET` names, if it names one. A failure is logged: the service manager
/// then waits in vain, and says so.
pub fn notify(state: State) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(socket = %socket.display(), %error, "NOTIFY_SOCKET: the service manager could not be notified");
    }
}

fn send(socket: &OsStr, state: State) -> io::Result<()> {
    let address = match socket.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(OsString::from(socket))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.message(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_reach_sockets_of_both_kinds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("tidegate-notify-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        for (socket, named) in [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (UnixDatagram::bind_addr(&abstract_address).unwrap(), OsString::from(format!("@{name}"))),
        ] {
            for (state, expected) in [(State::Ready, "READY=1\n"), (State::Stopping, "STOPPING=1\n")] {
                send(&named, state).unwrap();
                let mut buffer = [0; 32];
                let length = socket.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], expected.as_bytes());
            }
        }
    }

    #[test]
    fn a_socket_that_is_gone_is_an_error_and_no_panic() {
        for socket in ["/nonexistent/socket", "@", "", "relative"] {
            assert!(send(OsStr::new(socket), State::Ready).is_err(), "{socket}");
        }
    }
}
