//! `PUT /plugins/reload`: reads the configuration file and the plugins' code again.

use crate::AdminResponse;
use crate::http::respond::Answer;
use plugin::{Registry, Reloads};

/// Orders the reload and waits for its outcome. What is wrong with a file or a plugin is a 400.
pub(crate) async fn plugins(registry: &Registry) -> Answer {
    let reloads = registry.shared.get::<Reloads>();
    reloads
        .order()
        .await
        .map(|()| AdminResponse::text(200, "done"))
        .map_err(|why| AdminResponse::error(400, why))
}
