//! The command line from outside: exit codes, what is said where, and the guide's commands as they are written.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is its failure")]

mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use server::{Server, answer};

const GUIDE: &str = include_str!("../../../docs/guide/bench.md");

/// The command alone, as the example `load` has it; built where only some tests were asked for.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let binary = test.ancestors().nth(2).unwrap().join("examples/load");
        if !binary.is_file() {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let built = Command::new(cargo).args(["build", "-p", "bench", "--example", "load"]).status();
            assert!(built.unwrap().success());
        }
        binary
    })
}

fn bench(line: &str) -> Output {
    Command::new(binary()).args(line.split_whitespace()).stdin(Stdio::null()).output().unwrap()
}

fn hello() -> Server {
    Server::start(|_, socket| {
        answer(socket, b"hello\n");
        None
    })
}

#[test]
fn exit_codes_tell_what_happened() {
    let good = hello();
    let failing = Server::start(|_, socket| {
        server::send(socket, b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n");
        None
    });
    let silent = Server::start(|_, _| None);
    let garbage = Server::start(|_, socket| {
        server::send(socket, b"hello, who is there?\r\n");
        None
    });
    let closing = Server::start(|_, socket| {
        drop(socket.shutdown(std::net::Shutdown::Both));
        None
    });
    let (good, failing, silent) = (good.address, failing.address, silent.address);
    let (garbage, closing) = (garbage.address, closing.address);
    for (line, code, said) in [
        (format!("http://{good}/ -d 200ms"), 0, ""),
        (format!("http://{good}/ -d 200ms --threshold rps>=1 --threshold p99<=5s"), 0, ""),
        (format!("http://{good}/ -d 200ms --threshold p99<=1ns"), 3, "threshold missed: p99<=1ns"),
        (format!("http://{good}/ -n 5 --check-length 7"), 1, "requests failed"),
        (format!("http://{failing}/ -d 200ms"), 1, "requests failed"),
        (format!("http://{failing}/ -d 200ms --threshold errors<=100%"), 0, ""),
        (format!("http://{silent}/ -d 200ms --timeout 300ms"), 1, "no complete answer within 0.3 s"),
        (format!("http://{garbage}/ -d 200ms"), 1, "not HTTP/1.1"),
        (format!("http://{closing}/ -d 200ms"), 1, "without an answer"),
        ("http://127.0.0.1:1/ -d 200ms".to_owned(), 1, "connection refused"),
        ("http://nowhere.invalid/ -d 200ms".to_owned(), 1, "can't be resolved"),
        (format!("https://{good}/ -k -d 200ms --timeout 300ms"), 1, "TLS"),
        (format!("http://{good}/ -c 0"), 2, "--connections"),
        (String::new(), 2, "URL"),
    ] {
        let output = bench(&line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
        assert!(stderr.contains(said), "{line}: {stderr}");
    }
}

#[test]
fn json_is_a_result_file_and_nothing_else() {
    let server = hello();
    for pace in ["", "--rate 100"] {
        let output =
            bench(&format!("http://{}/ -c 2 -d 300ms -H Authorization:secret {pace} --json", server.address));
        let file: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(file["requests_per_second"].as_f64().unwrap() > 0.0);
        assert!(file["latency_ms"]["p99"].as_f64().unwrap() > 0.0);
        let run = &file["series"][0]["runs"][0];
        assert_eq!(run["response_time"].is_null(), pace.is_empty(), "{run}");
        assert!(run["service_time"]["hdr"].is_string());
        assert!(!String::from_utf8_lossy(&output.stdout).contains("secret"));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn an_interrupted_run_prints_what_it_has() {
    let server = hello();
    let child = Command::new(binary())
        .args([&format!("http://{}/", server.address), "-d", "60s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while server.count() < 20 {
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("this is what was measured so far") && text.contains("Requests/sec:"), "{text}");
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn the_guides_commands_work_as_written() {
    let server = hello();
    let mut commands = 0;
    for block in GUIDE.split("```shell\n").skip(1) {
        let line = block.split("```").next().unwrap().trim();
        let line =
            line.strip_prefix("tidegate bench ").unwrap_or_else(|| panic!("no such command here: {line}"));
        let line = line.replace("127.0.0.1:9080", &server.address.to_string()).replace('\'', "");
        let output = bench(&line);
        let text = String::from_utf8_lossy(&output.stdout);
        // On a crowded machine a search over fractions of a second may end without a load that is confirmed.
        let expected: &[i32] = if line.contains("--sla") { &[0, 3] } else { &[0] };
        let code = output.status.code().unwrap();
        assert!(
            expected.contains(&code),
            "{line}: {code} {text} {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!text.is_empty());
        commands += 1;
    }
    assert_eq!(commands, 6);
}
