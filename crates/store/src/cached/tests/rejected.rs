//! What is a fault of the config source, what is a change, and what an operator's acceptance does.

use super::super::Health;
use super::source::{Data, Node, Source};
use crate::{Op, Store, StoreError, Txn};

/// A source with three routes at revision 6, and a node that follows it.
async fn followed(directory: &tempfile::TempDir) -> (Source, Node) {
    let source = Source::new(7);
    for key in ["/routes/1", "/routes/2", "/routes/3", "/routes/2", "/routes/1"] {
        source.change(&[key], &[]);
    }
    let mut node = Node::start(&source, directory.path());
    node.settle().await;
    assert!(node.serves(&source.contents()));
    (source, node)
}

fn empty_again(source: &Source) {
    source.wipe();
}

fn empty_and_written_to(source: &Source) {
    source.stop();
    source.wipe();
    source.stop();
    (0..20).for_each(|n| source.change(&[&format!("/routes/new{n}")], &[]));
    source.start();
}

fn filled_again_in_the_same_order(source: &Source) {
    source.wipe();
    source.stop();
    for key in ["/routes/1", "/routes/2", "/routes/3", "/routes/2", "/routes/1", "/routes/4"] {
        source.change(&[key], &[]);
    }
    source.start();
}

fn empty_and_grown_and_compacted(source: &Source) {
    source.wipe();
    source.stop();
    (0..20).for_each(|_| source.change(&["/routes/x"], &[]));
    source.delete_all();
    source.compact();
    source.start();
}

fn rolled_back(source: &Source) {
    source.replace(source.data().rolled_back_to(4));
}

fn restored_from_a_backup(source: &Source) {
    source.replace(source.data().rolled_back_to(4).restored_as(8));
}

fn rolled_back_and_grown(source: &Source) {
    source.replace(source.data().rolled_back_to(4));
    source.stop();
    (0..20).for_each(|_| source.change(&["/routes/1"], &[]));
    source.start();
}

fn another_cluster(source: &Source) {
    source.replace(Data::empty(8));
    source.stop();
    (0..20).for_each(|n| source.change(&[&format!("/routes/{n}")], &[]));
    source.start();
}

