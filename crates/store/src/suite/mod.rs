//! What every backend must do, as cases that run against any of them.
//!
//! A case gets a store of its own and assumes nothing about the first revision, nor that revisions follow each other
//! without a gap: in a shared etcd they don't.

mod entries;
mod expiry;
pub mod model;
mod past;
mod transactions;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use crate::{Batch, BoxFuture, Committed, Entry, Op, Store, Txn, TxnOutcome, Watch};

/// How long a case waits for what must happen at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// A backend under test.
pub trait Backend {
    /// An empty store.
    fn stage(&self) -> BoxFuture<'_, Stage>;
}

/// One case's store.
pub struct Stage {
    /// The store, empty.
    pub store: Arc<dyn Store>,
    /// Lets the store's time pass: turns an injected clock, or sleeps.
    pub pass: Box<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>,
}

/// A case: it panics where the backend is wrong.
pub type Case = fn(Stage) -> BoxFuture<'static, ()>;

/// Every case with its name.
pub const CASES: &[(&str, Case)] = &[
    ("a value is read back", |stage| Box::pin(entries::read_back(stage))),
    ("a listing is sorted and has its prefix", |stage| Box::pin(entries::listing(stage))),
    ("revisions rise with each change only", |stage| Box::pin(entries::revisions(stage))),
    ("limits are refused", |stage| Box::pin(entries::limits(stage))),
    ("preconditions hold or refuse", |stage| Box::pin(transactions::preconditions(stage))),
    ("a transaction is one revision or nothing", |stage| Box::pin(transactions::atomic(stage))),
    ("concurrent writers lose no update", |stage| Box::pin(transactions::concurrent(stage))),
    ("a watch continues a listing", |stage| Box::pin(watching::continues(stage))),
    ("a watch waits and can be cancelled", |stage| Box::pin(watching::cancelled(stage))),
    ("watches under load agree with the result", |stage| Box::pin(watching::under_load(stage))),
    ("a value as of a revision", |stage| Box::pin(past::value_at(stage))),
    ("history names revisions, newest first", |stage| Box::pin(past::history(stage))),
    ("compaction is told, not guessed", |stage| Box::pin(past::compaction(stage))),
    ("an entry expires", |stage| Box::pin(expiry::expires(stage))),
    ("a later write takes the time to live away", |stage| Box::pin(expiry::renewed(stage))),
];

/// Runs all cases, each on a new stage, and panics with the name of the first that fails.
pub async fn run(backend: &dyn Backend) {
    for (name, case) in CASES {
        tracing::info!(case = name, "store suite");
        let stage = backend.stage().await;
        let finished = tokio::time::timeout(PATIENCE, tokio::spawn(case(stage))).await;
        match finished {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => panic!("case {name:?}: {panic}"),
            Err(_) => panic!("case {name:?}: not finished in {PATIENCE:?}"),
        }
    }
}

fn put(key: &str, value: &str) -> Op {
    Op::Put { key: key.to_owned(), value: value.as_bytes().into(), ttl: None }
}

fn delete(key: &str) -> Op {
    Op::Delete { key: key.to_owned() }
}

async fn commit(store: &Arc<dyn Store>, then: Vec<Op>) -> Committed {
    match store.txn(Txn { then, ..Txn::default() }).await {
        Ok(TxnOutcome::Committed(committed)) => committed,
        other => panic!("an unconditional transaction ended with {other:?}"),
    }
}

async fn get(store: &Arc<dyn Store>, key: &str) -> Option<Entry> {
    store.get(key).await.expect("a get succeeds")
}

async fn watch(store: &Arc<dyn Store>, from: u64) -> Box<dyn Watch> {
    store.watch(from).await.expect("a watch starts")
}

async fn next(watch: &mut Box<dyn Watch>) -> Batch {
    watch.next().await.expect("a watch goes on")
}

fn text(entry: &Entry) -> &str {
    std::str::from_utf8(&entry.value).expect("the suite writes text")
}
