//! `nginx_config.*`: the process, HTTP limits and times, and the logs.

use std::path::PathBuf;

use observe::error_log::Level;

use crate::reader::{Field, Section};
use crate::settings::defaults::{STREAM_FORMAT, STREAM_LOG};
use crate::settings::{AccessLog, Escape, Http, Logs, Process, UpstreamPool};
use document::Value;
use document::variables::Lookup;
use document::{Diagnostic, Found, codes};
use stdx::units;

/// More workers than this are a typing error on any machine there is.
const MAX_WORKERS: i64 = 1_024;

/// APISIX's way to set the number of workers in a container.
const WORKERS_VARIABLE: &str = "APISIX_WORKER_PROCESSES";

/// The process's settings. In `dev_mode` there is one worker.
pub(super) fn process(nginx: &Section<'_>, dev_mode: bool, lookup: Lookup<'_>, found: &Found) -> Process {
    let default = Process::default();
    let in_file = nginx.field("worker_processes").and_then(|field| workers(&field));
    let dev_mode = dev_mode.then_some(1);
    Process {
        workers: workers_variable(lookup, found).or(dev_mode).or(in_file),
        cpu_affinity: nginx.bool("enable_cpu_affinity", default.cpu_affinity),
        open_files: count(nginx, "worker_rlimit_nofile", 1, default.open_files),
        shutdown_timeout: nginx.duration("worker_shutdown_timeout", default.shutdown_timeout),
        exits_on_panic: nginx.choice(
            "on_panic",
            &[("restart", false), ("exit", true)],
            default.exits_on_panic,
        ),
        worker_connections: number(
            nginx.section("event"),
            "worker_connections",
            1,
            default.worker_connections,
        ),
    }
}

/// `user`: the gateway never changes its user, so it has to be the one it runs as. `own` is the id of that; `accounts` has
/// the form of `/etc/passwd`.
pub(super) fn check_user(nginx: &Section<'_>, own: u32, accounts: &str) {
    let Some(field) = nginx.field("user") else { return };
    let Some(text) = field.text() else { return };
    // nginx takes a group behind it.
    let name = text.split_whitespace().next().unwrap_or_default();
    let id_of = |line: &str| {
        let mut parts = line.split(':');
        (parts.next() == Some(name)).then(|| parts.nth(1)?.parse::<u32>().ok()).flatten()
    };
    match accounts.lines().find_map(id_of) {
        Some(id) if id == own => {}
        // As for nginx: who isn't root can't become another user.
        _ if own != 0 => field.warn(
            codes::NO_EFFECT,
            format!("without effect: this process runs as user {own}, and does not change its user"),
            "remove the key, or start the gateway as that user",
        ),
        _ => {
            field.fail::<()>(
                format!("the gateway does not change its user, and would serve as root instead of {name:?}"),
                "start it as that user (systemd: User=, with AmbientCapabilities=CAP_NET_BIND_SERVICE for ports below \
                 1024) and remove the key",
            );
        }
    }
}

/// Limits and times of HTTP.
pub(super) fn http(http: &Section<'_>) -> Http {
    let default = Http::default();
    let pool = http.section("upstream");
    let real_ip_from = match http.list("real_ip_from") {
        Some(items) => items.iter().filter(|item| !is_unix(item)).filter_map(Field::network).collect(),
        None if http.is_emptied("real_ip_from") => Vec::new(),
        None => default.real_ip_from,
    };
    http.field("large_client_header_buffers").and_then(|field| check_header_buffers(&field));
    Http {
        keepalive_timeout: http.duration("keepalive_timeout", default.keepalive_timeout),
        keepalive_requests: count(http, "keepalive_requests", 1, default.keepalive_requests),
        ssl_handshake_timeout: http.duration("ssl_handshake_timeout", default.ssl_handshake_timeout),
        client_header_timeout: http.duration("client_header_timeout", default.client_header_timeout),
        client_body_timeout: http.duration("client_body_timeout", default.client_body_timeout),
        client_max_body_size: http.size("client_max_body_size", default.client_max_body_size),
        send_timeout: http.duration("send_timeout", default.send_timeout),
        underscores_in_headers: http.switch("underscores_in_headers", default.underscores_in_headers),
        real_ip_header: http.text("real_ip_header").map_or(default.real_ip_header, str::to_owned),
        real_ip_recursive: http.switch("real_ip_recursive", default.real_ip_recursive),
        real_ip_from,
        upstream: UpstreamPool {
            keepalive: number(pool.clone(), "keepalive", 0, default.upstream.keepalive),
            keepalive_requests: count(&pool, "keepalive_requests", 1, default.upstream.keepalive_requests),
            keepalive_timeout: pool.duration("keepalive_timeout", default.upstream.keepalive_timeout),
        },
    }
}

