//! What a configuration may look like: the resources' JSON Schemas, equal to APISIX's in what they accept, refuse and
//! fill in, and the [`Validator`] that runs them and the plugins' own.
//!
//! [`check_resource`] answers for a whole resource except for what needs more than the resource itself: whether the
//! ids it refers to exist, what its plugins say to their configurations, whether `vars` is an expression, and whether
//! certificates and keys are such and belong together.

mod callers;
mod definitions;
mod health;
mod lua;
pub mod parts;
mod resources;
mod route;
mod rules;
mod secret;
mod sets;
mod ssl;
mod static_files;
mod stream_route;
mod upstream;
mod validator;

pub use lua::refers_to_secret;
pub use resources::{check_resource, read_resource, schema, unknown_fields, validator};
pub use secret::secret_of;
pub use upstream::{hash_key, upstream};
pub use validator::{MISTAKES, Report, SCHEMA_DEPTH, VALUE_DEPTH, Validator};
