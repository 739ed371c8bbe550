//! Operations laid over the store one after the other, then checked together.

use super::faults::{Faults, conflict};
use super::operation::{Action, Operation};
use crate::http::identity::{self, text_of};
use crate::http::manner::Manner;
use crate::http::target::Target;
use crate::read::diff::{Sides, changes};
use crate::read::stored;
use crate::validate::references;
use crate::validate::resource::{Candidate, mistakes};
use crate::write::commit::{set_times, writing};
use crate::write::overlay::Overlay;
use crate::write::{merge, subresources};
use crate::{Admin, AdminResponse};
use model::Kind;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::Arc;
use store::{Entry, Op, Precondition, Store, StoreError};

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was not there.
    Created,
    /// It was something else.
    Updated,
    /// It is that already.
    Unchanged,
    /// It is gone.
    Deleted,
}

/// One key of a transaction.
#[derive(Debug)]
pub(crate) struct Write {
    /// The place of its operation in the body.
    place: String,
    /// The store key.
    pub key: String,
    /// `put`, `patch`, `delete`.
    pub verb: &'static str,
    /// What becomes of it.
    pub outcome: Outcome,
    /// The revision that wrote it before; 0 where it was not there.
    pub previous: u64,
    before: Option<Arc<[u8]>>,
    after: Option<Arc<[u8]>>,
    /// The resource in the clear, to be checked; `None` for deletions, and for what is restored unseen.
    fields: Option<Map<String, Value>>,
    /// For deletions: even where others refer to it.
    force: bool,
}

/// A transaction that may be committed.
#[derive(Debug)]
pub(crate) struct Staged {
    /// Its operations in their order.
    pub writes: Vec<Write>,
    /// Each precondition with the place that asked for it.
    pub when: Vec<(String, Precondition)>,
    /// What the store is to do.
    pub then: Vec<Op>,
    /// Fields that nobody knows.
    pub unknown: Vec<String>,
}

/// A transaction in the making.
pub(crate) struct Stage<'a> {
    admin: &'a Admin,
    /// The Admin API over the state as it will be.
    ahead: Admin,
    overlay: Arc<Overlay>,
    manner: Manner,
    skip_unchanged: bool,
    /// The keys that `staged.then` names.
    touched: HashSet<String>,
    staged: Staged,
}

impl Outcome {
    /// The name in answers.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Deleted => "deleted",
        }
    }
}

impl Write {
    /// What changes, by JSON pointer, secrets masked.
    pub(crate) fn changes(&self, admin: &Admin) -> Vec<Value> {
        if matches!(self.outcome, Outcome::Unchanged | Outcome::Deleted) {
            return Vec::new();
        }
        let sides =
            |value: &Option<Arc<[u8]>>| value.as_ref().map(|value| Sides::of(admin, &self.key, value));
        changes(sides(&self.before).as_ref(), sides(&self.after).as_ref())
    }
}

impl<'a> Stage<'a> {
    /// Nothing is staged yet. The caller holds [`Admin::references`] alone.
    pub(crate) fn over(admin: &'a Admin, manner: Manner, skip_unchanged: bool) -> Self {
        let overlay = Arc::new(Overlay::new(Some(Arc::clone(&admin.store))));
        let ahead = admin.seeing(Arc::clone(&overlay) as Arc<dyn Store>);
        let staged = Staged { writes: Vec::new(), when: Vec::new(), then: Vec::new(), unknown: Vec::new() };
        Self { admin, ahead, overlay, manner, skip_unchanged, touched: HashSet::new(), staged }
    }

    /// Refuses unless each key was last written by that revision.
    pub(crate) async fn require(&mut self, preconditions: &[(String, u64)]) -> Result<(), AdminResponse> {
        for (at, (key, equals)) in preconditions.iter().enumerate() {
            let current = stored::entry(self.admin, key).await?;
            self.expect(format!("/preconditions/{at}"), key, *equals, current.as_ref())?;
        }
        Ok(())
    }

