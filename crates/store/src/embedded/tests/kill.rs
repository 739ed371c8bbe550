//! Every acknowledged write survives SIGKILL.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::{open, place};
use crate::Store;

/// Set in the process that is to be killed: the store's file.
const VICTIM: &str = "STORE_TEST_KILL_VICTIM";

/// The test binary, started again with this one test and [`VICTIM`] set; otherwise the test is empty.
#[test]
fn victim() {
    let Ok(path) = std::env::var(VICTIM) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(open(Path::new(&path)));
        // Several at once, so that commits of groups are hit too.
        let writers: Vec<_> = (0..4).map(|n| tokio::spawn(write_forever(Arc::clone(&store), n))).collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

async fn write_forever(store: Arc<impl Store>, writer: u32) {
    for round in 0.. {
        let key = format!("/w/{writer}/{}", round % 64);
        let value = format!("{round}:{}", "x".repeat(round % 5000));
        let committed = store.put(&key, value.as_bytes().into(), None).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "ack {} {key} {round}", committed.revision).unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn acknowledged_writes_survive_sigkill() {
    let (_directory, path) = place();
    let mut last_revision = 0;
    // Killed after so many acknowledgements: at the very first, and at odd later ones.
    for lines in [1, 2, 17, 90, 251, 403] {
        let acknowledged = kill_after(&path, lines);
        assert!(acknowledged.len() >= lines);
        let store = open(&path);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for (revision, key, round) in &acknowledged {
                let entry = store.value_at(key, *revision).await.unwrap().unwrap();
                assert_eq!(entry.mod_revision, *revision);
                assert!(entry.value.starts_with(format!("{round}:").as_bytes()), "{key} at {revision}");
                assert!(*revision > last_revision);
            }
            let newest = store.list("").await.unwrap().revision;
            assert!(acknowledged.iter().all(|(revision, ..)| *revision <= newest));
            last_revision = newest;
        });
    }
}

/// Runs the victim, kills it after `lines` acknowledgements and returns all that it had written out by then.
fn kill_after(path: &Path, lines: usize) -> Vec<(u64, String, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "embedded::tests::kill::victim", "--nocapture", "--test-threads=1"])
        .env(VICTIM, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut acknowledged = Vec::new();
    let mut line = String::new();
    while out.read_line(&mut line).unwrap() > 0 {
        // A line without its end was cut by the kill: it may not have been meant for anyone yet.
        if line.ends_with('\n')
            && let Some(at) = line.find("ack ")
        {
            let words: Vec<&str> = line[at..].split_whitespace().collect();
            acknowledged.push((words[1].parse().unwrap(), words[2].to_owned(), words[3].to_owned()));
            if acknowledged.len() == lines {
                child.kill().unwrap();
            }
        }
        line.clear();
    }
    child.wait().unwrap();
    acknowledged
}
