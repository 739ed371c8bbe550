//! A whole configuration that no store has: whether it could be written into an empty one.

use crate::http::target::Target;
use crate::validate::resource::{Candidate, mistakes};
use crate::write::overlay::Overlay;
use crate::write::subresources;
use crate::{Admin, AdminSettings};
use balance::Algorithm;
use document::{Diagnostic, codes};
use model::{ConfigError, Kind};
use plugin::Registry;
use serde_json::{Map, Value};
use std::sync::Arc;
use store::Store;
use tokio::sync::watch;

/// A resource of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// The store key: `/routes/1`.
    pub key: String,
    /// The resource.
    pub fields: Map<String, Value>,
}

/// Checks every resource as the Admin API would, among all the others: what it refers to must exist. Returns the
/// diagnostics in the order of the resources, each with the key of its resource and a JSON pointer into it. Fields that
/// no schema knows are warnings. Runs on a tokio runtime.
pub async fn check_whole(registry: Arc<Registry>, resources: &[Resource]) -> Vec<Diagnostic> {
    let overlay = Arc::new(Overlay::new(None));
    for Resource { key, fields } in resources {
        let value = serde_json::to_vec(fields).unwrap_or_default();
        overlay.lay(key, Some(value.into()), None);
    }
    let settings = AdminSettings { streams: true, ..AdminSettings::default() };
    let (_, applied) = watch::channel(u64::MAX);
    let admin = Admin::new(overlay as Arc<dyn Store>, registry, settings, applied);
    let mut diagnostics = Vec::new();
    for Resource { key, fields } in resources {
        let mut add = |diagnostic: Diagnostic| diagnostics.push(diagnostic.resource(key));
        let Some(target) = Target::of_key(key) else {
            add(Diagnostic::error(codes::INVALID_ID, "this is not the key of a resource"));
            continue;
        };
        // An overlay does not fail.
        let candidate = Candidate { target, fields, others: true };
        let Ok((found, unknown)) = mistakes(&admin, candidate).await else { continue };
        found.into_diagnostics().for_each(&mut add);
        unknown_balancer(target.kind, fields).into_iter().for_each(&mut add);
        for path in unknown {
            add(Diagnostic::warning(codes::UNKNOWN_FIELD, "unknown field").path(path));
        }
        if subresources::check_parent(&admin, &target).await.is_err() {
            let message = "the consumer that this credential belongs to does not exist";
            add(Diagnostic::error(codes::MISSING_PARENT, message)
                .hint("add the consumer, or correct its name in the id"));
        }
    }
    diagnostics
}

/// The mistake of an upstream whose `type` is no balancer. The Admin API stores it, as APISIX does; no gateway can use it.
fn unknown_balancer(kind: Kind, fields: &Map<String, Value>) -> Option<Diagnostic> {
    let (upstream, prefix) = match kind {
        Kind::Upstream => (fields, ""),
        _ => (fields.get("upstream")?.as_object()?, "/upstream"),
    };
    let error: ConfigError = upstream.get("type")?.as_str()?.parse::<Algorithm>().err()?;
    Some(Diagnostic::error(codes::INVALID_RESOURCE, error.message).path(format!("{prefix}{}", error.path)))
}
