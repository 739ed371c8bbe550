//! A request for a resource, as the methods get it.

use crate::http::args::Args;
use crate::http::manner::Manner;
use crate::http::target::Target;
use serde_json::Value;
use std::time::Duration;

/// One request for a resource, taken apart.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// What the path names.
    pub target: Target<'a>,
    /// The body; `None` where there is none.
    pub body: Option<Value>,
    /// The query's arguments.
    pub args: &'a Args,
    /// `ttl` of the query.
    pub ttl: Option<Duration>,
    /// How the client wants to be answered.
    pub manner: Manner,
    /// Who asks, for the history.
    pub actor: Option<String>,
}