    fn expect(
        &mut self,
        place: String,
        key: &str,
        equals: u64,
        current: Option<&Entry>,
    ) -> Result<(), AdminResponse> {
        let found = current.map_or(0, |entry| entry.mod_revision);
        if found != equals {
            return Err(conflict(self.admin, &place, key, found));
        }
        self.staged.when.push((place, Precondition::ModRevision { key: key.to_owned(), equals }));
        Ok(())
    }

    /// Lays one operation over the state. What is wrong with it goes to `faults`.
    pub(crate) async fn lay(
        &mut self,
        at: usize,
        operation: Operation,
        faults: &mut Faults,
    ) -> Result<(), AdminResponse> {
        let place = format!("/operations/{at}");
        let current = stored::entry(self.admin, &operation.key).await?;
        // What a patch was made from must be what it changes, whoever else writes.
        let implied = matches!(operation.action, Action::Patch(_)).then_some(current.as_ref());
        let expected = operation.expected.or(implied.flatten().map(|entry| entry.mod_revision));
        if let Some(expected) = expected {
            self.expect(place.clone(), &operation.key, expected, current.as_ref())?;
        }
        let verb = operation.verb();
        let Operation { key, action, ttl, .. } = operation;
        let Some(target) = Target::of_key(&key) else { return Ok(()) };
        let previous = current.as_ref().map_or(0, |entry| entry.mod_revision);
        let before = current.as_ref().map(|entry| Arc::clone(&entry.value));
        let mut write = Write {
            place,
            key: key.clone(),
            verb,
            outcome: if current.is_some() { Outcome::Updated } else { Outcome::Created },
            previous,
            before,
            after: None,
            fields: None,
            force: false,
        };
        let made = match action {
            Action::Delete { force } => {
                write.force = force;
                return self.delete(write, &target, current.as_ref(), faults).await;
            }
            Action::Put(value) => self.put(&target, value, current.as_ref()).await,
            Action::Patch(value) => self.patch(&target, value, current.as_ref()),
        };
        let fields = match made {
            Ok(fields) => fields,
            Err(refusal) => {
                faults.push(format!("{}/value", write.place), words(&refusal));
                return Ok(());
            }
        };
        let kept = current.as_ref().filter(|entry| entry.expires_at_ms.is_none() && ttl.is_none());
        if self.skip_unchanged && kept.is_some_and(|entry| self.is_same(entry, &fields)) {
            write.outcome = Outcome::Unchanged;
            // It stands, so what else the transaction does must fit it.
            write.fields = Some(fields);
            self.staged.writes.push(write);
            return Ok(());
        }
        let mut stored = fields.clone();
        self.admin.seal(&key, &mut stored);
        let op = writing(&key, &stored, ttl);
        if let Op::Put { value, .. } = &op {
            write.after = Some(Arc::clone(value));
        }
        self.overlay.lay(&key, write.after.clone(), current.as_ref());
        if !self.touched.insert(key.clone()) {
            // It went with what it stood below.
            self.staged.then.retain(|op| op.key() != key);
        }
        self.staged.then.push(op);
        write.fields = Some(fields);
        self.staged.writes.push(write);
        Ok(())
    }

    async fn put(
        &self,
        target: &Target<'_>,
        value: Value,
        current: Option<&Entry>,
    ) -> Result<Map<String, Value>, AdminResponse> {
        let mut fields = identity::resource(Some(value))?;
        if let (Kind::GraphqlCost, Some(service)) = (target.kind, target.parent) {
            if fields.get("service_id").is_some_and(|id| text_of(id) != service) {
                return Err(AdminResponse::error(400, "wrong service_id, it is taken from the path"));
            }
            fields.insert("service_id".to_owned(), Value::from(service));
        }
        let id = identity::needed(target, &mut fields)?;
        identity::forbid_times(&fields)?;
        if let (true, Kind::Ssl, Some(entry)) = (self.skip_unchanged, target.kind, current) {
            self.keep_keys(entry, &mut fields);
        }
        self.admin.accept(&target.key()?, &mut fields);
        if target.kind == Kind::PluginMetadata {
            fields.insert("id".to_owned(), Value::from(id));
        } else {
            let created = current.and_then(|entry| {
                serde_json::from_slice::<Map<String, Value>>(&entry.value).ok()?.shift_remove("create_time")
            });
            set_times(&mut fields, created, false);
        }
        Ok(fields)
    }

