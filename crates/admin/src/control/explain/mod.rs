//! `POST /v1/explain`: what this process would do with a request, and why. Nothing is sent and no plugin runs.
//!
//! Routes and plugins are those of the running snapshot; where each setting came from is looked up in the store.

mod probe;
mod sources;
mod upstream;

pub use probe::Setting;

use crate::AdminResponse;
use crate::control::Control;
use crate::http::respond::Answer;
use plugin::{Exchange, HeaderEdits};
use probe::{Probe, Question};
use router::{Condition, Considered, Explanation, Outcome};
use serde_json::{Map, Value, json};
use snapshot::{Route, Snapshot};
use sources::Sources;
use std::sync::Arc;

/// Routes that one answer names: more than a person reads, and few enough for one response.
const ROUTES_MAX: usize = 100;

/// Answers a question.
pub(super) async fn answer(control: &Control, body: &[u8]) -> Answer {
    let refuse = |message: String| AdminResponse::error(400, message);
    let no_room = |message: String| AdminResponse::error(503, message);
    let question = Question::parse(body).map_err(refuse)?;
    let setting = control.current().setting;
    let snapshot = control.published.current();
    let (chosen, with_vars) = {
        let probe = Probe::new(&question, setting).map_err(refuse)?;
        let mut fields = HeaderEdits::default();
        let exchange = probe.exchange(&snapshot, &mut fields).map_err(no_room)?;
        let chosen = snapshot.router.find(&exchange).map(|found| Arc::clone(found.payload));
        let explanation = snapshot.router.explain(&exchange, ROUTES_MAX);
        let failed_vars =
            |one: &Considered<'_, _>| matches!(one.outcome, Outcome::Failed(Condition::Vars(_)));
        let failed = explanation.considered.iter().filter(|one| failed_vars(one));
        (chosen, failed.map(|one| one.id.to_owned()).collect::<Vec<_>>())
    };
    let mut sources = Sources::read(control, chosen.as_deref(), question.consumer.as_deref()).await?;
    sources.read_vars(control, &with_vars).await?;
    // Made again: an exchange belongs to one thread, and what was read in between may have changed it.
    let probe = Probe::new(&question, setting).map_err(refuse)?;
    let mut fields = HeaderEdits::default();
    let exchange = probe.exchange(&snapshot, &mut fields).map_err(no_room)?;
    tell(&snapshot, exchange, chosen.as_deref(), &sources, question.consumer.as_deref())
}

fn tell<'a>(
    snapshot: &'a Snapshot,
    mut exchange: Exchange<'a>,
    chosen: Option<&Route>,
    sources: &Sources,
    consumer: Option<&str>,
) -> Answer {
    let explanation = snapshot.router.explain(&exchange, ROUTES_MAX);
    let winner = explanation.considered.iter().find(|one| one.outcome == Outcome::Chosen);
    if let Some(name) = consumer
        && snapshot.consumers.named(name).is_none()
    {
        return Err(AdminResponse::error(400, format!("there is no consumer {name}")));
    }
    let mut told = Map::new();
    told.insert("revision".to_owned(), snapshot.revision.into());
    told.insert("uri".to_owned(), text(&exchange.request.path));
    let route = winner.map(|winner| {
        json!({
            "id": winner.id,
            "name": winner.payload.info.name,
            "service_id": winner.payload.info.service_id,
            "uri": winner.path,
            "host": winner.host,
            "priority": winner.priority,
        })
    });
    told.insert("route".to_owned(), route.unwrap_or_default());
    told.insert("considered".to_owned(), considered(&explanation, sources));
    told.insert("omitted".to_owned(), explanation.omitted.into());
    if let Some(winner) = winner {
        exchange.route = Some(&winner.payload.info);
        exchange.matched_uri = winner.path.unwrap_or_default();
        exchange.matched_host = winner.host.unwrap_or_default();
    }
    if let Some(name) = consumer {
        exchange.attach_anonymous(name);
    }
    let plugins = sources.plugins(snapshot, &mut exchange, chosen);
    told.insert("plugins".to_owned(), plugins);
    let (status, upstream) = match chosen {
        None => (Some(404), Value::Null),
        Some(route) => match route.refusal() {
            Some(status) => (Some(status), Value::Null),
            None => match &route.upstream {
                Some(chosen) => (None, upstream::tell(&chosen.latest(), &exchange, &sources.upstream())),
                None => (Some(route.status_without_upstream()), Value::Null),
            },
        },
    };
    told.insert("upstream".to_owned(), upstream);
    // What the gateway itself answers, unless a plugin does before.
    told.insert("status".to_owned(), status.map_or(Value::Null, Value::from));
    if let Some(broken) = chosen.and_then(|route| route.broken.as_ref()) {
        told.insert("broken".to_owned(), broken.to_string().into());
    }
    Ok(AdminResponse::json(200, &Value::Object(told)))
}

fn considered(explanation: &Explanation<'_, Arc<Route>>, sources: &Sources) -> Value {
    explanation.considered.iter().map(|one| considered_one(one, sources)).collect()
}

fn considered_one(one: &Considered<'_, Arc<Route>>, sources: &Sources) -> Value {
    let mut told = json!({
        "id": one.id,
        "name": one.payload.info.name,
        "uri": one.path,
        "host": one.host,
        "priority": one.priority,
    });
    match one.outcome {
        Outcome::Chosen => told["outcome"] = "chosen".into(),
        Outcome::Beaten(by) => {
            told["outcome"] = "beaten".into();
            told["by"] = by.as_str().into();
        }
        Outcome::Failed(condition) => {
            told["outcome"] = "failed".into();
            told["condition"] = condition.as_str().into();
            if let Condition::Vars(at) = condition {
                told["rule"] = sources.rule(one.id, at);
            }
        }
    }
    told
}

fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into()
}
