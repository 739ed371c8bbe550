//! What routes are matched against.

use model::var::VarSource;
use std::net::IpAddr;

/// What the router asks about a request. Nothing here may allocate in the plain case.
pub trait RequestFacts: VarSource {
    /// The host in lower case without a port; may be empty.
    fn host(&self) -> &[u8];
    /// The path that routes are matched against: normalised, without the query.
    fn path(&self) -> &[u8];
    /// The method as sent.
    fn method(&self) -> &[u8];
    /// The client's address.
    fn remote_ip(&self) -> IpAddr;
}