    fn patch(
        &self,
        target: &Target<'_>,
        value: Value,
        current: Option<&Entry>,
    ) -> Result<Map<String, Value>, AdminResponse> {
        let entry = current.ok_or_else(|| AdminResponse::error(404, "Key not found"))?;
        let patch = identity::resource(Some(value))?;
        let Ok(mut fields) = serde_json::from_slice::<Map<String, Value>>(&entry.value) else {
            return Err(AdminResponse::error(503, "the stored value is no JSON object"));
        };
        self.admin.open(&entry.key, &mut fields);
        let dated = patch.get("update_time").is_some_and(|time| !time.is_null());
        merge::merge(&mut fields, patch);
        set_times(&mut fields, None, !dated);
        identity::needed(target, &mut fields)?;
        self.admin.accept(&entry.key, &mut fields);
        Ok(fields)
    }

    /// Gives certificates that stay as they are their private keys, which no read shows.
    fn keep_keys(&self, entry: &Entry, ssl: &mut Map<String, Value>) {
        let Ok(mut stored) = serde_json::from_slice::<Map<String, Value>>(&entry.value) else { return };
        self.admin.open(&entry.key, &mut stored);
        for (certificate, key) in [("cert", "key"), ("certs", "keys")] {
            let stays = ssl.contains_key(certificate) && ssl.get(certificate) == stored.get(certificate);
            if stays && !ssl.contains_key(key) {
                ssl.extend(stored.shift_remove(key).map(|kept| (key.to_owned(), kept)));
            }
        }
    }

    /// Whether the store has that already.
    fn is_same(&self, entry: &Entry, fields: &Map<String, Value>) -> bool {
        let timeless = |mut fields: Map<String, Value>| {
            for time in ["create_time", "update_time"] {
                fields.shift_remove(time);
            }
            fields
        };
        let Ok(mut stored) = serde_json::from_slice::<Map<String, Value>>(&entry.value) else { return false };
        self.admin.open(&entry.key, &mut stored);
        timeless(fields.clone()) == timeless(stored)
    }

    async fn delete(
        &mut self,
        mut write: Write,
        target: &Target<'_>,
        current: Option<&Entry>,
        faults: &mut Faults,
    ) -> Result<(), AdminResponse> {
        if current.is_none() {
            faults.push(format!("{}/key", write.place), "Key not found");
            return Ok(());
        }
        write.outcome = Outcome::Deleted;
        self.remove(&write.key);
        let below = subresources::deletions(&self.ahead, target.kind, target.id.unwrap_or_default()).await?;
        self.staged.writes.push(write);
        for op in below {
            self.remove(op.key());
        }
        Ok(())
    }

    /// Deletes a key, unless something has done so.
    fn remove(&mut self, key: &str) {
        self.overlay.lay(key, None, None);
        if self.touched.insert(key.to_owned()) {
            self.staged.then.push(Op::Delete { key: key.to_owned() });
        }
    }

    /// Does `op`, which sets a key back from `current` to `entry`, an earlier one of its own, or deletes it.
    pub(crate) fn restore(&mut self, op: Op, entry: Option<&Entry>, current: Option<&Entry>) {
        let key = op.key().to_owned();
        let key = key.as_str();
        let equals = current.map_or(0, |current| current.mod_revision);
        self.staged.when.push((key.to_owned(), Precondition::ModRevision { key: key.to_owned(), equals }));
        let after = entry.map(|entry| Arc::clone(&entry.value));
        let fields = after.as_ref().and_then(|value| serde_json::from_slice(value).ok()).map(|mut fields| {
            self.admin.open(key, &mut fields);
            fields
        });
        self.overlay.lay(key, after.clone(), current);
        self.staged.then.push(op);
        self.staged.writes.push(Write {
            place: key.to_owned(),
            key: key.to_owned(),
            verb: if after.is_some() { "put" } else { "delete" },
            outcome: match (current, &after) {
                (_, None) => Outcome::Deleted,
                (None, _) => Outcome::Created,
                _ => Outcome::Updated,
            },
            previous: equals,
            before: current.map(|current| Arc::clone(&current.value)),
            after,
            fields,
            force: false,
        });
    }

