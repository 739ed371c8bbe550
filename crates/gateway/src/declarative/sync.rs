//! `tidegate config sync` and `diff`: one transaction that makes the running configuration that of a file.
//!
//! What is the same already is left out by the Admin API, which alone can compare secrets. More than one transaction
//! holds goes in several, each of them atomic: first what is written, in the order of references, then what is deleted.

use super::scope::{KINDS, Scope};
use super::{Declared, read_or_refuse};
use crate::admin_client::{AdminClient, said};
use crate::cli::SyncArgs;
use crate::command::{complain, say};
use anyhow::bail;
use model::Kind;
use serde_json::{Value, json};
use std::collections::HashSet;

/// Writes the file to the gateway, or with `dry` tells what that would do.
///
/// # Errors
/// When the file or what it asks for is refused, or the gateway can't be asked.
pub(crate) fn run(args: &SyncArgs, dry: bool) -> anyhow::Result<()> {
    let declared = read_or_refuse(&args.file)?;
    let scope = Scope::new(&args.scope)?;
    let client = AdminClient::new(&args.admin)?;
    let operations = operations(&declared, &scope, &client)?;
    let parts = split(operations, &client.get("/txn")?);
    if parts.len() > 1 {
        complain(format_args!(
            "this is more than one transaction holds: it takes {} of them, each of which is done whole or not at all",
            parts.len()
        ));
    }
    let mut done: Vec<Value> = Vec::new();
    for part in parts {
        // What is to be done is shown with its details, which a dry run alone tells.
        let planned = send(&client, &declared, &part, true)?;
        let changes = changed(&planned);
        if !dry && !changes.is_empty() {
            let answer = send(&client, &declared, &part, false)?;
            complain(format_args!("revision {}", answer["revision"]));
        }
        if !args.admin.json {
            changes.iter().try_for_each(|change| say(line(change)))?;
        }
        done.extend(changes);
    }
    let count = |outcome: &str| done.iter().filter(|change| change["outcome"] == outcome).count();
    let (created, updated, deleted) = (count("created"), count("updated"), count("deleted"));
    if args.admin.json {
        let summary = json!({ "created": created, "updated": updated, "deleted": deleted });
        return say(json!({ "dry_run": dry, "summary": summary, "operations": done }));
    }
    let verb = if dry { "would be " } else { "" };
    say(format_args!("{created} {verb}created, {updated} {verb}updated, {deleted} {verb}deleted"))
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

/// As many transactions as the limits ask for.
fn split(operations: Vec<Value>, limits: &Value) -> Vec<Vec<Value>> {
    let limit = |name: &str| usize::try_from(limits[name].as_u64().unwrap_or(128)).unwrap_or(usize::MAX);
    let (most, bytes_most) = (limit("operations_max"), limit("bytes_max"));
    // The body has more than the values: a tenth is left for that.
    let bytes_most = bytes_most - bytes_most / 10;
    let mut parts: Vec<Vec<Value>> = vec![Vec::new()];
    let mut bytes = 0;
    for operation in operations {
        let size = operation.to_string().len();
        let full = parts
            .last()
            .is_some_and(|part| !part.is_empty() && (part.len() >= most || bytes + size > bytes_most));
        if full {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        parts.last_mut().into_iter().for_each(|part| part.push(operation.clone()));
    }
    parts
}

fn send(client: &AdminClient, declared: &Declared, part: &[Value], dry: bool) -> anyhow::Result<Value> {
    let path = format!("/txn?skip_unchanged=true&dry_run={dry}");
    let (status, answer) = client.call("POST", &path, Some(&json!({ "operations": part })))?;
    if status == 200 {
        return Ok(answer);
    }
    let errors = answer["errors"].as_array().cloned().unwrap_or_default();
    for error in &errors {
        let path = error["path"].as_str().unwrap_or_default();
        let mut parts = path.splitn(4, '/').skip(2);
        let key = parts.next().and_then(|index| part.get(index.parse::<usize>().ok()?)?.get("key")?.as_str());
        let key = key.unwrap_or_default();
        let pointer = parts.next().and_then(|rest| rest.strip_prefix("value")).unwrap_or_default();
        let place = declared.place_of(key, pointer);
        let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
        complain(format_args!("{place}{key}{pointer}: {}", error["message"].as_str().unwrap_or_default()));
    }
    match errors.len() {
        0 => bail!("the gateway refuses that ({status}): {}; nothing was changed", said(&answer)),
        1 => bail!("the gateway refuses that: 1 error; nothing was changed"),
        count => bail!("the gateway refuses that: {count} errors; nothing was changed"),
    }
}

/// The operations that change something.
fn changed(answer: &Value) -> Vec<Value> {
    let all = answer["operations"].as_array().into_iter().flatten();
    all.filter(|operation| operation["outcome"] != "unchanged").cloned().collect()
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
        let operations: Vec<Value> =
            (0..5).map(|n| json!({ "op": "delete", "key": format!("/routes/{n}") })).collect();
        let sizes = |most: u64, bytes: u64| {
            let limits = json!({ "operations_max": most, "bytes_max": bytes });
            split(operations.clone(), &limits).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(128, 10_000), [5]);
        assert_eq!(sizes(2, 10_000), [2, 2, 1]);
        assert_eq!(sizes(128, 90), [2, 2, 1]);
        assert_eq!(split(Vec::new(), &json!({})), [Vec::<Value>::new()]);
    }

    #[test]
    fn an_operation_is_told_in_words() {
        let change = json!({ "path": "/uri", "before": "/a", "after": "/b" });
        let operation = json!({ "key": "/apisix/routes/1", "outcome": "updated", "changes": [change] });
        assert_eq!(line(&operation), "~ /apisix/routes/1\n    /uri: \"/a\" -> \"/b\"");
        assert_eq!(line(&json!({ "key": "/apisix/routes/1", "outcome": "deleted" })), "- /apisix/routes/1");
    }
}
