//! The common suite and its model. Each case has a prefix of its own on one server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{Server, store};
use crate::BoxFuture;
use crate::suite::model::{self, KEYS, Step};
use crate::suite::{self, Backend, Stage};

struct Shared {
    server: Server,
    count: AtomicU32,
}

impl Backend for Shared {
    fn stage(&self) -> BoxFuture<'_, Stage> {
        let prefix = format!("/case-{}", self.count.fetch_add(1, Ordering::Relaxed));
        let store = store(&[self.server.endpoint()], &prefix);
        let pass = Box::new(|by| Box::pin(tokio::time::sleep(by)) as BoxFuture<'static, ()>);
        Box::pin(async move { Stage { store: Arc::new(store), pass } })
    }
}

fn step() -> impl Strategy<Value = Step> {
    let then = prop::collection::btree_map(0..KEYS, prop::option::weighted(0.7, any::<u8>()), 0..4);
    let txn = (prop::option::of((0..KEYS, any::<bool>())), then)
        .prop_map(|(when, then): (_, BTreeMap<_, _>)| Step::Txn { when, then });
    prop_oneof![12 => txn, 1 => (0..8_u8).prop_map(Step::Compact)]
}

#[tokio::test]
async fn behaves_as_every_store_does() {
    let shared = Shared { server: Server::start(), count: AtomicU32::new(0) };
    suite::run(&shared).await;
    let mut runner = TestRunner::deterministic();
    let steps = prop::collection::vec(step(), 1..30);
    for _ in 0..4 {
        let steps = steps.new_tree(&mut runner).unwrap().current();
        model::agrees(shared.stage().await, steps).await;
    }
}
