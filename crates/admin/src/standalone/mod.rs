//! The standalone Admin API: the whole configuration as one document, `PUT /apisix/admin/configs`.
//!
//! Differences from APISIX: the document is on disk before the answer leaves, so it survives a restart; what it says is
//! put in force as a whole.

mod document;
mod file;

pub use file::Standalone;

use crate::http::respond::Answer;
use crate::validate::configs;
use crate::{Admin, AdminRequest, AdminResponse};
use document::{DIGEST, LAST_MODIFIED, advance, empty};
use file::keep;
use serde_json::{Map, Value};
use store::file::Document;
use store::{Clock, SystemClock};

impl Standalone {
    async fn put(&self, admin: &Admin, request: &AdminRequest) -> Answer {
        let refuse = |message: String| AdminResponse::error(400, message);
        let digest = request.header(DIGEST).ok_or_else(|| refuse("missing digest header".to_owned()))?;
        let asked = configs::read(admin, request)?;
        let mut held = self.document.lock().await;
        if held.as_ref().is_some_and(|held| held.get(DIGEST).and_then(Value::as_str) == Some(digest)) {
            return Ok(AdminResponse::empty(204));
        }
        document::check_versions(&asked).map_err(refuse)?;
        if let Some(first) = configs::errors(admin, &asked).await?.first() {
            let message = first.get("error").and_then(Value::as_str).unwrap_or("invalid configuration");
            return Err(refuse(message.to_owned()));
        }
        let mut next = advance(held.as_ref(), asked).map_err(refuse)?;
        next.insert(LAST_MODIFIED.to_owned(), (SystemClock.unix_ms() / 1000).into());
        next.insert(DIGEST.to_owned(), digest.into());
        let taken = Document::of_value(next.clone());
        let (path, text) = (self.path.clone(), Value::Object(next.clone()).to_string());
        let kept = tokio::task::spawn_blocking(move || keep(&path, text.as_bytes())).await;
        if !matches!(kept, Ok(Ok(()))) {
            let why = kept.map_or_else(|error| error.to_string(), |kept| format!("{kept:?}"));
            tracing::error!(path = %self.path.display(), "the configuration can't be kept: {why}");
            return Err(AdminResponse::error(503, format!("the configuration can't be kept: {why}")));
        }
        let revision = self.memory.replace(taken.entries, None).await?;
        let answer = marked(AdminResponse::empty(202), Some(&next));
        *held = Some(next);
        drop(held);
        admin.wait_applied(revision).await;
        Ok(answer)
    }

    async fn get(&self, request: &AdminRequest) -> Answer {
        let held = self.document.lock().await.clone();
        let body = Value::Object(held.clone().unwrap_or_else(empty));
        let wants_yaml = request.header("accept").is_some_and(|kind| kind.starts_with("application/yaml"));
        let answer = if wants_yaml {
            let text = serde_saphyr::to_string(&body)
                .map_err(|_| AdminResponse::error(500, "failed to encode yaml"))?;
            AdminResponse::text(200, &text).with("Content-Type", "application/yaml")
        } else {
            AdminResponse::json(200, &body)
        };
        Ok(marked(answer, held.as_ref()))
    }
}

/// Answers what stands in for the resources; `None` for what is as it is elsewhere.
pub(crate) async fn route(
    admin: &Admin,
    standalone: &Standalone,
    request: &AdminRequest,
    rest: &[&str],
) -> Option<Answer> {
    match (request.method.as_str(), rest) {
        ("PUT", ["configs"]) => Some(standalone.put(admin, request).await),
        ("GET", ["configs"]) => Some(standalone.get(request).await),
        ("HEAD", ["configs"]) => {
            let held = standalone.document.lock().await;
            Some(Ok(marked(AdminResponse::empty(200), held.as_ref())))
        }
        ("POST", ["configs", "validate"]) | (_, ["plugins" | "schema", ..]) => None,
        _ => Some(Err(AdminResponse::error(404, "404 Route Not Found"))),
    }
}

/// The same with what tells one document from another.
fn marked(mut answer: AdminResponse, document: Option<&Map<String, Value>>) -> AdminResponse {
    for name in [LAST_MODIFIED, DIGEST] {
        answer = match document.and_then(|document| document.get(name)) {
            Some(Value::String(value)) => answer.with(name, value.clone()),
            Some(value) => answer.with(name, value.to_string()),
            None => answer,
        };
    }
    answer
}
