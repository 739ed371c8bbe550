//! The guides' commands, taken from their text: each shell block is run as a reader would run it, and has to say the
//! lines of the `text` block that follows it.

use e2e::{Etcd, Home, Process, binary, eventually, own_network};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// A fenced block: its language and its text.
fn blocks(guide: &str) -> impl Iterator<Item = (&str, &str)> {
    guide.split("\n```").skip(1).step_by(2).map(|block| block.split_once('\n').unwrap_or((block, "")))
}

/// The shell with this script, in `home`, where `tidegate` is the binary under test.
fn shell(home: &Path, script: &str) -> Command {
    let bin = binary().parent().unwrap().display().to_string();
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(home).stdin(Stdio::null());
    command.env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap()));
    command.env("XDG_DATA_HOME", home.join("xdg")).env_remove("TIDEGATE_DATA_DIR");
    command
}

fn follow(guide: &str) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let mut server: Option<Process> = None;
    let mut said = String::new();
    let mut commands = 0;
    for (language, text) in blocks(guide) {
        commands += usize::from(language == "shell");
        match language {
            "shell" if text.starts_with("tidegate serve ") || text.starts_with("tidegate start ") => {
                // One at a time, and `exec`, so that the shell's own process is the one to end.
                drop(server.take());
                let path = home.join("server.said");
                let mut command = shell(home, &format!("exec {text}"));
                let mut process =
                    Process::start(command.stdout(Stdio::null()).stderr(File::create(&path).unwrap()));
                eventually("it serves", || {
                    let said = fs::read_to_string(&path).unwrap();
                    assert!(process.ended().is_none(), "{text}\n{said}");
                    (said.contains("serving ") || said.contains("tidegate is ready")).then_some(())
                });
                server = Some(process);
            }
            "shell" => {
                let output = shell(home, text).output().unwrap();
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{text}\n{errors}");
                said = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
            }
            "text" => {
                for line in text.lines() {
                    assert!(said.lines().any(|other| other == line), "{line:?} is not in:\n{said}");
                }
            }
            _ => {}
        }
    }
    assert!(commands > 3, "the guide has lost its commands");
}

#[test]
fn the_guide_to_files_works() {
    own_network("guides::the_guide_to_files_works", &[8080, 8443], |home| {
        // Other ports would not be its commands; `serve`'s own tests choose theirs.
        if home == Home::Ours {
            follow(include_str!("../../../../docs/guide/files.md"));
        }
    });
}

#[test]
fn the_guide_for_those_who_come_from_nginx_works() {
    own_network("guides::the_guide_for_those_who_come_from_nginx_works", &[8081], |home| {
        if home == Home::Ours {
            follow(include_str!("../../../../docs/guide/nginx.md"));
        }
    });
}

#[test]
fn the_guide_to_caching_works() {
    own_network("guides::the_guide_to_caching_works", &[8080, 9080], |home| {
        if home == Home::Ours {
            follow(include_str!("../../../../docs/guide/caching.md"));
        }
    });
}

#[test]
fn the_guide_to_streams_works() {
    own_network("guides::the_guide_to_streams_works", &[9080, 9180], |home| {
        if home == Home::Ours {
            follow(include_str!("../../../../docs/guide/streams.md"));
        }
    });
}

#[test]
fn the_guide_for_users_of_apisix_works() {
    let name = "guides::the_guide_for_users_of_apisix_works";
    own_network(name, &[7185, 9081, 9190, 9191, 9444], |home| {
        if home == Home::Ours {
            let etcd = Etcd::start();
            let upstream = r#""upstream":{"type":"roundrobin","nodes":{"127.0.0.1:1980":1}}"#;
            etcd.put(
                "/apisix/routes/1",
                &format!(r#"{{"uri":"/a","plugins":{{"my-plugin":{{}}}},{upstream}}}"#),
            );
            etcd.put("/apisix/routes/2", &format!(r#"{{"uri":"/orders/*",{upstream}}}"#));
            let guide = include_str!("../../../../docs/guide/from-apisix.md");
            let own = format!("127.0.0.1:{}", etcd.port);
            assert!(guide.contains("10.0.0.1:2379"));
            follow(&guide.replace("10.0.0.1:2379", &own));
        }
    });
}
