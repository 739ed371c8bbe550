//! The Admin API: a function from request to response over the store, with APISIX's paths, bodies and words.
//!
//! [`Admin::handle`] has no sockets: [`server`] puts it behind a listener of its own, and the engine calls it where the
//! quick start answers on the data port. A refused request changes nothing; an acknowledged write is durable, and
//! the workers have it before the answer leaves (for at most [`AdminSettings::apply_wait`]).
//!
//! Where APISIX's answer is an error page or a Lua stack, or where two writers race, ours is better defined; the
//! differences stand at the top of the file that makes them.

mod api;
mod config_source;
pub mod control;
mod current;
mod dispatch;
mod fleet;
mod http;
pub mod lint;
mod read;
mod reload;
mod sealing;
mod settings;
mod standalone;
mod validate;
mod write;

pub use api::Admin;
pub use control::{Control, ControlRequest};
pub use current::CurrentAdmin;
pub use http::request::AdminRequest;
pub use http::respond::AdminResponse;
pub use http::server::server;
pub use http::serving::{CONNECTIONS_MAX, ListenerTls, Server};
pub use secrets::is_well_known_admin_key as is_well_known;
pub use settings::{AdminKey, AdminSettings, ApiVersion, Role};
pub use standalone::Standalone;
pub use validate::all::{Resource, check_whole};
