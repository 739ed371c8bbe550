//! `consumers/{username}/credentials`: one more configuration of an auth plugin that a consumer is known by.

use crate::PluginMap;
use serde::Deserialize;

/// What one auth plugin knows a consumer by. Whose it is, and its id, stand in its key
/// ([`Kind::split_id`](crate::Kind::split_id)).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Credential {
    /// A name for people.
    pub name: Option<String>,
    /// At most one, and that an auth plugin.
    pub plugins: PluginMap,
}
