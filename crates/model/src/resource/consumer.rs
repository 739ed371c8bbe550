//! `consumers`: who calls, known by the credentials that auth plugins check.

use crate::{Id, PluginMap};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Who calls: known to auth plugins by a configuration of theirs, with plugins that run for this caller's requests.
#[derive(Debug, Clone, Deserialize)]
pub struct Consumer {
    /// The name, which is the id as well.
    pub username: String,
    /// The group whose plugins run too; the consumer's own take precedence.
    #[serde(default)]
    pub group_id: Option<Id>,
    /// Auth plugins hold what they know the consumer by; others run for the consumer's requests.
    #[serde(default)]
    pub plugins: PluginMap,
    /// Keys and values; `custom_id` is passed on in `X-Consumer-Custom-Id`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}
