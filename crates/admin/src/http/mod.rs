//! Requests and responses: the server, who may ask, and a request taken apart.

pub(crate) mod args;
pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod identity;
pub(crate) mod json;
pub(crate) mod manner;
pub(crate) mod origin;
pub(crate) mod request;
pub(crate) mod respond;
pub(crate) mod server;
pub(crate) mod serving;
pub(crate) mod target;
pub(crate) mod wire;
