//! The common suite and its model, on files.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{Embedded, HandClock, config, place};
use crate::suite::model::{self, KEYS, Step};
use crate::suite::{self, Backend, Stage};
use crate::{BoxFuture, EmbeddedConfig, Store};

struct Files;

impl Backend for Files {
    fn stage(&self) -> BoxFuture<'_, Stage> {
        let (directory, path) = place();
        let clock = Arc::new(HandClock::default());
        let config = EmbeddedConfig { clock: clock.clone(), ..config(&path) };
        let store: Arc<dyn Store> = Arc::new(Embedded::open(config).unwrap());
        // The directory goes with the stage.
        let pass = Box::new(move |by| {
            let _ = &directory;
            clock.advance(by);
            Box::pin(std::future::ready(())) as BoxFuture<'static, ()>
        });
        Box::pin(async move { Stage { store, pass } })
    }
}

#[tokio::test]
async fn behaves_as_every_store_does() {
    suite::run(&Files).await;
}

fn step() -> impl Strategy<Value = Step> {
    let then = prop::collection::btree_map(0..KEYS, prop::option::weighted(0.7, any::<u8>()), 0..4);
    let txn = (prop::option::of((0..KEYS, any::<bool>())), then)
        .prop_map(|(when, then): (_, BTreeMap<_, _>)| Step::Txn { when, then });
    prop_oneof![12 => txn, 1 => (0..8_u8).prop_map(Step::Compact)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_a_map(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { model::agrees(Files.stage().await, steps).await });
    }
}
