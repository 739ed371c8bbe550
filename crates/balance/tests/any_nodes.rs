//! What holds for any nodes, any algorithm and any history.

use balance::{Algorithm, Balancer, Node, Outcome, Pick};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// Port, weight and priority of up to eleven nodes; few ports and priorities, so that addresses repeat and tiers have
/// several nodes. Great weights have a great divisor, so that the rings stay small enough to build by the hundred.
fn nodes() -> impl Strategy<Value = Vec<(u16, u32, i32)>> {
    let weights = prop::collection::vec((80_u16..90, 0_u32..5, -1_i32..2), 0..12);
    (weights, prop::sample::select(vec![1_u32, 1_000_000_000])).prop_map(|(mut nodes, unit)| {
        nodes.iter_mut().for_each(|(_, weight, _)| *weight *= unit);
        nodes
    })
}

#[derive(Debug, Clone)]
enum Step {
    Request { key: Vec<u8>, unusable: BTreeSet<usize> },
    Finished { node: usize, latency_ms: u64, failed: bool },
    Later { ms: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let request = (prop::collection::vec(any::<u8>(), 0..8), prop::collection::btree_set(0_usize..12, 0..12))
        .prop_map(|(key, unusable)| Step::Request { key, unusable });
    let finished = (0_usize..14, 0_u64..100_000, any::<bool>())
        .prop_map(|(node, latency_ms, failed)| Step::Finished { node, latency_ms, failed });
    let later = (0_u64..100_000).prop_map(|ms| Step::Later { ms });
    prop::collection::vec(prop_oneof![3 => request, 2 => finished, 1 => later], 0..40)
}

proptest! {
    #[test]
    fn a_request_tries_exactly_the_nodes_it_may_each_once_by_priority(
        algorithm in prop::sample::select(&Algorithm::ALL[..]),
        listed in nodes(),
        steps in steps(),
        seed: u64,
    ) {
        let nodes: Vec<_> = listed
            .iter()
            .map(|&(port, weight, priority)| Node { host: "10.0.0.1", port, weight, priority })
            .collect();
        let mut balancer = Balancer::new(algorithm, &nodes, seed).fork(seed);
        let mut now_ms = 0;
        for step in steps {
            match step {
                Step::Later { ms } => now_ms += ms,
                Step::Finished { node, latency_ms, failed } => {
                    let latency = Duration::from_millis(latency_ms);
                    balancer.finished(node, Outcome { latency, failed }, now_ms);
                }
                Step::Request { key, unusable } => {
                    let usable = |node: usize| !unusable.contains(&node);
                    let mut tried = vec![];
                    while let Some(node) =
                        balancer.pick(&Pick { key: &key, now_ms, tried: &tried, usable: Some(&usable) })
                    {
                        prop_assert!(!tried.contains(&node));
                        tried.push(node);
                    }
                    let priorities: Vec<_> = tried.iter().map(|&node| listed[node].2).collect();
                    prop_assert!(priorities.is_sorted_by(|a, b| a >= b), "{priorities:?}");
                    let expected: BTreeSet<_> = (0..listed.len())
                        .filter(|&node| takes_part(&listed, node, algorithm) && usable(node))
                        .collect();
                    prop_assert_eq!(tried.into_iter().collect::<BTreeSet<_>>(), expected);
                }
            }
        }
    }
}

/// Whether the node at this place may ever be picked.
fn takes_part(listed: &[(u16, u32, i32)], node: usize, algorithm: Algorithm) -> bool {
    let address = |at: usize| (listed[at].0, listed[at].2);
    let is_last = |at: usize| (at + 1..listed.len()).all(|later| address(later) != address(at));
    let mut tier = (0..listed.len()).filter(|&at| listed[at].2 == listed[node].2 && is_last(at));
    let all_weigh_nothing = tier.all(|at| listed[at].1 == 0);
    let by_weight = listed[node].1 > 0 || (all_weigh_nothing && algorithm != Algorithm::Chash);
    is_last(node) && (by_weight || listed.len() == 1)
}
