//! Which addresses are taken: two servers on one port are a mistake that is better said before the kernel does.

use std::net::SocketAddr;

use crate::reader::Field;
use document::{Diagnostic, Found, codes};

/// The addresses of all servers, in the order they were claimed.
#[derive(Default)]
pub(super) struct Ports<'a> {
    claims: Vec<Claim<'a>>,
}

struct Claim<'a> {
    server: &'static str,
    address: SocketAddr,
    /// The value that named it; `None` for a default.
    field: Option<Field<'a>>,
}

impl<'a> Ports<'a> {
    /// Notes that `server` listens there.
    pub(super) fn claim(&mut self, server: &'static str, address: SocketAddr, field: Option<Field<'a>>) {
        self.claims.push(Claim { server, address, field });
    }

    /// Reports each address that an earlier server has, where the later or else the earlier is named.
    pub(super) fn report_conflicts(&self, found: &Found) {
        for (index, later) in self.claims.iter().enumerate() {
            let Some(earlier) = self.claims[..index].iter().find(|earlier| overlap(earlier, later)) else {
                continue;
            };
            let message =
                format!("{} and {} both want port {}", later.server, earlier.server, later.address.port());
            const HINT: &str = "give one of them another port";
            match later.field.as_ref().or(earlier.field.as_ref()) {
                Some(field) => {
                    field.fail_as::<()>(codes::PORT_CONFLICT, message, HINT);
                }
                None => found.add(Diagnostic::error(codes::PORT_CONFLICT, message).hint(HINT)),
            }
        }
    }
}

/// Port 0 never conflicts: the kernel gives each a port of its own. The data plane may listen on several addresses of
/// one port, so equal servers are compared by address alone (and duplicates there were dropped before).
fn overlap(earlier: &Claim<'_>, later: &Claim<'_>) -> bool {
    let (a, b) = (earlier.address, later.address);
    let wildcard = a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && earlier.server != later.server && (a.ip() == b.ip() || wildcard)
}
