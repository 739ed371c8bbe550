//! The plugin framework: what a plugin is, what it sees, how a route's chain of plugins is put together.
//!
//! A plugin says which phases it listens to ([`PluginDef`]); a route's [`Chain`] is compiled per phase, so a phase
//! nobody listens to costs nothing. Plugins see an [`Exchange`] or, on stream routes,
//! a [`Session`], and never a socket.

mod admission;
mod attempt;
mod auth;
mod background;
mod body;
mod body_filters;
mod body_vars;
mod builder;
mod chain;
mod client;
mod coding;
mod consumer;
mod consumer_plugins;
mod context;
mod control;
mod credential;
mod def;
mod detached;
mod endpoint;
mod exchange;
mod extensions;
mod external_user;
mod flow;
mod form;
mod gateway;
mod graphql;
mod headers;
mod held;
mod hooks;
mod ingredients;
mod kept;
mod lifecycle;
mod limits;
mod log_source;
mod log_span;
mod loopback;
mod meta;
mod nested;
mod observed;
mod offer;
mod path_rules;
mod public_api;
mod registry;
mod reloads;
mod reply;
mod request;
mod route_filters;
mod services;
mod session;
mod shared;
mod start;
mod stored;
mod target;
mod upstream_choice;
mod upstreams;
mod var_text;
mod vars;
mod waiting;

#[doc(hidden)]
pub mod fuzzing;

#[cfg(any(test, feature = "testkit"))]
pub mod testkit;

pub use attempt::{Attempt, AttemptFlow, OnAttempt};
pub use auth::Authenticator;
pub use background::{Background, BackgroundTasks, Place};
pub use body::{Awaited, BodyFilter, BodyView, Held, Recorder, Rejected, Replaced};
pub use body_filters::BodyFilters;
pub use body_vars::{BodyLimits, BodyVars, WholeBody};
pub use builder::PluginDefBuilder;
pub use chain::{Chain, CompiledPlugin, Step};
pub use client::{Client, ClientView};
pub use coding::{Coding, has_no_body};
pub use consumer::{ConsumerInfo, Consumers, Identity};
pub use consumer_plugins::{ConsumerGroup, ConsumerPlugins};
pub use control::{ControlAnswer, ControlApi, ControlBody, ControlHandler, ControlRequest};
pub use credential::{CompileCredential, CompiledCredential, ConsumerSide};
pub use def::{Compile, CompileContext, FileAccess, Plugin, PluginDef, Registry, schema_of};
pub use detached::{DetachedRequest, NotDetached};
pub use endpoint::{Endpoint, EndpointOptions};
pub use exchange::{
    Exchange, Extras, Keeper, ResponseSource, RouteInfo, Surroundings, Timing, UpstreamTrace,
};
pub use extensions::Extensions;
pub use external_user::ExternalUser;
pub use flow::{Flow, Resume, StreamFlow};
pub use form::{fields as form_fields, query_args};
pub use gateway::Gateway;
pub use graphql::definition_count as graphql_definitions;
pub use headers::{HeaderEdits, NameLengths};
pub use held::{HELD_BYTES_MAX, HeldBytes, REQUEST_BYTES_MAX};
pub use hooks::{Hooks, OnAccess, OnBeforeProxy, OnLog, OnPreread, OnResponse, OnRewrite, OnStreamLog};
pub use ingredients::{FindIngredients, Ingredients, NESTING_MAX, Nested, Parent};
pub use kept::{KeptResponse, Verdict};
pub use lifecycle::{Lifecycle, OnProcessStart, OnProcessStop, OnWorker, ProcessContext, WorkerContext};
pub use limits::ExchangeLimits;
pub use loopback::Loopback;
pub use meta::Meta;
pub use observed::Remembered;
pub use path_rules::PathRules;
pub use public_api::{ApiContext, MakeApis, PublicApi};
pub use reloads::{Reload, Reloads};
pub use reply::{Reply, UpstreamResponse};
pub use request::{Request, RequestEdits};
pub use route_filters::{CompileFilter, RouteFilters};
pub use services::{
    Answer, BadCall, BodySource, Call, CallBody, CallError, CallErrorKind, CallTimeouts, Fields, Io,
    LocalFuture, Services, Task, Unavailable,
};
pub use session::{Session, Traffic, Transport};
pub use shared::Shared;
pub use start::{StartedPlugins, WorkerPlace};
pub use stored::Stored;
pub use target::{Authority, MethodName, Target, encode_controls, encode_path};
pub use upstream_choice::UpstreamChoice;
pub use upstreams::{CompileUpstream, UpstreamCompiler};

#[cfg(test)]
mod tests;
