//! `DELETE`: one resource and what stands below it, unless another one still refers to it; with `force=true` even then.

use crate::http::call::Call;
use crate::http::respond::Answer;
use crate::read::shape;
use crate::validate::references;
use crate::write::commit::{Held, store};
use crate::write::subresources;
use crate::{Admin, AdminResponse};
use store::{Op, StoreError, Txn};

/// Deletes the resource at the id.
pub(crate) async fn delete(admin: &Admin, call: &Call<'_>) -> Answer {
    let target = call.target;
    let key = target.key()?;
    let id = target.id.unwrap_or_default();
    let held = Held::alone(admin).await;
    if call.args.get("force") != Some("true") {
        references::check_unused(admin, target.kind, id).await?;
    }
    let mut then = vec![Op::Delete { key: key.clone() }];
    then.extend(subresources::deletions(admin, target.kind, id).await?);
    let committed = match store(admin, Txn { then, when: Vec::new(), actor: call.actor.clone() }).await {
        // What can be no key isn't there either.
        Err(StoreError::Invalid(_)) => return Err(AdminResponse::key_not_found()),
        committed => committed?,
    };
    drop(held);
    if committed.applied.first().is_none_or(|applied| applied.previous.is_none()) {
        return Err(AdminResponse::key_not_found());
    }
    admin.wait_applied(committed.revision).await;
    Ok(AdminResponse::json(200, &shape::deleted(admin, &key)))
}
