use super::*;
use model::var::{Var, VarSource};
use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

/// A request that went through an upstream.
struct Proxied;

impl VarSource for Proxied {
    fn var(&self, var: &Var) -> Option<Cow<'_, [u8]>> {
        (*var == Var::RouteId).then_some(Cow::Borrowed(b"1"))
    }
}

impl LogSource for Proxied {
    fn remote_addr(&self) -> &[u8] {
        b"10.0.0.1"
    }
    fn request_line(&self) -> [&[u8]; 3] {
        [b"GET", b"/hello?a=\"b\"", b"HTTP/1.1"]
    }
    fn request_id(&self) -> Option<u128> {
        Some(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef)
    }
    fn status(&self) -> u16 {
        200
    }
    fn bytes_sent(&self) -> u64 {
        312
    }
    fn body_bytes_sent(&self) -> u64 {
        12
    }
    fn request_length(&self) -> u64 {
        78
    }
    fn request_time(&self) -> Duration {
        Duration::from_micros(12_345_678)
    }
    fn header(&self, header: LogHeader) -> Option<&[u8]> {
        match header {
            LogHeader::Host => Some(b"a.com:9080"),
            LogHeader::UserAgent => Some(b"curl/8.0"),
            LogHeader::Referer => None,
        }
    }
    fn upstream(&self) -> UpstreamFields<'_> {
        UpstreamFields {
            addr: b"127.0.0.1:1980",
            status: 200,
            response_time: Some(Duration::from_millis(4)),
            scheme: b"http",
            host: Some(b"a.com:9080"),
            uri: b"",
        }
    }
}

fn worker() -> WorkerToken {
    WorkerToken::claim().expect("fewer tests than tokens")
}

fn config(folder: &Path, format: &str, escape: Escape) -> AccessLogConfig {
    AccessLogConfig {
        path: folder.join("logs/access.log"),
        format: format.to_owned(),
        escape,
        ..AccessLogConfig::default()
    }
}

/// What a log of this format holds after one request.
fn line(format: &str, escape: Escape) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path(), format, escape);
    let log = AccessLog::open(&config).expect("opens");
    let worker = worker();
    log.record(&worker, &Proxied, 1_793_620_800_250);
    log.tick(&worker);
    drop(log);
    std::fs::read_to_string(&config.path).expect("written")
}

#[test]
fn apisix_default_format_is_rendered_field_by_field() {
    let written = line(DEFAULT_FORMAT, Escape::Default);
    let (before, after) = written.split_once('[').expect("a time");
    assert_eq!(before, "10.0.0.1 - - ");
    let (time, after) = after.split_once("] ").expect("a time");
    assert_eq!(time.len(), "02/Nov/2026:12:00:00 +0000".len());
    assert_eq!(
        after,
        concat!(
            r#"a.com:9080 "GET /hello?a=\x22b\x22 HTTP/1.1" 200 12 12.345 "-" "curl/8.0" "#,
            r#"127.0.0.1:1980 200 0.004 "http://a.com:9080" "0123456789abcdef0123456789abcdef""#,
            "\n"
        )
    );
}

#[test]
fn a_json_format_gives_json() {
    let format = r#"{"request":"$request","referer":"$http_referer","route":"$route_id","msec":$msec}"#;
    assert_eq!(
        line(format, Escape::Json),
        "{\"request\":\"GET /hello?a=\\\"b\\\" HTTP/1.1\",\"referer\":\"\",\"route\":\"1\",\"msec\":1793620800.250}\n"
    );
}

#[test]
fn full_buffers_are_handed_over_without_a_tick() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = AccessLogConfig { buffer: 100, ..config(folder.path(), "$remote_addr", Escape::None) };
    let (log, worker) = (AccessLog::open(&config).expect("opens"), worker());
    for _ in 0..12 {
        log.record(&worker, &Proxied, 0);
    }
    drop(log);
    // "10.0.0.1\n" is 9 bytes: the twelfth line fills the buffer.
    assert_eq!(std::fs::read_to_string(&config.path).expect("written").lines().count(), 12);
}

#[test]
fn lines_longer_than_the_buffer_are_written_and_longer_than_any_limit_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = "x".repeat(100_000);
    let config = AccessLogConfig { buffer: 100, ..config(folder.path(), &long, Escape::None) };
    let (log, worker) = (AccessLog::open(&config).expect("opens"), worker());
    log.record(&worker, &Proxied, 0);
    log.record(&worker, &Proxied, 0);
    assert_eq!(log.dropped(), 0);
    drop(log);
    assert_eq!(std::fs::read_to_string(&config.path).expect("written"), format!("{long}\n{long}\n"));

    let config = AccessLogConfig { format: "x".repeat(2 * LINE_MAX), ..config };
    let log = AccessLog::open(&config).expect("opens");
    log.record(&worker, &Proxied, 0);
    assert_eq!(log.dropped(), 1);
}

#[test]
fn after_rotation_lines_go_to_the_new_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path(), "$status", Escape::Default);
    let (log, worker) = (AccessLog::open(&config).expect("opens"), worker());
    let rotated = folder.path().join("logs/access.log.1");
    std::fs::rename(&config.path, &rotated).expect("renamed");
    log.reopen();
    log.record(&worker, &Proxied, 0);
    log.tick(&worker);
    drop(log);
    assert_eq!(std::fs::read_to_string(&config.path).expect("written"), "200\n");
    assert_eq!(std::fs::read_to_string(&rotated).expect("there"), "");
}

#[test]
fn a_log_that_can_not_be_written_loses_lines_and_counts_them() {
    let path = PathBuf::from("/dev/full");
    let config = AccessLogConfig { path, format: "$status".to_owned(), ..AccessLogConfig::default() };
    let (log, worker) = (AccessLog::open(&config).expect("opens"), worker());
    for _ in 0..3 {
        log.record(&worker, &Proxied, 0);
    }
    log.tick(&worker);
    // The thread writes in its own time; this waits for it by filling nothing and asking until it has tried.
    while log.dropped() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(log.dropped(), 3);
}

#[test]
fn a_path_that_can_not_be_opened_is_an_error() {
    let config = AccessLogConfig { path: "/dev/null/access.log".into(), ..AccessLogConfig::default() };
    assert!(AccessLog::open(&config).is_err());
}
