//! What a user writes about entries.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The part of a logger's configuration that all loggers have.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Config {
    pub(super) log_format: Option<Map<String, Value>>,
    pub(super) log_format_extra: Option<Map<String, Value>>,
    #[serde(rename = "match")]
    pub(super) conditions: Option<Vec<Value>>,
    pub(super) include_req_body: bool,
    pub(super) include_req_body_expr: Option<Value>,
    pub(super) include_resp_body: bool,
    pub(super) include_resp_body_expr: Option<Value>,
    pub(super) max_req_body_bytes: usize,
    pub(super) max_resp_body_bytes: usize,
}
