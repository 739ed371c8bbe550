//! From what was measured to the result file.

use crate::load::{ErrorKind, Outcome, Pace, Plan, Protocol, Tally};
use crate::result::{Client, Errors, Histogram, Load, Run, Schedule, Settings, Target, Tls};

/// Header fields whose values are kept out of files.
const SECRETS: [&str; 5] = ["authorization", "cookie", "proxy-authorization", "x-api-key", "apikey"];

/// A run for the file; `order` is its place among all.
pub(crate) fn run_of(plan: &Plan, outcome: &Outcome, order: u32, started: &str) -> Run {
    let total = &outcome.total;
    let response = Histogram::from(total.response.clone());
    // A closed loop sends when the last answer has come, so that its only latency is the service time.
    let (service_time, response_time) = match &total.service {
        Some(service) => (Histogram::from(service.clone()), Some(response)),
        None => (response, None),
    };
    let length = plan.request.bytes(1).len() as u64;
    Run {
        order,
        started: Some(started.to_owned()),
        settings: settings(plan),
        duration_s: outcome.elapsed_s.max(1e-9),
        requests: total.requests,
        requests_per_second: outcome.requests_per_second(),
        errors: errors(total),
        statuses: (100..)
            .zip(&total.statuses)
            .filter(|(_, n)| **n > 0)
            .map(|(status, n)| (status, *n))
            .collect(),
        bytes_received: total.bytes,
        bytes_sent: total.sent * length,
        schedule: outcome.pace.rate().map(|_| Schedule {
            due: total.sent + total.dropped,
            sent: total.sent,
            late: total.late,
            dropped: total.dropped,
        }),
        client: client(outcome),
        service_time: Some(service_time),
        response_time,
    }
}

fn settings(plan: &Plan) -> Settings {
    let headers = plan.request.fields.iter().map(|(name, value)| {
        let secret = SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret));
        (name.clone(), if secret { "***".to_owned() } else { value.clone() })
    });
    Settings {
        threads: plan.threads as u32,
        connections: plan.connections as u32,
        depth: plan.depth as u32,
        duration_s: plan.duration.as_secs_f64(),
        warmup_s: plan.warmup.as_secs_f64(),
        load: match plan.pace {
            Pace::Closed => Load::Closed,
            Pace::Constant(rate) => Load::Constant { rate },
            Pace::Poisson(rate) => Load::Poisson { rate },
        },
        method: plan.request.method.clone(),
        headers: headers.collect(),
        body_bytes: plan.request.body.len() as u64,
        keep_alive: true,
        timeout_s: Some(plan.timeout.as_secs_f64()),
        other: plan.requests.map(|n| ("requests".to_owned(), n.to_string())).into_iter().collect(),
    }
}

fn errors(total: &Tally) -> Errors {
    let of = |kind: ErrorKind| total.errors[kind as usize];
    Errors {
        connect: of(ErrorKind::Connect),
        tls: of(ErrorKind::Tls),
        read: of(ErrorKind::Read),
        write: of(ErrorKind::Write),
        closed: of(ErrorKind::Closed),
        timeout: of(ErrorKind::Timeout),
        protocol: of(ErrorKind::Protocol),
        status: of(ErrorKind::Status),
        body: of(ErrorKind::Body),
    }
}

fn client(outcome: &Outcome) -> Client {
    let limits: Vec<String> = outcome.client_limits().iter().map(ToString::to_string).collect();
    Client {
        cpu_s: outcome.threads.iter().map(|thread| thread.cpu.busy_ns as f64 / 1e9).sum(),
        busiest_thread: outcome.threads.iter().map(|thread| thread.cpu.busy()).fold(0.0, f64::max),
        limit: (!limits.is_empty()).then(|| limits.join("; ")),
    }
}

/// The server as the file names it, from what a first run learned.
pub(crate) fn target_of(plan: &Plan, seen: &Tally) -> Target {
    let protocol = match plan.protocol {
        Protocol::Http1 => "HTTP/1.1",
        Protocol::Http2 => "HTTP/2",
    };
    Target {
        url: plan.target.to_string(),
        address: Some(plan.endpoint.to_string()),
        protocol: Some(protocol.to_owned()),
        server: seen.server.clone().filter(|server| !server.is_empty()),
        workers: None,
        tls: seen.tls.as_ref().map(|tls| Tls {
            version: tls.version.replace('_', "."),
            suite: tls.suite.clone(),
            group: (!tls.group.is_empty()).then(|| tls.group.clone()),
            alpn: (plan.protocol == Protocol::Http2).then(|| "h2".to_owned()),
        }),
    }
}

/// Now, as RFC 3339 has it, in UTC.
pub(crate) fn rfc3339_now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}