/// Both logs.
pub(super) fn logs(nginx: &Section<'_>) -> Logs {
    let default = Logs::default();
    let error_log = nginx.field("error_log").and_then(|field| path(&field));
    Logs {
        error_log_named: error_log.is_some(),
        error_log: error_log.unwrap_or(default.error_log),
        level: nginx.choice("error_log_level", &Level::NAMES, default.level),
        access: access_log(&nginx.section("http"), AccessLog::default(), true),
        streams: access_log(&nginx.section("stream"), of_streams(), false),
    }
}

/// The access log of streams, where nothing else is said.
fn of_streams() -> AccessLog {
    AccessLog { path: STREAM_LOG.into(), format: STREAM_FORMAT.to_owned(), ..AccessLog::default() }
}

/// Warns of variables of a log format that nobody knows.
fn check_format(section: &Section<'_>) {
    let Some(field) = section.field("access_log_format") else { return };
    let (Value::Text(text) | Value::Filled(text)) = field.value() else { return };
    let unknown = observe::access_log::custom_variables(text).into_iter();
    let unknown = unknown.filter(|name| !OF_STREAMS.contains(&name.as_str())).map(|name| format!("${name}"));
    let unknown: Vec<String> = unknown.collect();
    if !unknown.is_empty() {
        field.warn(
            codes::UNKNOWN_VARIABLE,
            format!("unknown variables, which are empty unless a plugin sets them: {}", unknown.join(", ")),
            "write names of nginx or APISIX, such as $remote_addr, or remove them",
        );
    }
}

/// Variables that sessions have and requests have not.
const OF_STREAMS: [&str; 6] = [
    "protocol",
    "session_time",
    "bytes_received",
    "upstream_bytes_sent",
    "upstream_bytes_received",
    "upstream_connect_time",
];

fn access_log(section: &Section<'_>, default: AccessLog, enabled: bool) -> Option<AccessLog> {
    check_format(section);
    let escapes = [("default", Escape::Default), ("json", Escape::Json), ("none", Escape::None)];
    let buffer = section.size("access_log_buffer", default.buffer as u64);
    let log = AccessLog {
        path: section.field("access_log").and_then(|field| path(&field)).unwrap_or(default.path),
        buffer: usize::try_from(buffer).unwrap_or(usize::MAX),
        // A block scalar ends in a line break, which is not part of the format: each entry ends in one anyway.
        format: section.text("access_log_format").map_or(default.format, |text| text.trim_end().to_owned()),
        escape: section.choice("access_log_format_escape", &escapes, default.escape),
    };
    section.bool("enable_access_log", enabled).then_some(log)
}

/// A file. Where nginx would take a syslog server, there is none yet.
fn path(field: &Field<'_>) -> Option<PathBuf> {
    let text = field.text()?;
    if text.is_empty() {
        return field.fail("a path must not be empty", "name a file such as logs/error.log");
    }
    if text.starts_with("syslog:") {
        return field
            .fail("logging to syslog is not supported yet", "name a file, /dev/stdout or /dev/stderr");
    }
    Some(match text {
        "stderr" => "/dev/stderr".into(),
        _ => text.into(),
    })
}

