//! `GET`: one resource, or a collection.

use crate::http::call::Call;
use crate::http::respond::Answer;
use crate::http::target::Target;
use crate::read::paging;
use crate::read::shape::{self, Item};
use crate::read::stored::{entries, entry};
use crate::{Admin, AdminResponse, ApiVersion};
use model::Kind;
use store::Entry;

pub(crate) async fn get(admin: &Admin, call: &Call<'_>) -> Answer {
    let target = call.target;
    let Some(id) = target.id else { return collection(admin, call).await };
    match entry(admin, &target.key_of(id)).await? {
        Some(entry) => Ok(AdminResponse::json(200, &shape::one(admin, shown(admin, target.kind, entry)))),
        None => Err(AdminResponse::key_not_found()),
    }
}

/// A resource as it is shown: plugins' secret fields in the clear, without the private keys of certificates.
fn shown(admin: &Admin, kind: Kind, entry: Entry) -> Item {
    let mut item = Item::from(entry);
    if let Some(fields) = item.value.as_object_mut() {
        admin.show(&item.key, fields);
        if kind == Kind::Ssl {
            fields.shift_remove("key");
            fields.shift_remove("keys");
        }
    }
    item
}

async fn collection(admin: &Admin, call: &Call<'_>) -> Answer {
    let Target { kind, parent, .. } = call.target;
    let entries = entries(admin, kind, parent).await?;
    let mut items: Vec<Item> = entries.into_iter().map(|entry| shown(admin, kind, entry)).collect();
    // Below another resource APISIX has nothing that stands for an empty collection.
    if items.is_empty() && kind.parent().is_some() {
        return Err(AdminResponse::key_not_found());
    }
    let mut total = items.len();
    if admin.settings.version == ApiVersion::V3 {
        paging::filter(&mut items, call.args, kind);
        total = items.len();
        paging::page(&mut items, call.args)?;
    }
    let key = match parent {
        Some(parent) if kind.parent().is_some() => {
            kind.key(&kind.id_below(parent, "")).trim_end_matches('/').to_owned()
        }
        _ => format!("/{}", kind.collection()),
    };
    Ok(AdminResponse::json(200, &shape::several(admin, &key, items, total)))
}
