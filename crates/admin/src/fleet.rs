//! `?wait=all&timeout=5s`: a write is answered when every node of the fleet has it. Whether they do is said in the
//! `X-Applied` header: a write that some node is slow to take is done all the same.

use crate::http::args::Args;
use crate::http::respond::Answer;
use crate::{Admin, AdminRequest};
use std::cell::Cell;
use std::time::Duration;
use store::etcd::Member;
use tokio::time::{Instant, sleep};

/// How long is waited where the request names no time...
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// ...and at most.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// How often the nodes are asked.
const ASK_PAUSE: Duration = Duration::from_millis(20);

tokio::task_local! {
    /// The revision that the request at hand has written.
    static WRITTEN: Cell<u64>;
}

/// The request at hand has written this revision.
fn written(revision: u64) {
    // A write outside of a request is nobody's to wait for.
    let _ = WRITTEN.try_with(|written| written.set(revision));
}

impl Admin {
    /// Waits until the workers have `revision`, for a bounded time.
    pub(crate) async fn wait_applied(&self, revision: u64) {
        written(revision);
        let mut applied = self.applied.clone();
        let reached =
            tokio::time::timeout(self.settings.apply_wait, applied.wait_for(|applied| *applied >= revision))
                .await;
        if !matches!(reached, Ok(Ok(_))) {
            tracing::warn!(revision, "answered a write that the workers have not taken yet");
        }
    }
}

/// Answers with `answer`, and waits before that for the fleet where the request asks for it.
pub(crate) async fn waiting(
    admin: &Admin,
    request: &AdminRequest,
    answer: impl Future<Output = Answer>,
) -> Answer {
    let args = Args::parse(&request.query);
    if args.get("wait") != Some("all") {
        return answer.await;
    }
    let limit = args
        .get("timeout")
        .and_then(|text| stdx::units::duration(text).ok())
        .unwrap_or(TIMEOUT_DEFAULT)
        .min(TIMEOUT_MAX);
    let (answer, revision) =
        WRITTEN.scope(Cell::new(0), async { (answer.await, WRITTEN.with(Cell::get)) }).await;
    let answer = answer?;
    if revision == 0 {
        return Ok(answer);
    }
    let applied = applied(admin, revision, limit).await;
    Ok(answer.with("X-Applied", applied))
}

/// What came of waiting.
async fn applied(admin: &Admin, revision: u64, limit: Duration) -> String {
    let Some(fleet) = &admin.fleet else {
        let mut applied = admin.applied.clone();
        let reached = tokio::time::timeout(limit, applied.wait_for(|applied| *applied >= revision)).await;
        return if matches!(reached, Ok(Ok(_))) { "all; nodes=1".to_owned() } else { "0 of 1".to_owned() };
    };
    let deadline = Instant::now() + limit;
    loop {
        let said = match fleet.members().await {
            Ok(members) => match missing(&members, revision) {
                None => return format!("all; nodes={}", members.len()),
                Some(said) => said,
            },
            Err(error) => format!("unknown: {error}"),
        };
        if Instant::now() + ASK_PAUSE >= deadline {
            return said;
        }
        sleep(ASK_PAUSE).await;
    }
}

/// Who hasn't got there; `None` where everybody has.
fn missing(members: &[Member], revision: u64) -> Option<String> {
    let behind: Vec<&Member> = members.iter().filter(|member| member.revision < revision).collect();
    if behind.is_empty() && !members.is_empty() {
        return None;
    }
    let names: Vec<&str> = behind.iter().map(|member| member.host.as_str()).collect();
    let there = members.len() - behind.len();
    Some(format!("{there} of {}; waiting for {}", members.len(), names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_behind_are_named() {
        let member = |host: &str, revision| Member {
            id: host.to_owned(),
            host: host.to_owned(),
            version: String::new(),
            revision,
        };
        assert_eq!(missing(&[member("a", 5), member("b", 6)], 5), None);
        let said = missing(&[member("a", 5), member("b", 4)], 5);
        assert_eq!(said.as_deref(), Some("1 of 2; waiting for b"));
        assert!(missing(&[], 1).is_some(), "not even this node");
    }
}
