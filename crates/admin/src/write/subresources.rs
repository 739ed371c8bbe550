//! Rules of what stands below another resource: credentials of a consumer, costs of a service's GraphQL fields.

use crate::http::identity::text_of;
use crate::http::target::Target;
use crate::read::stored;
use crate::{Admin, AdminResponse};
use model::Kind;
use serde_json::{Map, Value};
use store::{Entry, Op, StoreError};

/// Before it is checked: a cost belongs to the service in the path, which is there, and to a position of its own.
pub(crate) async fn bind(
    admin: &Admin,
    target: &Target<'_>,
    fields: &mut Map<String, Value>,
) -> Result<(), AdminResponse> {
    let (Kind::GraphqlCost, Some(service)) = (target.kind, target.parent) else { return Ok(()) };
    if fields.get("service_id").is_some_and(|id| text_of(id) != service) {
        return Err(AdminResponse::error(400, "wrong service_id, it is taken from the path"));
    }
    if stored::entry(admin, &Kind::Service.key(service)).await?.is_none() {
        return Err(AdminResponse::error(404, "service not found"));
    }
    check_position(admin, target, fields).await?;
    fields.insert("service_id".to_owned(), Value::from(service));
    Ok(())
}

/// Refuses a position that another cost of the service has.
pub(crate) async fn check_position(
    admin: &Admin,
    target: &Target<'_>,
    fields: &Map<String, Value>,
) -> Result<(), AdminResponse> {
    let Some(position) = fields.get("field_path").and_then(Value::as_str) else { return Ok(()) };
    let own = target.id.map(str::to_owned).or_else(|| fields.get("id").map(text_of));
    for entry in stored::entries(admin, target.kind, target.parent).await? {
        let id = own_id(&entry);
        let same = read(&entry).is_some_and(|other| other.get("field_path") == fields.get("field_path"));
        if same && Some(id) != own.as_deref() {
            let message = format!("field_path {position} is already decorated on this service by [{id}]");
            return Err(AdminResponse::error(400, message));
        }
    }
    Ok(())
}

/// Refuses a credential of nobody.
pub(crate) async fn check_parent(admin: &Admin, target: &Target<'_>) -> Result<(), AdminResponse> {
    let (Kind::Credential, Some(consumer)) = (target.kind, target.parent) else { return Ok(()) };
    match stored::entry(admin, &Kind::Consumer.key(consumer)).await? {
        Some(_) => Ok(()),
        None => Err(AdminResponse::error(404, "consumer not found")),
    }
}

/// The deletions of everything below a resource.
pub(crate) async fn deletions(admin: &Admin, kind: Kind, id: &str) -> Result<Vec<Op>, StoreError> {
    let mut deletions = Vec::new();
    for child in Kind::ALL.into_iter().filter(|child| child.parent() == Some(kind)) {
        let entries = stored::entries(admin, child, Some(id)).await?;
        deletions.extend(entries.into_iter().map(|entry| Op::Delete { key: entry.key.to_string() }));
    }
    Ok(deletions)
}

fn own_id(entry: &Entry) -> &str {
    entry.key.rsplit('/').next().unwrap_or_default()
}

fn read(entry: &Entry) -> Option<Map<String, Value>> {
    serde_json::from_slice(&entry.value).ok()
}
