//! `tidegate config accept`: an operator's decision to follow a config source that the gateway rejects.

use crate::admin_client::{AdminClient, said};
use crate::cli::AcceptArgs;
use crate::output::{complain, say};
use anyhow::bail;
use serde_json::Value;

/// Accepts what the config source holds.
///
/// # Errors
/// When the gateway can't be asked, or there is nothing to accept.
pub(crate) fn run(args: &AcceptArgs) -> anyhow::Result<()> {
    let client = AdminClient::new(&args.admin)?;
    let state = client.get("/config_source")?;
    if state["state"] != "rejected" {
        bail!("the config source is not rejected (state: {}): nothing to accept", text(&state["state"]));
    }
    let (serving, found) = (&state["serving"], &state["found"]);
    if !args.admin.json {
        say(format_args!("rejected: {}", text(&state["reason"])))?;
        say(format_args!("serving:  {}", facts(serving)))?;
        say(format_args!("found:    {}", facts(found)))?;
    }
    if args.dry_run {
        return if args.admin.json { say(&state) } else { Ok(()) };
    }
    // What is accepted is what was shown.
    let path = format!("/config_source/accept?revision={}", found["revision"]);
    let answer = match client.call("POST", &path, None)? {
        (200, answer) => answer,
        (status, answer) => bail!("POST {path}: {status}: {}", said(&answer)),
    };
    if answer["shared"] == false {
        complain(format_args!(
            "the other nodes don't know of this: accept on each of them ({})",
            text(&answer["error"])
        ));
    }
    if args.admin.json { say(&answer) } else { say("accepted") }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn facts(facts: &Value) -> String {
    let (resources, revision) = (&facts["resources"], &facts["revision"]);
    format!("{resources} resources at revision {revision} of cluster {}", text(&facts["cluster_id"]))
}
