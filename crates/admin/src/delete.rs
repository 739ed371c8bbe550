//! `DELETE`: one resource, unless another one still refers to it; with `force=true` even then.

use crate::dispatch::Call;
use crate::respond::Answer;
use crate::write::Held;
use crate::{Admin, AdminResponse, references, shape};
use store::StoreError;

/// Deletes the resource at the id.
pub(crate) async fn delete(admin: &Admin, call: &Call<'_>) -> Answer {
    let Some(id) = call.id else {
        return Err(AdminResponse::error(400, format!("missing {} id", call.kind.noun())));
    };
    let key = call.kind.key(id);
    let held = Held::for_delete(admin).await;
    if call.args.get("force") != Some("true") {
        references::check_unused(admin, call.kind, id).await?;
    }
    let committed = match admin.store.delete(&key, call.actor.as_deref()).await {
        // What can be no key isn't there either.
        Err(StoreError::Invalid(_)) => return Err(AdminResponse::key_not_found()),
        committed => committed?,
    };
    drop(held);
    if committed.applied.iter().all(|applied| applied.previous.is_none()) {
        return Err(AdminResponse::key_not_found());
    }
    admin.wait_applied(committed.revision).await;
    Ok(AdminResponse::json(200, &shape::deleted(admin, &key)))
}