    /// Checks everything against the state as it will be.
    pub(crate) async fn check(&mut self, faults: &mut Faults) -> Result<(), AdminResponse> {
        let mut referred: Option<HashSet<String>> = None;
        for at in 0..self.staged.writes.len() {
            let write = &self.staged.writes[at];
            let Some(target) = Target::of_key(&write.key) else { continue };
            let id = target.id.unwrap_or_default();
            match (&write.fields, write.outcome) {
                (_, Outcome::Unchanged) => {}
                (Some(fields), _) => {
                    let unknown = self.check_write(write, target, fields, faults).await?;
                    self.staged.unknown.extend(unknown);
                }
                (None, Outcome::Deleted) if !write.force => {
                    let known = match referred.take() {
                        Some(known) => known,
                        None => referred_ids(&self.ahead).await?,
                    };
                    // Reading all that may refer to it takes long; where no id is its own, nothing does.
                    let refusal = match known.contains(id) {
                        true => references::check_unused(&self.ahead, target.kind, id).await.err(),
                        false => None,
                    };
                    if let Some(refusal) = refusal {
                        faults.push(format!("{}/key", write.place), words(&refusal));
                    }
                    referred = Some(known);
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn check_write(
        &self,
        write: &Write,
        target: Target<'_>,
        fields: &Map<String, Value>,
        faults: &mut Faults,
    ) -> Result<Vec<String>, AdminResponse> {
        let place = format!("{}/value", write.place);
        let (mut found, unknown) = mistakes(&self.ahead, Candidate { target, fields, others: true }).await?;
        if self.manner.strict {
            found.unknown(&unknown);
        }
        faults.extend(found.into_errors().into_iter().map(|mut error| {
            error.path.insert_str(0, &place);
            error
        }));
        let others = match subresources::check_parent(&self.ahead, &target).await {
            Err(refusal) => Err(refusal),
            Ok(()) if target.kind == Kind::GraphqlCost => {
                let service = Kind::Service.key(target.parent.unwrap_or_default());
                match stored::entry(&self.ahead, &service).await? {
                    None => Err(AdminResponse::error(404, "service not found")),
                    Some(_) => subresources::check_position(&self.ahead, &target, fields).await,
                }
            }
            Ok(()) => Ok(()),
        };
        if let Err(refusal) = others {
            faults.push(place.clone(), words(&refusal));
        }
        Ok(unknown.into_iter().map(|field| format!("{place}{field}")).collect())
    }

    /// What may be committed, once nothing is wrong with it.
    pub(crate) fn finish(self) -> Staged {
        self.staged
    }
}

/// The texts of all fields that are called as if they named another resource.
async fn referred_ids(admin: &Admin) -> Result<HashSet<String>, StoreError> {
    fn collect(value: &Value, into: &mut HashSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if name.ends_with("_id") && (value.is_string() || value.is_number()) {
                        into.insert(text_of(value));
                    }
                    collect(value, into);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
            _ => {}
        }
    }
    let mut ids = HashSet::new();
    for entry in admin.store.list("").await?.entries {
        if let Ok(value) = serde_json::from_slice::<Value>(&entry.value) {
            collect(&value, &mut ids);
        }
    }
    Ok(ids)
}

/// What a refusal says.
fn words(refusal: &AdminResponse) -> String {
    let body: Value = serde_json::from_slice(&refusal.body).unwrap_or_default();
    let said = body.get("error_msg").or_else(|| body.get("message")).and_then(Value::as_str);
    said.map_or_else(|| String::from_utf8_lossy(&refusal.body).trim().to_owned(), str::to_owned)
}
