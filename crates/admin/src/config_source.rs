//! `GET /config_source` and `POST /config_source/accept`: what the store that the configuration comes from is judged to
//! be, and an operator's decision to follow it although it was emptied, restored or replaced.

use crate::http::args::Args;
use crate::http::respond::Answer;
use crate::{Admin, AdminRequest, AdminResponse};
use serde_json::{Value, json};
use std::sync::Arc;
use store::{Cached, Facts, Health};

fn source(admin: &Admin) -> Result<&Arc<Cached>, AdminResponse> {
    admin.source.as_ref().ok_or_else(|| {
        AdminResponse::error(404, "this gateway keeps its configuration itself: it has no config source")
    })
}

/// Answers a request for `path` below `/config_source`.
pub(crate) async fn answer(
    admin: &Admin,
    request: &AdminRequest,
    path: &[&str],
    args: &Args,
    actor: Option<String>,
) -> Answer {
    match (request.method.as_str(), path) {
        ("GET", []) => state(admin),
        ("POST", ["accept"]) => accept(admin, args, actor).await,
        (method, _) => Err(AdminResponse::not_offered(method)),
    }
}

/// Answers how the config source is.
fn state(admin: &Admin) -> Answer {
    let health = source(admin)?.health().borrow().clone();
    Ok(AdminResponse::json(200, &describe(&health)))
}

fn describe(health: &Health) -> Value {
    match health {
        Health::Starting(reason) => json!({ "state": "starting", "reason": reason }),
        Health::Following => json!({ "state": "following" }),
        Health::Lost { since_unix_ms, reason } => {
            json!({ "state": "lost", "since_unix_ms": since_unix_ms, "reason": reason })
        }
        Health::Stale { saved_unix_ms, revision, reason } => json!({
            "state": "stale", "saved_unix_ms": saved_unix_ms, "revision": revision, "reason": reason,
        }),
        Health::Detached { since_unix_ms, reason } => {
            json!({ "state": "detached", "since_unix_ms": since_unix_ms, "reason": reason })
        }
        Health::Rejected(rejection) => json!({
            "state": "rejected",
            "since_unix_ms": rejection.since_unix_ms,
            "reason": rejection.reason,
            "serving": facts(&rejection.serving),
            "found": facts(&rejection.found),
        }),
    }
}

fn facts(facts: &Facts) -> Value {
    let cluster = format!("{:016x}", facts.cluster);
    json!({ "cluster_id": cluster, "revision": facts.revision, "resources": facts.resources })
}

/// Accepts what the source holds: `?revision=N` only if that is still what it holds.
async fn accept(admin: &Admin, args: &Args, actor: Option<String>) -> Answer {
    let source = source(admin)?;
    let seen = match args.get("revision").map(str::parse) {
        Some(Err(_)) => return Err(AdminResponse::error(400, "revision: a number is expected")),
        Some(Ok(revision)) => Some(revision),
        None => None,
    };
    let mut applied = admin.applied.clone();
    let accepted = match source.accept(actor, seen).await {
        Err(error @ store::StoreError::Invalid(_)) => {
            return Err(AdminResponse::error(409, error.to_string()));
        }
        accepted => accepted?,
    };
    // The revision moves in either direction. An equal one can't be waited for, and is soon there.
    let before = accepted.before.revision;
    let moved = applied.wait_for(|applied| *applied != before);
    if tokio::time::timeout(admin.settings.apply_wait, moved).await.is_err() {
        tracing::warn!("answered an acceptance that the workers have not taken yet");
    }
    Ok(AdminResponse::json(
        200,
        &json!({
            "before": facts(&accepted.before),
            "now": facts(&accepted.now),
            "shared": accepted.not_shared.is_none(),
            "error": accepted.not_shared,
        }),
    ))
}
