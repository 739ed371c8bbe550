//! A run in words, for people.

use std::fmt::Write;

use crate::load::{ClientLimit, Outcome, Pace, Plan};
use crate::result::Probe;

/// The percentiles of the short form and of `--latency`.
const SHORT: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
const LONG: [f64; 10] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 99.999, 100.0];

/// What is going to happen.
pub(super) fn intent(plan: &Plan) -> String {
    let s = |count: usize| if count == 1 { "" } else { "s" };
    let pace = match plan.pace {
        Pace::Closed => "closed loop".to_owned(),
        Pace::Constant(rate) => format!("open loop at {rate} requests per second"),
        Pace::Poisson(rate) => format!("open loop at {rate} requests per second, random gaps"),
    };
    format!(
        "{} for {:?}: {} thread{}, {} connection{}, {pace}\n",
        plan.target,
        plan.duration,
        plan.threads,
        s(plan.threads),
        plan.connections,
        s(plan.connections)
    )
}

/// What was measured.
pub(super) fn outcome(plan: &Plan, outcome: &Outcome, detailed: bool) -> String {
    let mut text = String::new();
    // Writing to a string can't fail.
    let _ = write_outcome(&mut text, plan, outcome, detailed);
    text
}

fn write_outcome(text: &mut String, plan: &Plan, outcome: &Outcome, detailed: bool) -> std::fmt::Result {
    let total = &outcome.total;
    if outcome.interrupted {
        writeln!(
            text,
            "ended after {:.2} s of {:?}; this is what was measured so far",
            outcome.elapsed_s, plan.duration
        )?;
    }
    write_latency(text, outcome, detailed)?;
    writeln!(
        text,
        "{} requests in {:.2} s, {} read, {} connection{} made",
        total.requests,
        outcome.elapsed_s,
        bytes(total.bytes as f64),
        total.connects,
        if total.connects == 1 { "" } else { "s" }
    )?;
    if outcome.pace.rate().is_some() {
        writeln!(
            text,
            "{} sent of {} intended: {} late, {} dropped, {} not answered in the end",
            total.sent,
            total.sent + total.dropped,
            total.late,
            total.dropped,
            total.unanswered
        )?;
    }
    for (kind, count, words) in total.faults() {
        writeln!(text, "errors, {}: {count}; the first: {words}", kind.name())?;
    }
    for limit in outcome.client_limits() {
        let kind = if matches!(limit, ClientLimit::Unsent { .. }) { "note" } else { "warning" };
        writeln!(text, "{kind}: {limit}")?;
    }
    let busy = outcome.threads.iter().map(|thread| thread.cpu.busy()).fold(0.0, f64::max);
    writeln!(text, "client CPU: {:.0} % of a core in the busiest thread", busy * 100.0)?;
    writeln!(text, "Requests/sec: {:>12.2}", outcome.requests_per_second())?;
    writeln!(text, "Transfer/sec: {:>12}", bytes(outcome.bytes_per_second()))
}

fn write_latency(text: &mut String, outcome: &Outcome, detailed: bool) -> std::fmt::Result {
    let response = &outcome.total.response;
    let percentiles: &[f64] = if detailed { &LONG } else { &SHORT };
    match &outcome.total.service {
        Some(service) => {
            writeln!(text, "  latency        from intended start      from send")?;
            let mut row = |name: &str, response: f64, service: f64| {
                writeln!(text, "  {name:<12} {:>21} {:>14}", time(response), time(service))
            };
            row("mean", response.mean(), service.mean())?;
            for percent in percentiles {
                let of = |histogram: &hdrhistogram::Histogram<u64>| {
                    histogram.value_at_quantile(percent / 100.0) as f64
                };
                row(&format!("p{percent}"), of(response), of(service))?;
            }
            row("max", response.max() as f64, service.max() as f64)
        }
        None => {
            writeln!(
                text,
                "  latency       (closed loop: blind to stalls, during which nothing is sent; see --rate)"
            )?;
            let mut row = |name: &str, value: f64| writeln!(text, "  {name:<12} {:>12}", time(value));
            row("mean", response.mean())?;
            row("stdev", response.stdev())?;
            for percent in percentiles {
                row(&format!("p{percent}"), response.value_at_quantile(percent / 100.0) as f64)?;
            }
            row("max", response.max() as f64)
        }
    }
}

/// One probe of a search, on a line.
pub(super) fn probe(probe: &Probe) -> String {
    let observed: Vec<String> =
        probe.observed.iter().map(|(condition, seen)| format!("{condition}: {seen:.3}")).collect();
    format!(
        "{:<8} load {:>10} -> {:>10.1} requests/s   {}   {}{}\n",
        format!("{:?}", probe.phase).to_lowercase(),
        if probe.load > 0.0 { format!("{:.1}", probe.load) } else { "all".to_owned() },
        probe.requests_per_second,
        if probe.met { "holds" } else { "breaks" },
        observed.join(", "),
        probe.client_limit.as_ref().map(|limit| format!("   ({limit})")).unwrap_or_default()
    )
}

/// A time in the unit that suits it, from nanoseconds.
pub(crate) fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// A number of bytes in the unit that suits it.
fn bytes(count: f64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB"];
    let power = (count.max(1.0).log2() / 10.0).floor().clamp(0.0, 4.0);
    format!("{:.2} {}", count / 1024f64.powf(power), units[power as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units_that_suit_them() {
        for (ns, text) in [(500.0, "500 ns"), (1_500.0, "1.5 us"), (2.5e6, "2.50 ms"), (3e9, "3.00 s")] {
            assert_eq!(time(ns), text);
        }
        for (count, text) in [(0.0, "0.00 B"), (2048.0, "2.00 KB"), (5e12, "4.55 TB")] {
            assert_eq!(bytes(count), text);
        }
    }
}
