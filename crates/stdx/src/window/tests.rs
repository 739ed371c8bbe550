use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

fn worker() -> WorkerToken {
    WorkerToken::claim().expect("fewer tests than tokens")
}

#[test]
fn a_window_begins_with_its_first_request_and_counts_until_its_end() {
    let (windows, worker) = (Windows::default(), worker());
    let (a, b) = (windows.scope("a"), windows.scope("b"));
    let count = |scope: &Scope, key: &str, now| windows.count(&worker, scope, key.as_bytes(), 1, 1000, now);
    for (scope, key, now, consumed, left_ms) in [
        (&a, "x", 10_500, 1, 1000),
        (&a, "x", 10_501, 2, 999),
        (&a, "y", 10_600, 1, 1000),
        (&b, "x", 10_700, 1, 1000),
        (&a, "x", 11_499, 3, 1),
        (&a, "x", 11_500, 1, 1000),
    ] {
        assert_eq!(count(scope, key, now), Counted { consumed, left_ms }, "{key} at {now}");
    }
    // Another scope of the same name is the same scope.
    assert_eq!(count(&windows.scope("a"), "x", 11_501).consumed, 2);
}

#[test]
fn exactly_the_limit_is_admitted_per_window_whatever_number_of_workers_counts() {
    const WORKERS: usize = 4;
    const LIMIT: u64 = 500;
    const REQUESTS: u64 = 2_000;
    const LENGTH_MS: u64 = 100;
    const ROUNDS: u64 = 20;
    let windows = Windows::default();
    let admitted: Vec<AtomicUsize> = (0..ROUNDS).map(|_| AtomicUsize::new(0)).collect();
    let barrier = std::sync::Barrier::new(WORKERS);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let (worker, limit) = (worker(), windows.scope("/routes/1:1"));
                for round in 0..ROUNDS {
                    // Without the barrier a window's last requests would come after the next one's first, which the
                    // passed-in clock forbids.
                    barrier.wait();
                    for _ in 0..REQUESTS {
                        let counted = windows.count(
                            &worker,
                            &limit,
                            b"10.0.0.1",
                            1,
                            LENGTH_MS,
                            1000 + round * LENGTH_MS,
                        );
                        if counted.consumed <= LIMIT {
                            admitted[round as usize].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    for (round, count) in admitted.iter().enumerate() {
        assert_eq!(count.load(Ordering::Relaxed) as u64, LIMIT, "round {round}");
    }
}

#[test]
fn a_sliding_window_admits_no_more_than_the_limit_under_contention() {
    const LIMIT: u64 = 300;
    let windows = Windows::default();
    let admitted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (worker, limit) = (worker(), windows.scope("s"));
                for _ in 0..1_000 {
                    let slid = windows.count_sliding(&worker, &limit, b"k", 1, LIMIT, 1000, 5_000);
                    admitted.fetch_add(usize::from(slid.admitted), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.load(Ordering::Relaxed) as u64, LIMIT);
}

#[test]
fn a_sliding_window_remembers_its_share_of_the_one_before() {
    let (windows, worker) = (Windows::default(), worker());
    let scope = windows.scope("s");
    let count = |now| windows.count_sliding(&worker, &scope, b"k", 1, 10, 1000, now);
    for n in 1..=10 {
        assert_eq!(count(900), Slid { admitted: true, consumed: n, previous: 0, left_ms: 100 });
    }
    assert!(!count(950).admitted);
    // At the start of the next window all ten are in sight; halfway through it five are.
    assert_eq!(count(1000), Slid { admitted: false, consumed: 0, previous: 10, left_ms: 1000 });
    for n in 1..=5 {
        assert_eq!(count(1500), Slid { admitted: true, consumed: n, previous: 10, left_ms: 500 });
    }
    assert!(!count(1500).admitted);
    // A window in between without requests leaves nothing in sight.
    assert_eq!(count(3999), Slid { admitted: true, consumed: 1, previous: 0, left_ms: 1 });
    // Another length is another counter.
    assert_eq!(windows.count_sliding(&worker, &scope, b"k", 1, 10, 2000, 3999).consumed, 1);
}

#[test]
fn keys_are_bounded_and_the_dead_go_first() {
    let (windows, worker) = (Windows::new(SHARDS * 4), worker());
    let scope = windows.scope("a");
    let total =
        || windows.shards.iter().map(|shard| shard.lock().expect("not poisoned").len()).sum::<usize>();
    let count = |n: u32, now| windows.count(&worker, &scope, &n.to_le_bytes(), 1, 1000, now).consumed;
    for n in 0..10_000 {
        assert_eq!(count(n, 1_000), 1);
        assert!(total() <= SHARDS * 4);
    }
    assert_eq!(total(), SHARDS * 4, "full, and still counting");
    // The last key has not been pushed out and goes on.
    assert_eq!(count(9_999, 1_500), 2);
    // A window later everything is dead, and new keys clear more than they add.
    for n in 20_000..20_000 + 1_000 {
        count(n, 5_000 + u64::from(n - 20_000) * 1_000);
    }
    assert!(total() < SHARDS * 2, "{}", total());
}

#[test]
fn a_window_that_was_pushed_out_is_not_counted_in_any_more() {
    let (windows, worker) = (Windows::new(1), worker());
    let scope = windows.scope("a");
    let count = |key: &[u8]| windows.count(&worker, &scope, key, 1, 1000, 1).consumed;
    let at = |key: &[u8]| {
        let key = Key { scope: "a".into(), value: key.into(), sliding: 0 };
        windows.random.hash_one(&key) % SHARDS as u64
    };
    let rival = (0..u32::MAX).map(u32::to_le_bytes).find(|key| at(key) == at(b"k")).expect("one in 64");
    assert_eq!((count(b"k"), count(b"k")), (1, 2));
    assert_eq!(count(&rival), 1);
    assert_eq!(count(b"k"), 1, "begins anew");
}
