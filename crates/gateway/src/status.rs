//! `/status` and `/status/ready`: whether the process lives, and whether every worker has its configuration.
//!
//! Bodies and codes are APISIX's (`apisix/init.lua`); as there, a path below one of the two gets the same answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use store::{Facts, Health, Rejection};
use tokio::sync::watch;

/// Which workers have received configuration. Clones look at the same workers.
#[derive(Debug, Clone)]
pub struct Readiness {
    workers: Arc<[AtomicBool]>,
    centre: Option<watch::Receiver<Health>>,
}

impl Readiness {
    /// So many workers, none of them ready.
    pub fn new(workers: usize) -> Self {
        Self { workers: (0..workers).map(|_| AtomicBool::new(false)).collect(), centre: None }
    }

    /// The same with a centre that the configuration comes from.
    #[must_use]
    pub fn with_centre(self, centre: Option<watch::Receiver<Health>>) -> Self {
        Self { centre, ..self }
    }

    /// What is to be said of the centre; `None` where it is followed as it should be.
    fn centre(&self) -> Option<serde_json::Value> {
        match &*self.centre.as_ref()?.borrow() {
            Health::Following | Health::Starting(None) => None,
            Health::Starting(Some(reason)) => Some(json!({ "state": "starting", "reason": reason })),
            Health::Lost { since_unix_ms, reason } => {
                Some(json!({ "state": "lost", "since_unix_ms": since_unix_ms, "reason": reason }))
            }
            Health::Rejected(rejection) => Some(rejected(rejection)),
            Health::Detached { since_unix_ms, reason } => {
                Some(json!({ "state": "detached", "since_unix_ms": since_unix_ms, "reason": reason }))
            }
            Health::Stale { saved_unix_ms, revision, reason } => Some(json!({
                "state": "stale", "saved_unix_ms": saved_unix_ms, "revision": revision, "reason": reason,
            })),
        }
    }

    /// Worker `index`, counted from 0, has received configuration. An index beyond the workers is ignored.
    pub fn mark(&self, index: usize) {
        if let Some(worker) = self.workers.get(index) {
            worker.store(true, Ordering::Release);
        }
    }

    /// The first worker that has none yet.
    pub fn waiting(&self) -> Option<usize> {
        self.workers.iter().position(|worker| !worker.load(Ordering::Acquire))
    }
}

/// A rejected source doesn't make the node unready: all nodes see it at once, and a load balancer would be left with none.
fn rejected(rejection: &Rejection) -> serde_json::Value {
    json!({
        "state": "rejected",
        "since_unix_ms": rejection.since_unix_ms,
        "reason": rejection.reason,
        "serving": facts(&rejection.serving),
        "found": facts(&rejection.found),
        "hint": "restore the config source, or accept its contents with `tidegate config accept`",
    })
}

fn facts(facts: &Facts) -> serde_json::Value {
    json!({ "revision": facts.revision, "resources": facts.resources })
}

/// The status and the JSON body of a request for `path`.
pub fn answer(path: &str, readiness: &Readiness) -> (u16, String) {
    let body = |error: &str| serde_json::json!({ "status": "error", "error": error }).to_string();
    let ready = match path {
        path if path.starts_with("/status/ready") => readiness.waiting(),
        path if path.starts_with("/status") => None,
        _ => return (404, body("only /status and /status/ready are here")),
    };
    match ready {
        // A node without its centre serves what it has; whoever asks is told.
        None => match readiness.centre().filter(|_| path.starts_with("/status/ready")) {
            None => (200, r#"{"status":"ok"}"#.to_owned()),
            Some(centre) => (200, json!({ "status": "ok", "config_center": centre }).to_string()),
        },
        Some(worker) => (503, body(&format!("worker id: {worker} has not received configuration"))),
    }
}

/// The status server.
pub fn server(readiness: Readiness) -> Router {
    Router::new().fallback(move |uri: Uri| std::future::ready(response(&uri, &readiness)))
}

fn response(uri: &Uri, readiness: &Readiness) -> Response {
    let (status, body) = answer(uri.path(), readiness);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_source_is_named_and_the_node_stays_ready() {
        let rejection = Rejection {
            since_unix_ms: 1,
            reason: "it is empty".to_owned(),
            serving: Facts { cluster: 1, revision: 9, resources: 3 },
            found: Facts { cluster: 1, revision: 1, resources: 0 },
            reachable: true,
        };
        let (_health, centre) = watch::channel(Health::Rejected(rejection));
        let readiness = Readiness::new(0).with_centre(Some(centre));
        let (status, body) = answer("/status/ready", &readiness);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (status, &body["status"], &body["config_center"]["state"]),
            (200, &json!("ok"), &json!("rejected"))
        );
        assert_eq!(body["config_center"]["serving"]["resources"], 3);
        assert_eq!(answer("/status", &readiness).1, r#"{"status":"ok"}"#);
    }

    #[test]
    fn readiness_waits_for_every_worker() {
        let readiness = Readiness::new(2);
        let ok = (200, r#"{"status":"ok"}"#.to_owned());
        let waits = |worker: usize| {
            (
                503,
                format!(
                    r#"{{"status":"error","error":"worker id: {worker} has not received configuration"}}"#
                ),
            )
        };
        assert_eq!(answer("/status", &readiness), ok);
        assert_eq!(answer("/status/ready", &readiness), waits(0));
        readiness.mark(0);
        assert_eq!(answer("/status/ready", &readiness), waits(1));
        readiness.mark(1);
        readiness.mark(7);
        assert_eq!(answer("/status/ready", &readiness), ok);
        assert_eq!(answer("/", &readiness).0, 404);
    }
}
