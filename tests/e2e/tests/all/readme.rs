//! The README's commands, taken from its text: each shell block is run as a newcomer would run it.

use e2e::{Home, Process, binary, eventually, own_network};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

const README: &str = include_str!("../../../../README.md");

/// How a block is run.
#[derive(Debug, PartialEq, Eq)]
enum Block {
    /// The gateway, with these arguments; it stays.
    Gateway(&'static str),
    /// The upstream, which stays.
    Upstream,
    /// Commands that end.
    Commands,
    /// These tests themselves, and building a release, which `cargo build` does like any other build.
    NotHere,
}

fn blocks() -> impl Iterator<Item = &'static str> {
    README.split("```shell\n").skip(1).map(|rest| rest.split("```").next().unwrap().trim())
}

fn kind(block: &'static str) -> Block {
    match block {
        "cargo xtask ci" => Block::NotHere,
        _ if block.starts_with("cargo run --release -- ") => {
            Block::Gateway(&block["cargo run --release -- ".len()..])
        }
        _ if block.starts_with("cargo build --release\n./target/release/tidegate ") => {
            Block::Gateway(&block["cargo build --release\n./target/release/tidegate ".len()..])
        }
        _ if block.contains("http.server") => Block::Upstream,
        _ if block.starts_with("curl ") || block.starts_with('#') => Block::Commands,
        _ => panic!("say here how this block of README.md is run:\n{block}"),
    }
}

/// What the README says of the commands that end, in their order.
const SAID: [&[&str]; 4] = [
    &[r#""key":"/apisix/routes/1""#],
    &["HTTP/1.1 200 OK\r\n", "\r\n\r\nsomething\n"],
    &[r#""uri":"/hello""#],
    &[r#""limit-count""#],
];

#[test]
fn the_commands_of_the_readme_work() {
    own_network("readme::the_commands_of_the_readme_work", &[9080, 9180, 7085, 9091, 9090, 1980], |home| {
        if home == Home::Shared {
            // Its ports are somebody else's here, and other ports would not be its commands. The studies' test, which
            // has the same commands, puts others in their place.
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (mut gateway, mut upstream) = (None, None);
        let mut said = SAID.iter();
        for block in blocks() {
            match kind(block) {
                Block::NotHere => {}
                Block::Gateway(arguments) => {
                    // One at a time: they use the same ports.
                    drop(gateway.take());
                    gateway =
                        Some(start(Command::new(binary()).args(arguments.split(' ')), dir.path(), 9080));
                }
                Block::Upstream => {
                    // `exec`, so that the shell's own process is the one to end.
                    let script = block.replace("\npython3", "\nexec python3");
                    upstream = Some(start(Command::new("sh").args(["-c", &script]), dir.path(), 1980));
                }
                Block::Commands => {
                    check(dir.path(), block, said.next().expect("SAID has a line for each block"));
                }
            }
            if block.contains("limit-count") {
                check(
                    dir.path(),
                    "curl -i http://127.0.0.1:9080/hello",
                    &[
                        "200 OK",
                        "X-RateLimit-Limit: ",
                        "X-RateLimit-Remaining: ",
                        "X-RateLimit-Reset: ",
                        "\r\n\r\nhello\n",
                    ],
                );
                check(dir.path(), "curl http://127.0.0.1:9080/", &[r#"{"error_msg":"404 Route Not Found"}"#]);
                check(
                    dir.path(),
                    "curl http://127.0.0.1:9091/apisix/prometheus/metrics",
                    &["apisix_http_status{code=\"200\""],
                );
                check(dir.path(), "curl http://127.0.0.1:7085/status/ready", &[r#"{"status":"ok"}"#]);
            }
        }
        assert_eq!(said.next(), None, "README.md has fewer commands than are expected");
        assert!(gateway.is_some() && upstream.is_some());
        assert!(
            dir.path().join("tidegate-data/admin.key").is_file(),
            "the last start was the one for production"
        );
    });
}

fn start(command: &mut Command, dir: &Path, port: u16) -> Process {
    let quiet = command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Process::start(quiet);
    eventually("the port is served", || {
        assert!(process.ended().is_none(), "it ended");
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    process
}

fn check(dir: &Path, command: &str, expected: &[&str]) {
    let output = Command::new("sh").args(["-c", command]).current_dir(dir).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command}\n{}", String::from_utf8_lossy(&output.stderr));
    for part in expected {
        assert!(text.contains(part), "{command}\nlacks {part:?}:\n{text}");
    }
}