fn is_unix(field: &Field<'_>) -> bool {
    matches!(field.value(), Value::Text(text) if text == "unix:")
}

fn workers(field: &Field<'_>) -> Option<usize> {
    if let Value::Text(text) | Value::Filled(text) = field.value()
        && text == "auto"
    {
        return None;
    }
    if matches!(field.value(), Value::Text(text) if text.parse::<i64>().is_err()) {
        return field
            .fail("expected auto or a number of workers", "auto takes one worker for each core granted");
    }
    field.integer(1..=MAX_WORKERS).and_then(|number| usize::try_from(number).ok())
}

fn workers_variable(lookup: Lookup<'_>, found: &Found) -> Option<usize> {
    let text = lookup(WORKERS_VARIABLE)?;
    match text.trim().parse::<usize>() {
        Ok(workers) if (1..=MAX_WORKERS.unsigned_abs()).contains(&(workers as u64)) => Some(workers),
        _ => {
            let message =
                format!("the environment variable {WORKERS_VARIABLE} is not a number of workers: {text:?}");
            let hint = format!("set it to 1 to {MAX_WORKERS}, or unset it");
            found.add(Diagnostic::error(codes::INVALID_VALUE, message).hint(hint));
            None
        }
    }
}

/// `<number> <size>` of `large_client_header_buffers`: a line must fit into one buffer and the head into all. The limits
/// are fixed, so smaller ones are not kept, and larger ones can't be.
fn check_header_buffers(field: &Field<'_>) -> Option<()> {
    const HINT: &str = "remove the key, or write \"4 8k\": a head may have 32 KiB, and each line of it 8 KiB";
    let text = field.text()?;
    let parsed = text
        .split_once(' ')
        .and_then(|(count, bytes)| Some((count.parse::<u64>().ok()?, units::size(bytes.trim()).ok()?)));
    let Some((count, bytes)) = parsed else {
        return field.fail(format!("expected a number and a size such as \"4 8k\", found {text:?}"), HINT);
    };
    let (line, head) = (wire::http1::LINE_MAX as u64, wire::http1::HEAD_MAX as u64);
    if bytes > line || count.saturating_mul(bytes) > head {
        return field.fail("request heads can't be larger than 4 buffers of 8k", HINT);
    }
    if count.saturating_mul(bytes) < head || bytes < line {
        field.warn(
            codes::NO_EFFECT,
            "without effect: larger request heads are accepted, up to 4 buffers of 8k",
            HINT,
        );
    }
    Some(())
}

fn count(section: &Section<'_>, key: &str, least: i64, default: u64) -> u64 {
    section.field(key).and_then(|field| field.integer(least..=i64::MAX)).map_or(default, i64::unsigned_abs)
}

#[expect(clippy::needless_pass_by_value, reason = "callers have just made the section")]
fn number(section: Section<'_>, key: &str, least: i64, default: usize) -> usize {
    let count = count(&section, key, least, default as u64);
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::Severity;

    #[test]
    fn a_user_is_the_one_that_runs_the_gateway_or_a_mistake() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:\nbroken\n";
        for (user, own, expected) in [
            ("root", 0, None),
            ("nobody", 65_534, None),
            ("nobody nogroup", 65_534, None),
            ("nobody", 0, Some(Severity::Error)),
            ("somebody", 0, Some(Severity::Error)),
            ("root", 1_000, Some(Severity::Warning)),
            ("nobody", 1_000, Some(Severity::Warning)),
        ] {
            let root = document::parse_yaml(&format!("user: {user}\n")).unwrap();
            let found = Found::default();
            check_user(&Section::root(&root, &found), own, accounts);
            let found = found.into_sorted();
            assert_eq!(found.first().map(|problem| problem.severity), expected, "{user} {own}");
        }
    }
}
