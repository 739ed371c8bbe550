//! The resources an operator configures, one file each, in APISIX's shapes.
//!
//! `Value` in, typed resource out: [`schema`] says whether a JSON value is acceptable and names every mistake by its
//! path; the structs here are what the rest of the program reads.

pub mod error;
pub mod id;
pub mod json_path;
pub mod kind;
pub mod pattern;
pub mod plugins;
pub mod resource;
pub mod schema;
pub mod var;

pub use error::ConfigError;
pub use id::Id;
pub use json_path::JsonPath;
pub use kind::Kind;
pub use plugins::PluginMap;
pub use resource::{
    Consumer, ConsumerGroup, Credential, GlobalRule, PluginConfig, Proto, Route, Service, Ssl, StreamRoute,
    Upstream,
};
