//! The cost of picks in instructions, for a run under callgrind:
//!
//! ```text
//! cargo build --release -p balance --example pick_cost
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*one_pick*' \
//!     target/release/examples/pick_cost roundrobin 1000 100000
//! ```
//!
//! Arguments: algorithm, nodes, picks; then `even` (default), `skewed` (the first node weighs 1,000,000, the others 1)
//! or `unhealthy` (every tenth node is unusable). Instructions collected / picks = cost of one pick; with
//! `--toggle-collect='*one_answer*'` that of one `finished`.

#![allow(clippy::print_stdout, reason = "an example speaks to its terminal")]

use balance::{Algorithm, Balancer, Node, Outcome, Pick};
use std::hint::black_box;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, default: &'static str| arguments.get(at).map_or(default, String::as_str);
    let algorithm: Algorithm = argument(0, "roundrobin").parse()?;
    let count: usize = argument(1, "1000").parse()?;
    let picks: u32 = argument(2, "100000").parse()?;
    let case = argument(3, "even");

    let hosts: Vec<String> = (0..count).map(|n| format!("10.0.{}.{}", n / 250, n % 250)).collect();
    let heavy = if case == "skewed" { 1_000_000 } else { 1 };
    let nodes: Vec<_> = hosts
        .iter()
        .enumerate()
        .map(|(at, host)| Node { host, port: 80, weight: if at == 0 { heavy } else { 1 }, priority: 0 })
        .collect();
    let mut balancer = Balancer::new(algorithm, &nodes, 42);
    let tenth = |node: usize| !node.is_multiple_of(10);
    let usable: Option<&dyn Fn(usize) -> bool> = if case == "unhealthy" { Some(&tenth) } else { None };

    let sum = run_picks(&mut balancer, picks, usable);
    println!("{algorithm}: {picks} picks over {count} nodes, {case} (sum of indices {sum})");
    Ok(())
}

/// Each pick is answered when 64 more have been made: as many requests are in flight.
fn run_picks(balancer: &mut Balancer, picks: u32, usable: Option<&dyn Fn(usize) -> bool>) -> usize {
    let mut in_flight = [None; 64];
    let mut sum = 0;
    for number in 0..picks {
        let key = format!("10.{}.{}.{}", number % 7, number % 250, number % 241);
        let now_ms = u64::from(number / 10);
        let picked = one_pick(balancer, &Pick { key: key.as_bytes(), now_ms, tried: &[], usable });
        if let Some(node) = std::mem::replace(&mut in_flight[number as usize % 64], picked) {
            let latency = Duration::from_micros(500 + u64::from(number % 97));
            one_answer(balancer, node, Outcome { latency, failed: false }, now_ms);
        }
        sum += picked.unwrap_or(0);
    }
    sum
}

#[inline(never)]
fn one_pick(balancer: &mut Balancer, pick: &Pick<'_>) -> Option<usize> {
    black_box(balancer.pick(pick))
}

#[inline(never)]
fn one_answer(balancer: &mut Balancer, node: usize, outcome: Outcome, now_ms: u64) {
    balancer.finished(node, outcome, black_box(now_ms));
}
