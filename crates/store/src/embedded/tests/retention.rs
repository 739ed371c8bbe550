//! The automatic bound of the history.

use super::{Embedded, EmbeddedConfig, config, place};
use crate::{Store, StoreError};

#[tokio::test]
async fn the_newest_revisions_are_kept_and_no_more() {
    let cases = [
        // (revisions, bytes, kept after ten puts of 1,000 bytes to one key)
        (4, u64::MAX, 4),
        (1, u64::MAX, 1),
        (0, u64::MAX, 1),
        (100, 3_500, 3),
        (100, 0, 1),
        (100, u64::MAX, 10),
    ];
    for (history_revisions, history_bytes, kept) in cases {
        let (_directory, path) = place();
        let config = EmbeddedConfig { history_revisions, history_bytes, ..config(&path) };
        let store = Embedded::open(config).unwrap();
        for n in 0..10 {
            store.put("/a", vec![n; 1_000].into(), None).await.unwrap();
        }
        let history = store.history(None, 100).await.unwrap();
        assert_eq!(history.len(), kept, "{history_revisions} revisions, {history_bytes} bytes");
        let oldest = 10 - kept as u64 + 1;
        assert_eq!(history.last().unwrap().revision, oldest);
        if oldest > 1 {
            let refused = store.watch(oldest - 1).await.map(|_| ());
            assert_eq!(refused, Err(StoreError::Compacted { oldest }));
        }
        let mut watch = store.watch(oldest).await.unwrap();
        for revision in oldest..=10 {
            assert_eq!(watch.next().await.unwrap().revision, revision);
        }
        // Nothing of the pruned past stays in the file's tables.
        let rows = store.shared.read(|txn| {
            use redb::ReadableTableMetadata;
            Ok(txn.open_table(super::super::tables::SUPERSEDED)?.len()?)
        });
        assert_eq!(rows.unwrap(), kept as u64);
    }
}
