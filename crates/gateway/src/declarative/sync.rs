//! `tidegate config sync` and `diff`: makes the running configuration that of a file.
//!
//! First the whole change is checked in a dry run, references within it included, so that a mistake anywhere changes
//! nothing. What is the same already is left out by the Admin API, which alone can compare secrets. The rest is one
//! transaction, or, where the store's limits are smaller, several batches, each of them atomic: first what is written,
//! in the order of references, then what is deleted. A batch that fails ends the sync with a list of what is active and
//! what is not.

use super::scope::{KINDS, Scope};
use super::{Declared, read_or_refuse};
use crate::admin_client::{AdminClient, said};
use crate::cli::SyncArgs;
use crate::output::{complain, say, show};
use anyhow::{Context, bail};
use document::diagnostic::Code;
use document::{Diagnostic, Report, codes};
use model::Kind;
use serde_json::{Value, json};
use std::collections::{HashSet, VecDeque};

/// Writes the file to the gateway, or with `dry` lists what that would change.
///
/// # Errors
/// When the file or what it asks for is refused, or the gateway can't be asked.
pub(crate) fn run(args: &SyncArgs, dry: bool) -> anyhow::Result<()> {
    let declared = read_or_refuse(&args.file, args.admin.json)?;
    let scope = Scope::new(&args.scope)?;
    let client = AdminClient::new(&args.admin)?;
    let operations = operations(&declared, &scope, &client)?;
    let json = args.admin.json;
    let planned = plan(&client, &declared, operations, json)?;
    let mut run = Run {
        planned: planned.len(),
        revisions: Vec::new(),
        done: Vec::new(),
        refused: Report::default(),
        json,
    };
    if dry {
        run.finish(planned)?;
    } else {
        let limits = client.get("/txn")?;
        let mut batches: VecDeque<Vec<Step>> = split(planned, &limits).into();
        if batches.len() > 1 {
            let count = batches.len();
            complain(format_args!("too large for one transaction: applying {count} atomic batches"));
        }
        while let Some(batch) = batches.pop_front() {
            if batch.is_empty() {
                continue;
            }
            match send(&client, &batch)? {
                Sent::Done(revision) => {
                    complain(format_args!("revision {revision}"));
                    run.revisions.push(revision);
                    run.finish(batch)?;
                }
                // Deletions can take more with them, which the limits count too.
                Sent::TooLarge if batch.len() > 1 => {
                    let mut first = batch;
                    let second = first.split_off(first.len() / 2);
                    batches.push_front(second);
                    batches.push_front(first);
                }
                Sent::TooLarge => {
                    return Err(run.stopped("it is larger than the store's limits", &batch, &batches));
                }
                Sent::Refused(answer) => {
                    let report = report_of(&answer, &declared, &batch);
                    if json {
                        run.refused = report;
                    } else {
                        show(&report);
                    }
                    return Err(run.stopped(&summary(&answer), &batch, &batches));
                }
                Sent::Unknown(why) => {
                    complain("the batch may have been applied or not: run `tidegate config diff` to see");
                    return Err(run.stopped(&why, &batch, &batches));
                }
            }
        }
    }
    run.summary(dry)
}

/// One change: the operation that is sent, and the line of the dry run's answer that describes it.
#[derive(Debug, Clone)]
struct Step {
    operation: Value,
    change: Value,
}

/// How far a sync is.
#[derive(Debug)]
struct Run {
    planned: usize,
    revisions: Vec<Value>,
    done: Vec<Value>,
    /// What the gateway has against the batch that it refused.
    refused: Report,
    json: bool,
}

impl Run {
    /// Records and prints what was done, or would be.
    fn finish(&mut self, steps: Vec<Step>) -> anyhow::Result<()> {
        let changes = steps.into_iter().map(|step| step.change);
        for change in changes {
            if !self.json {
                say(line(&change))?;
            }
            self.done.push(change);
        }
        Ok(())
    }

    fn summary(&self, dry: bool) -> anyhow::Result<()> {
        let (created, updated, deleted) = self.counts();
        if self.json {
            let summary = json!({ "created": created, "updated": updated, "deleted": deleted });
            return say(json!({ "dry_run": dry, "summary": summary, "operations": self.done }));
        }
        let verb = if dry { "would be " } else { "" };
        say(format_args!("{created} {verb}created, {updated} {verb}updated, {deleted} {verb}deleted"))
    }

    fn counts(&self) -> (usize, usize, usize) {
        let count = |outcome: &str| self.done.iter().filter(|change| change["outcome"] == outcome).count();
        (count("created"), count("updated"), count("deleted"))
    }

