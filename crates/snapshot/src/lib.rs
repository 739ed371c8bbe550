//! Compiles stored resources into the immutable [`Snapshot`] that the workers read.
//!
//! The arrow points one way: store -> builder -> snapshot -> workers. A resource that can't be compiled is left out,
//! logged and shown; it never takes the rest of the configuration with it, and never replaces a good snapshot.

mod bound;
mod builder;
mod compile;
mod compiler;
mod consumers;
mod dependents;
mod fingerprint;
mod follow;
mod limits;
mod link;
mod metadata;
mod problem;
mod protos;
mod publish;
mod resource;
mod reuse;
mod revealing;
mod route;
mod ssl;
mod status;
mod stream_route;
mod uid;
mod upstream;

#[cfg(test)]
mod tests;

pub use builder::{BuildOptions, Builder};
pub use follow::{Rebuild, follow};
pub use problem::Problem;
pub use publish::{Published, Reader};
pub use route::{Broken, Route};
pub use status::FollowStatus;
pub use stream_route::{StreamFacts, StreamRoute, StreamRoutes};
pub use upstream::{
    ActiveChecks, Board, CheckTarget, Checks, Discovered, InPlugins, Judgement, PassiveChecks, ProbeRequest,
    Shared, Watched,
};
pub use upstream::{HashKey, Keepalive, Node, NodeHost, Timeouts, Upstream, UpstreamTls};

use plugin::{BackgroundTasks, Chain, ConsumerPlugins, Consumers, Registry};
use router::Router;
use std::sync::Arc;
use stdx::PersistentMap;

/// The whole configuration at one revision, compiled. Cheap to replace: what did not change is shared with the
/// snapshot before.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The store revision it was made from.
    pub revision: u64,
    /// Request to route.
    pub router: Router<Arc<Route>>,
    /// Session to stream route.
    pub streams: StreamRoutes,
    /// Plugins of the global rules.
    pub global: Arc<Chain>,
    /// Certificates.
    pub tls: tls::Sites,
    /// Who may be behind a request.
    pub consumers: Consumers,
    /// The plugins of consumers and their groups.
    pub consumer_plugins: ConsumerPlugins,
    /// The upstreams that are resources of their own, by id: for plugins that choose one.
    pub upstreams: PersistentMap<Arc<str>, Arc<Upstream>>,
    /// The upstreams whose nodes are checked, by the store key of the resource that defines each: `/routes/1`.
    pub checked: PersistentMap<Arc<str>, Arc<Upstream>>,
    /// The background tasks of plugins, by the store key of the resource in which they are configured.
    pub background: PersistentMap<Arc<str>, Arc<[Arc<BackgroundTasks>]>>,
    /// The plugins that compiled it. It keeps them from being stopped.
    pub registry: Arc<Registry>,
}
