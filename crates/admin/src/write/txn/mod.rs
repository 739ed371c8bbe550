//! `POST /txn`: several writes, all or nothing, in one revision and thus in one snapshot of every worker.
//!
//! ```json
//! {"operations": [
//!     {"op": "put", "key": "/routes/1", "value": {}, "modifiedIndex": 0, "ttl": 60},
//!     {"op": "patch", "key": "/upstreams/1", "value": {}},
//!     {"op": "delete", "key": "/routes/2", "force": true}],
//!  "preconditions": [{"key": "/services/1", "modifiedIndex": 12}]}
//! ```
//! Each write is checked as the single one is; what it refers to, and what refers to it, are looked for in the state
//! as it will be. `?dry_run=true` answers what would be done (with `any_size=true` also for a change that is larger than
//! a transaction may be); `?skip_unchanged=true` leaves out what is there already, and
//! takes a certificate that is unchanged without its key, as reads show it.

mod faults;
pub(crate) mod operation;
pub(crate) mod stage;

pub(crate) use faults::Faults;

use crate::http::args::Args;
use crate::http::manner::Manner;
use crate::http::respond::Answer;
use crate::write::commit::Held;
use crate::{Admin, AdminRequest, AdminResponse};
use faults::conflict;
use serde_json::{Value, json};
use stage::{Outcome, Stage, Staged};
use store::{Committed, Precondition, Txn, TxnLimits, TxnOutcome};

/// The limits of `?dry_run=true&any_size=true`, which checks a change that takes several transactions: its body alone
/// is bounded.
const ANY_SIZE: TxnLimits = TxnLimits { operations: usize::MAX, bytes: usize::MAX };

/// `GET /txn`: how large a transaction may be.
pub(crate) fn limits(admin: &Admin) -> AdminResponse {
    let limits = admin.store.txn_limits();
    AdminResponse::json(200, &json!({ "operations_max": limits.operations, "bytes_max": limits.bytes }))
}

/// Runs a transaction.
pub(crate) async fn run(admin: &Admin, request: &AdminRequest, args: &Args, actor: Option<String>) -> Answer {
    let flag = |name: &str| args.get(name) == Some("true");
    let mut faults = Faults::default();
    let asked = operation::read(admin, request, &mut faults)?;
    // Alone: no two large ones are in memory at once, and nobody refers to what this one deletes.
    let held = Held::alone(admin).await;
    let mut stage = Stage::over(admin, Manner::of(request, args), flag("skip_unchanged"));
    stage.require(&asked.preconditions).await?;
    for (at, operation) in asked.operations.into_iter().enumerate() {
        if let Some(operation) = operation {
            stage.lay(at, operation, &mut faults).await?;
        }
    }
    stage.check(&mut faults).await?;
    faults.verdict()?;
    let staged = stage.finish();
    if flag("dry_run") {
        let limits = if flag("any_size") { ANY_SIZE } else { admin.store.txn_limits() };
        staged.txn(actor).check_within(limits)?;
        let answer = AdminResponse::json(200, &report(admin, &staged, None));
        return Ok(answer.warned(&staged.unknown));
    }
    let committed = commit(admin, &staged, actor).await?;
    drop(held);
    if let Some(committed) = &committed {
        admin.wait_applied(committed.revision).await;
    }
    let body = report(admin, &staged, Some(committed.map_or(0, |committed| committed.revision)));
    Ok(AdminResponse::json(200, &body).warned(&staged.unknown))
}

/// Commits what was staged; `None` where that is nothing.
pub(crate) async fn commit(
    admin: &Admin,
    staged: &Staged,
    actor: Option<String>,
) -> Result<Option<Committed>, AdminResponse> {
    let txn = staged.txn(actor);
    if txn.then.is_empty() {
        return Ok(None);
    }
    match admin.store.txn(txn).await? {
        TxnOutcome::Committed(committed) => Ok(Some(committed)),
        TxnOutcome::Refused { index, current } => {
            let (place, Precondition::ModRevision { key, .. }) = &staged.when[index];
            Err(conflict(admin, place, key, current.map_or(0, |entry| entry.mod_revision)))
        }
    }
}

/// What was done, or what would be.
fn report(admin: &Admin, staged: &Staged, revision: Option<u64>) -> Value {
    let operations: Vec<Value> = staged
        .writes
        .iter()
        .map(|write| {
            let key = format!("{}{}", admin.settings.prefix, write.key);
            let mut line = json!({ "op": write.verb, "key": key, "outcome": write.outcome.as_str() });
            match (revision, write.outcome) {
                (_, Outcome::Unchanged) => line["modifiedIndex"] = write.previous.into(),
                (Some(revision), _) => line["modifiedIndex"] = revision.into(),
                (None, _) => line["changes"] = write.changes(admin).into(),
            }
            line
        })
        .collect();
    match revision {
        Some(0) => json!({ "operations": operations }),
        Some(revision) => json!({ "revision": revision, "operations": operations }),
        None => json!({ "dry_run": true, "operations": operations }),
    }
}

impl Staged {
    /// The transaction for the store.
    pub(crate) fn txn(&self, actor: Option<String>) -> Txn {
        let when = self.when.iter().map(|(_, condition)| condition.clone()).collect();
        Txn { when, then: self.then.clone(), actor }
    }
}