    /// The error of a sync that ends with `batch`, before `rest`. What is active was printed as it was done; what is
    /// not is listed here.
    fn stopped(&self, why: &str, batch: &[Step], rest: &VecDeque<Vec<Step>>) -> anyhow::Error {
        let open = || batch.iter().chain(rest.iter().flatten()).map(|step| &step.change);
        if self.json {
            let keys: Vec<&Value> = open().map(|change| &change["key"]).collect();
            let mut report = self.refused.to_json();
            report["operations"] = json!(self.done);
            report["revisions"] = json!(self.revisions);
            report["not_applied"] = json!(keys);
            if let Err(error) = say(report) {
                return error;
            }
        } else {
            open().for_each(|change| complain(format_args!("not applied: {}", line(change))));
        }
        if self.done.is_empty() {
            return anyhow::anyhow!("the gateway refuses that: {why}; nothing was changed");
        }
        let revisions: Vec<String> = self.revisions.iter().map(Value::to_string).collect();
        anyhow::anyhow!(
            "batch {} was refused: {why}; {} of {} changes are active (revisions {}), {} are not; correct the mistake \
             and run the command again",
            self.revisions.len() + 1,
            self.done.len(),
            self.planned,
            revisions.join(", "),
            self.planned - self.done.len(),
        )
    }
}

/// Checks the whole change in a dry run, and returns what it would change.
fn plan(
    client: &AdminClient,
    declared: &Declared,
    operations: Vec<Value>,
    json: bool,
) -> anyhow::Result<Vec<Step>> {
    let body = json!({ "operations": operations });
    let path = "/txn?skip_unchanged=true&dry_run=true&any_size=true";
    let (status, mut answer) = client.call("POST", path, Some(&body))?;
    if status != 200 {
        let steps: Vec<Step> =
            operations.into_iter().map(|operation| Step { operation, change: Value::Null }).collect();
        let report = report_of(&answer, declared, &steps);
        if json {
            say(report.to_json())?;
        } else {
            show(&report);
        }
        bail!("the gateway refuses that ({status}): {}; nothing was changed", summary(&answer));
    }
    let Some(Value::Array(changes)) = answer.get_mut("operations").map(Value::take) else {
        bail!("the gateway's answer to a dry run has no operations");
    };
    if changes.len() != operations.len() {
        bail!("the gateway's answer to a dry run has {} of {} operations", changes.len(), operations.len());
    }
    let steps = operations.into_iter().zip(changes).map(|(operation, change)| Step { operation, change });
    Ok(steps.filter(|step| step.change["outcome"] != "unchanged").collect())
}

/// All that the file has, and the deletion of what it has not.
fn operations(declared: &Declared, scope: &Scope, client: &AdminClient) -> anyhow::Result<Vec<Value>> {
    let rank = |key: &str| {
        let kind = Kind::parse_key(key).map(|(kind, _)| kind);
        KINDS.iter().position(|known| Some(*known) == kind).unwrap_or(KINDS.len())
    };
    let meant = declared.items.iter().map(|(resource, _)| resource);
    let mut meant: Vec<_> = meant.filter(|resource| scope.has(&resource.key, &resource.fields)).collect();
    meant.sort_by_key(|resource| rank(&resource.key));
    let kept: HashSet<&str> = meant.iter().map(|resource| resource.key.as_str()).collect();
    let put =
        |resource: &&admin::Resource| json!({ "op": "put", "key": resource.key, "value": resource.fields });
    let mut operations: Vec<Value> = meant.iter().map(put).collect();
    let mut gone = scope.running(client)?;
    gone.retain(|running| !kept.contains(running.key.as_str()));
    gone.sort_by_key(|running| std::cmp::Reverse(rank(&running.key)));
    for running in gone {
        let mut operation = json!({ "op": "delete", "key": running.key });
        if running.modified.is_u64() {
            operation["modifiedIndex"] = running.modified;
        }
        operations.push(operation);
    }
    Ok(operations)
}

