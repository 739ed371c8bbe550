//! `stream_routes`: which TCP and UDP sessions go where.

use super::Upstream;
use crate::{Id, PluginMap};
use serde::Deserialize;
use serde_json::Value;

/// Which TCP and UDP sessions (address, port, server name) go where, through which plugins.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct StreamRoute {
    /// The route's id.
    pub id: Option<Id>,
    /// A name for people.
    pub name: Option<String>,
    /// The client's address or CIDR block.
    pub remote_addr: Option<String>,
    /// The gateway's address or CIDR block.
    pub server_addr: Option<String>,
    /// The gateway's port.
    pub server_port: Option<u16>,
    /// The server name that a TLS client asks for; a suffix where it begins with `*`.
    pub sni: Option<String>,
    /// An upstream written here.
    pub upstream: Option<Upstream>,
    /// Or one by id.
    pub upstream_id: Option<Id>,
    /// The service this route belongs to.
    pub service_id: Option<Id>,
    /// Its plugins, those of streams.
    pub plugins: PluginMap,
    /// The protocol spoken inside the stream.
    pub protocol: Option<StreamProtocol>,
}

/// `protocol` of a stream route: requests are told apart inside the stream.
#[derive(Debug, Clone, Deserialize)]
pub struct StreamProtocol {
    /// The protocol's name.
    pub name: String,
    /// The stream route whose sessions this one takes requests of.
    pub superior_id: Option<Id>,
    /// What the protocol's own schema says, as written.
    pub conf: Option<Value>,
    /// What is logged where, as written.
    pub logger: Option<Value>,
}
