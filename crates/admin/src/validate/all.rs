//! A whole configuration that no store has: whether it could be written into an empty one.

use crate::http::target::Target;
use crate::validate::resource::{Candidate, mistakes};
use crate::write::overlay::Overlay;
use crate::write::subresources;
use crate::{Admin, AdminSettings};
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

/// What is wrong with a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The index of the resource.
    pub index: usize,
    /// A JSON pointer into it.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// Whether it is a mistake, rather than a field that nobody knows.
    pub refused: bool,
}

/// Checks every resource as the Admin API would, among all the others: what it refers to must be there as well.
/// Runs on a tokio runtime.
pub async fn check_whole(registry: Arc<Registry>, resources: &[Resource]) -> Vec<Fault> {
    let overlay = Arc::new(Overlay::new(None));
    for Resource { key, fields } in resources {
        let value = serde_json::to_vec(fields).unwrap_or_default();
        overlay.lay(key, Some(value.into()), None);
    }
    let settings = AdminSettings { streams: true, ..AdminSettings::default() };
    let (_, applied) = watch::channel(u64::MAX);
    let admin = Admin::new(overlay as Arc<dyn Store>, registry, settings, applied);
    let mut faults = Vec::new();
    for (index, Resource { key, fields }) in resources.iter().enumerate() {
        let fault = |path: String, message: String, refused| Fault { index, path, message, refused };
        let Some(target) = Target::of_key(key) else {
            faults.push(fault(String::new(), format!("{key} is no resource's key"), true));
            continue;
        };
        // An overlay does not fail.
        let candidate = Candidate { target, fields, others: true };
        let Ok((found, unknown)) = mistakes(&admin, candidate).await else { continue };
        let errors = found.errors().iter();
        faults.extend(errors.map(|error| fault(error.path.clone(), error.message.clone(), true)));
        if found.any() && found.errors().is_empty() {
            faults.push(fault(String::new(), found.line().to_owned(), true));
        }
        faults.extend(unknown.into_iter().map(|path| fault(path, "unknown field".to_owned(), false)));
        if subresources::check_parent(&admin, &target).await.is_err() {
            faults.push(fault(
                String::new(),
                "the consumer that it belongs to is not there".to_owned(),
                true,
            ));
        }
    }
    faults
}
