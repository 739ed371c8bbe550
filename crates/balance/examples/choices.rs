//! Chooses a node so many times, and nothing else: what `benches/balancers.py` counts the instructions of.
//!
//! `choices ALGORITHM NODES TIMES`; the algorithm `none` is the loop alone, with a node that costs nothing.

use balance::{Algorithm, Balancer, Node, Outcome, Pick};
use std::hint::black_box;
use std::time::Duration;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [algorithm, nodes, times] = &words[..] else { panic!("choices ALGORITHM NODES TIMES") };
    let algorithm: Option<Algorithm> =
        (algorithm != "none").then(|| algorithm.parse().expect("an algorithm"));
    let nodes: u32 = nodes.parse().expect("a number of nodes");
    let times: u64 = times.parse().expect("a number of times");
    let hosts: Vec<String> = (0..nodes).map(|node| format!("10.0.{}.{}", node / 250, node % 250)).collect();
    let listed: Vec<Node<'_>> =
        hosts.iter().map(|host| Node { host, port: 80, weight: 1, priority: 0 }).collect();
    let mut balancer = algorithm.map(|algorithm| Balancer::new(algorithm, &listed, 1));
    let outcome = Outcome { latency: Duration::from_millis(2), failed: false };
    let mut key = *b"client 00000000";
    // As many requests are under way as a busy worker has.
    let mut under_way = [None; 64];
    for number in 0..times {
        // As a client's address would: another one each time.
        key[7..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        black_box(&key);
        let node = match &mut balancer {
            Some(balancer) => balancer.pick(&Pick { key: &key, now_ms: number / 10, ..Pick::default() }),
            None => Some(number as usize),
        };
        let slot = &mut under_way[(number % 64) as usize];
        if let Some(done) = black_box(std::mem::replace(slot, black_box(node)))
            && let Some(balancer) = &mut balancer
        {
            balancer.finished(done, outcome, number / 10);
        }
    }
}
