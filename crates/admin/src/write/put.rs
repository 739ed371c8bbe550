//! `PUT` and `POST`: whole resources.

use crate::http::call::Call;
use crate::http::identity;
use crate::http::respond::Answer;
use crate::http::target::Target;
use crate::read::{shape, stored};
use crate::validate::resource::{Candidate, check};
use crate::write::commit::{Held, set_times, store, writing};
use crate::write::subresources;
use crate::{Admin, AdminResponse};
use model::Kind;
use serde_json::{Map, Value};
use store::Txn;

/// Creates or replaces the resource at the id: 201 or 200.
pub(crate) async fn put(admin: &Admin, call: Call<'_>) -> Answer {
    let target = call.target;
    let kind = target.kind;
    let mut fields = identity::resource(call.body)?;
    let held = Held::for_write(admin, kind).await;
    subresources::bind(admin, &target, &mut fields).await?;
    let id = identity::needed(&target, &mut fields)?;
    identity::forbid_times(&fields)?;
    let own = if kind == Kind::Consumer { target.id } else { Some(id.as_str()) };
    let target = Target { id: own, ..target };
    let key = target.key_of(&id);
    admin.accept(&key, &mut fields);
    let unknown = check(admin, Candidate { target, fields: &fields, others: true }, call.manner).await?;
    subresources::check_parent(admin, &target).await?;
    let mut txn = Txn { actor: call.actor, ..Txn::default() };
    if kind == Kind::PluginMetadata {
        fields.insert("id".to_owned(), Value::from(id));
    } else {
        let previous = stored::entry(admin, &key).await?;
        if previous.is_none() {
            // What an earlier resource of that id left below it is not the new one's.
            txn.then = subresources::deletions(admin, kind, &id).await?;
        }
        let created =
            previous.and_then(|entry| serde_json::from_slice::<Times>(&entry.value).ok()?.create_time);
        set_times(&mut fields, created, false);
    }
    admin.seal(&key, &mut fields);
    txn.then.insert(0, writing(&key, &fields, call.ttl));
    let committed = store(admin, txn).await?;
    drop(held);
    let existed = committed.applied.first().is_some_and(|applied| applied.previous.is_some());
    admin.wait_applied(committed.revision).await;
    admin.show_written(&key, &mut fields);
    let body = shape::written(admin, "set", &key, fields);
    Ok(AdminResponse::json(if existed { 200 } else { 201 }, &body).warned(&unknown))
}

/// Creates a resource under a generated id.
pub(crate) async fn post(admin: &Admin, call: Call<'_>) -> Answer {
    let target = call.target;
    let mut fields = identity::resource(call.body)?;
    let held = Held::for_write(admin, target.kind).await;
    subresources::bind(admin, &target, &mut fields).await?;
    identity::unneeded(&target, &fields)?;
    identity::forbid_times(&fields)?;
    let any = target.key_of(&generated(0));
    admin.accept(&any, &mut fields);
    let unknown = check(admin, Candidate { target, fields: &fields, others: true }, call.manner).await?;
    set_times(&mut fields, None, false);
    admin.seal(&any, &mut fields);
    // What the store would refuse is refused before an id is drawn, with one as long as the real one.
    fields.insert("id".to_owned(), Value::from(generated(0)));
    let txn = |key: &str, fields: &Map<String, Value>| Txn {
        then: vec![writing(key, fields, call.ttl)],
        actor: call.actor.clone(),
        ..Txn::default()
    };
    txn(&any, &fields).check()?;
    // As in APISIX, and so that both can share one etcd: a revision of its own is an id that nothing else has.
    let drawn = admin.store.put("/gen_id", b"1".as_slice().into(), call.actor.as_deref()).await?;
    let id = generated(drawn.revision);
    let key = target.key_of(&id);
    fields.insert("id".to_owned(), Value::from(id));
    let committed = store(admin, txn(&key, &fields)).await?;
    drop(held);
    admin.wait_applied(committed.revision).await;
    let body = shape::written(admin, "create", &key, fields);
    Ok(AdminResponse::json(201, &body).warned(&unknown))
}

#[derive(serde::Deserialize)]
struct Times {
    create_time: Option<Value>,
}

/// An id as APISIX makes it: digits that sort as the revision does.
fn generated(revision: u64) -> String {
    format!("{revision:020}")
}
