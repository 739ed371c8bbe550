//! Users that are no consumers.

use serde_json::Value;

/// What an identity provider says of the user behind a request: claims of a token, an entry of a directory. A plugin that
/// authenticates by such puts it among the exchange's [`crate::Extensions`] (APISIX's `ctx.external_user`).
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalUser(pub Value);