/// As many batches as the limits ask for.
fn split(steps: Vec<Step>, limits: &Value) -> Vec<Vec<Step>> {
    let limit = |name: &str| usize::try_from(limits[name].as_u64().unwrap_or(128)).unwrap_or(usize::MAX);
    let (most, bytes_most) = (limit("operations_max"), limit("bytes_max"));
    // The body has more than the values: a tenth is left for that.
    let bytes_most = bytes_most - bytes_most / 10;
    let mut batches: Vec<Vec<Step>> = vec![Vec::new()];
    let mut bytes = 0;
    for step in steps {
        let size = step.operation.to_string().len();
        let full = batches
            .last()
            .is_some_and(|batch| !batch.is_empty() && (batch.len() >= most || bytes + size > bytes_most));
        if full {
            batches.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        batches.last_mut().into_iter().for_each(|batch| batch.push(step.clone()));
    }
    batches
}

/// What became of a batch.
enum Sent {
    /// It is active, at this revision.
    Done(Value),
    /// It exceeds a limit of the store; nothing of it is active.
    TooLarge,
    /// It was refused with this answer; nothing of it is active.
    Refused(Value),
    /// There is no answer, or one that leaves open what was done.
    Unknown(String),
}

fn send(client: &AdminClient, batch: &[Step]) -> anyhow::Result<Sent> {
    let operations: Vec<&Value> = batch.iter().map(|step| &step.operation).collect();
    let body = json!({ "operations": operations });
    let (status, answer) = match client.call("POST", "/txn?skip_unchanged=true", Some(&body)) {
        Ok(answered) => answered,
        Err(error) => return Ok(Sent::Unknown(format!("{error:#}"))),
    };
    Ok(match status {
        200 => Sent::Done(answer.get("revision").cloned().context("an answer without a revision")?),
        400 if said(&answer).contains("a transaction ") => Sent::TooLarge,
        400..=499 => Sent::Refused(answer),
        _ => Sent::Unknown(format!("{status}: {}", said(&answer))),
    })
}

/// What a refusal has against operations, each with its position in the file.
fn report_of(answer: &Value, declared: &Declared, batch: &[Step]) -> Report {
    let errors = answer["errors"].as_array().into_iter().flatten();
    let diagnostic = |error: &Value| {
        let path = error["path"].as_str().unwrap_or_default();
        let mut parts = path.splitn(4, '/').skip(2);
        let step = parts.next().and_then(|index| batch.get(index.parse::<usize>().ok()?));
        let key = step.and_then(|step| step.operation["key"].as_str()).unwrap_or_default();
        let pointer = parts.next().and_then(|rest| rest.strip_prefix("value")).unwrap_or_default();
        let code = error["code"].as_str().and_then(Code::parse).unwrap_or(codes::INVALID_RESOURCE);
        let message = error["message"].as_str().unwrap_or_default();
        declared.placed(Diagnostic::error(code, message).resource(key).path(pointer))
    };
    Report { diagnostics: errors.map(diagnostic).collect() }
}

/// How many errors a refusal has, or what it says without any.
fn summary(answer: &Value) -> String {
    match answer["errors"].as_array().map_or(0, Vec::len) {
        0 => said(answer),
        1 => "1 error".to_owned(),
        count => format!("{count} errors"),
    }
}

/// One operation, and below it what changes in a resource that was there.
fn line(operation: &Value) -> String {
    let key = operation["key"].as_str().unwrap_or_default();
    let outcome = operation["outcome"].as_str().unwrap_or_default();
    let mark = match outcome {
        "created" => '+',
        "deleted" => '-',
        _ => '~',
    };
    let mut text = format!("{mark} {key}");
    if outcome == "updated" {
        for change in operation["changes"].as_array().into_iter().flatten() {
            let side = |name: &str| change.get(name).map_or_else(|| "nothing".to_owned(), Value::to_string);
            let path = change["path"].as_str().unwrap_or_default();
            text += &format!("\n    {path}: {} -> {}", side("before"), side("after"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_as_large_as_the_limits_allow() {
        let steps: Vec<Step> = (0..5)
            .map(|n| json!({ "op": "delete", "key": format!("/routes/{n}") }))
            .map(|operation| Step { operation, change: Value::Null })
            .collect();
        let sizes = |most: u64, bytes: u64| {
            let limits = json!({ "operations_max": most, "bytes_max": bytes });
            split(steps.clone(), &limits).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(128, 10_000), [5]);
        assert_eq!(sizes(2, 10_000), [2, 2, 1]);
        assert_eq!(sizes(128, 90), [2, 2, 1]);
        assert!(split(Vec::new(), &json!({})).iter().all(Vec::is_empty));
    }

    #[test]
    fn an_operation_is_told_in_words() {
        let change = json!({ "path": "/uri", "before": "/a", "after": "/b" });
        let operation = json!({ "key": "/apisix/routes/1", "outcome": "updated", "changes": [change] });
        assert_eq!(line(&operation), "~ /apisix/routes/1\n    /uri: \"/a\" -> \"/b\"");
        assert_eq!(line(&json!({ "key": "/apisix/routes/1", "outcome": "deleted" })), "- /apisix/routes/1");
    }
}