/// What happens to a source, with its name.
type Incident = (&'static str, fn(&Source));

const INCIDENTS: [Incident; 8] = [
    ("empty again", empty_again),
    ("empty and written to", empty_and_written_to),
    ("filled again in the same order", filled_again_in_the_same_order),
    ("empty, grown and compacted", empty_and_grown_and_compacted),
    ("rolled back", rolled_back),
    ("restored from a backup", restored_from_a_backup),
    ("rolled back and grown", rolled_back_and_grown),
    ("another cluster", another_cluster),
];

#[tokio::test(start_paused = true)]
async fn an_emptied_or_replaced_source_changes_nothing_until_it_is_accepted() {
    for (incident, happens) in INCIDENTS {
        let directory = tempfile::tempdir().unwrap();
        let (source, mut node) = followed(&directory).await;
        let before = source.contents();
        happens(&source);
        node.settle().await;
        assert!(node.serves(&before), "{incident}: {:?}", node.active.keys());
        assert!(node.rejection().is_some(), "{incident}");
        let txn = Txn { then: vec![Op::Delete { key: "/routes/1".to_owned() }], ..Txn::default() };
        let refused = node.cached.guarded().txn(txn).await;
        assert!(matches!(refused, Err(StoreError::Rejected(_))), "{incident}: {refused:?}");

        let mut node = node.restart(&source, directory.path());
        node.settle().await;
        assert!(node.serves(&before) && node.rejection().is_some(), "{incident}, restarted");
        source.stop();
        let mut node = node.restart(&source, directory.path());
        node.settle().await;
        assert!(node.serves(&before), "{incident}, restarted without the source");
        source.start();
        node.settle().await;
        assert!(node.serves(&before) && node.rejection().is_some(), "{incident}, and it is back");

        let accepted = node.accept().await.unwrap();
        assert_eq!((accepted.before.resources, accepted.not_shared), (3, None), "{incident}");
        assert!(node.serves(&source.contents()) && node.rejection().is_none(), "{incident}, accepted");
        source.change(&["/routes/after"], &[]);
        node.settle().await;
        assert!(node.serves(&source.contents()), "{incident}, and goes on");
        let mut node = node.restart(&source, directory.path());
        node.settle().await;
        assert!(node.serves(&source.contents()) && node.rejection().is_none(), "{incident}, at the end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_whose_data_comes_back_is_followed_without_acceptance() {
    for (incident, happens) in INCIDENTS {
        let directory = tempfile::tempdir().unwrap();
        let (source, mut node) = followed(&directory).await;
        let data = source.data();
        happens(&source);
        node.settle().await;
        source.replace(data);
        source.change(&["/routes/4"], &["/routes/1"]);
        node.settle().await;
        assert!(node.serves(&source.contents()) && node.rejection().is_none(), "{incident}");
        assert!(matches!(node.accept().await, Err(StoreError::Invalid(_))), "{incident}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_contents_in_another_cluster_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (source, mut node) = followed(&directory).await;
    source.replace(source.data().restored_as(8));
    node.settle().await;
    assert_eq!(node.rejection(), None);
    source.change(&[], &["/routes/1"]);
    node.settle().await;
    assert!(node.serves(&source.contents()));
}

#[tokio::test(start_paused = true)]
async fn deletions_of_everything_are_changes() {
    for (case, away, compacted) in
        [("watched", false, false), ("missed", true, false), ("compacted", true, true)]
    {
        let directory = tempfile::tempdir().unwrap();
        let (source, mut node) = followed(&directory).await;
        if away {
            source.stop();
            node.settle().await;
        }
        source.delete_all();
        if compacted {
            source.compact();
        }
        source.start();
        node.settle().await;
        // After a compaction nothing tells a deletion from a loss.
        assert_eq!(node.active.is_empty(), !compacted, "{case}");
        assert_eq!(node.rejection().is_some(), compacted, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn deletions_during_a_restart_are_changes() {
    let directory = tempfile::tempdir().unwrap();
    let (source, node) = followed(&directory).await;
    source.delete_all();
    let mut node = node.restart(&source, directory.path());
    node.settle().await;
    assert!(node.active.is_empty() && node.rejection().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_first_start_takes_what_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::new(7);
    let mut node = Node::start(&source, directory.path());
    node.settle().await;
    assert!(node.active.is_empty() && *node.cached.health().borrow() == Health::Following);
    // Nothing was in use that could be lost.
    source.wipe();
    source.change(&["/routes/1"], &[]);
    node.settle().await;
    assert!(node.serves(&source.contents()) && node.rejection().is_none());
}

#[tokio::test(start_paused = true)]
async fn one_acceptance_reaches_every_node_and_no_later_incident() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, mut a) = followed(&one).await;
    let mut b = Node::start(&source, other.path());
    b.settle().await;
    // Acceptances are dated by the clock, which the test's time doesn't move.
    std::thread::sleep(std::time::Duration::from_millis(2));
    source.replace(source.data().rolled_back_to(4));
    a.settle().await;
    b.settle().await;
    assert!(a.rejection().is_some() && b.rejection().is_some());
    a.accept().await.unwrap();
    b.settle().await;
    assert!(b.serves(&source.contents()) && b.rejection().is_none());

    std::thread::sleep(std::time::Duration::from_millis(2));
    let backup = source.data();
    (0..4).for_each(|_| source.change(&["/routes/5"], &[]));
    a.settle().await;
    b.settle().await;
    let before = source.contents();
    source.replace(backup);
    for node in [&mut a, &mut b] {
        node.settle().await;
        assert!(node.serves(&before) && node.rejection().is_some(), "the acceptance is an earlier one's");
    }
}

#[tokio::test(start_paused = true)]
async fn an_acceptance_is_for_what_was_seen() {
    let directory = tempfile::tempdir().unwrap();
    let (source, mut node) = followed(&directory).await;
    let before = source.contents();
    source.replace(source.data().rolled_back_to(4));
    node.settle().await;
    // It is emptied between the operator's look and the decision.
    source.wipe();
    node.settle().await;
    let accepted = node.cached.accept(None, Some(4)).await;
    assert!(matches!(accepted, Err(StoreError::Invalid(_))), "{accepted:?}");
    node.settle().await;
    assert!(node.serves(&before) && node.rejection().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_second_watch_that_is_behind_takes_nothing_back() {
    let directory = tempfile::tempdir().unwrap();
    let (source, mut node) = followed(&directory).await;
    let mut behind = node.cached.watch(4).await.unwrap();
    source.change(&["/routes/4"], &[]);
    node.settle().await;
    while behind.next().await.unwrap().revision < 6 {}
    let mut node = node.restart(&source, directory.path());
    source.stop();
    node.settle().await;
    assert!(node.serves(&source.contents()), "{:?}", node.active);
}

#[tokio::test(start_paused = true)]
async fn earlier_versions_outlive_a_restart_for_as_long_as_they_are_active() {
    let directory = tempfile::tempdir().unwrap();
    let (source, mut node) = followed(&directory).await;
    let good = source.contents()["/routes/1"].clone();
    source.change(&["/routes/1", "/routes/2"], &[]);
    // The watch is read, and the process dies before the values are compiled.
    let mut watch = node.cached.watch(7).await.unwrap();
    watch.next().await.unwrap();
    node.cached.flush();
    let kept = |node: &Node| node.cached.earlier();
    assert_eq!(kept(&node).iter().map(|entry| &*entry.key).collect::<Vec<_>>(), ["/routes/1", "/routes/2"]);
    let active = [(good.key.clone(), good.value.clone())];
    assert_eq!(node.cached.keep_earlier(&active), std::slice::from_ref(&good));
    for up in [true, false] {
        node = node.restart(&source, directory.path());
        if !up {
            source.stop();
        }
        node.cached.list("").await.unwrap();
        assert_eq!(kept(&node), std::slice::from_ref(&good), "up: {up}");
    }
    source.start();
    let mut node = node.restart(&source, directory.path());
    node.cached.list("").await.unwrap();
    source.change(&[], &["/routes/1"]);
    node.settle().await;
    assert_eq!(kept(&node), []);
}
