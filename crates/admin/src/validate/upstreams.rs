//! Whether an upstream can be used: what its schema can't say, such as times that no clock counts. APISIX stores such
//! ones; here they would be acknowledged and stay without effect.
//!
//! As in APISIX `type` may be anything. Certificates have checks of their own.

use crate::validate::mistakes::Mistakes;
use model::{ConfigError, Kind};
use serde_json::{Map, Value};
use snapshot::{Timeouts, Upstream};

/// Checks the upstream in a resource whose schema holds, and the timeouts of a route.
pub(crate) fn check(kind: Kind, fields: &Map<String, Value>, found: &mut Mistakes) {
    let (upstream, place) = match kind {
        Kind::Upstream => (Some(Value::Object(fields.clone())), ""),
        _ => (fields.get("upstream").cloned(), "/upstream"),
    };
    let mut errors: Vec<ConfigError> = Vec::new();
    if let Some(Ok(written)) = upstream.map(serde_json::from_value::<model::Upstream>) {
        let compiled = Upstream::compile(&model::Upstream { tls: None, ..written });
        let refused = compiled.err().into_iter().flatten().filter(|error| error.path != "/type");
        errors.extend(refused.map(|error| error.under(place)));
    }
    if let (Kind::Route, Some(timeout)) = (kind, fields.get("timeout")) {
        let compiled = serde_json::from_value(timeout.clone()).map(Timeouts::compile);
        let refused = compiled.ok().and_then(Result::err).into_iter().flatten();
        errors.extend(refused.map(|error| error.under("/timeout")));
    }
    if let Some(first) = errors.first() {
        found.push_as(format!("{}: {}", first.path, first.message), errors);
    }
}
