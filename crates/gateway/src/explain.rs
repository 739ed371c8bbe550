//! `tidegate explain`: asks the running gateway's control API what it would do with a request, and tells it to people.

use crate::admin_client;
use crate::cli::ExplainArgs;
use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

/// How long the gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The answer for `args` from the control API at `address`: text, or the JSON that the API sent.
///
/// # Errors
/// When the gateway can't be asked, or has no answer.
pub fn run(args: &ExplainArgs, address: SocketAddr) -> anyhow::Result<String> {
    let question = question(args)?;
    let answer = ask(address, &question.to_string())
        .with_context(|| format!("the control API at {address} can't be asked"))?;
    if args.json {
        return Ok(answer.to_string());
    }
    tell(&answer).context("the answer can't be written")
}

/// What is asked: the URL taken apart, and the headers.
fn question(args: &ExplainArgs) -> anyhow::Result<Value> {
    let (host, uri) = match args.url.split_once("://") {
        Some((_, rest)) => {
            let at = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some(&rest[..at]).filter(|host| !host.is_empty()), &rest[at..])
        }
        None => (None, args.url.as_str()),
    };
    let slash = if uri.starts_with('/') { "" } else { "/" };
    let mut headers: Map<String, Value> = Map::new();
    for header in &args.headers {
        let Some((name, value)) = header.split_once(':') else {
            bail!("no header: {header}, expected `name: value`")
        };
        let values = headers.entry(name.trim()).or_insert_with(|| json!([]));
        values.as_array_mut().into_iter().for_each(|values| values.push(value.trim().into()));
    }
    let mut question = json!({ "method": args.method, "uri": format!("{slash}{uri}"), "headers": headers });
    let others = [
        ("host", host),
        ("remote_addr", args.remote_addr.as_deref()),
        ("consumer", args.consumer.as_deref()),
        ("body", args.body.as_deref()),
    ];
    for (name, value) in others {
        if let Some(value) = value {
            question[name] = value.into();
        }
    }
    Ok(question)
}

/// Sends the question.
fn ask(address: SocketAddr, question: &str) -> anyhow::Result<Value> {
    let request = admin_client::agent(PATIENCE)
        .post(format!("http://{address}/v1/explain"))
        .header("Content-Type", "application/json");
    let mut response = request.send(question)?;
    let text = response.body_mut().read_to_string()?;
    let answer: Value = serde_json::from_str(&text).context("an answer that is no JSON")?;
    if response.status() != 200 {
        bail!("{}", shown(answer.get("error_msg").unwrap_or(&answer)));
    }
    Ok(answer)
}

fn tell(answer: &Value) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    match &answer["route"] {
        Value::Null => writeln!(out, "No route matches {}.", shown(&answer["uri"]))?,
        route => writeln!(
            out,
            "Route {} ({}) matches {}.",
            shown(&route["id"]),
            place(route),
            shown(&answer["uri"])
        )?,
    }
    writeln!(out, "\nRoutes, in the order in which they are tried:")?;
    for route in list(&answer["considered"]) {
        let verdict = match route["outcome"].as_str() {
            Some("chosen") => "chosen".to_owned(),
            Some("beaten") => format!("fits, but another goes first by {}", shown(&route["by"])),
            _ if route["rule"].is_null() => format!("{} does not match", shown(&route["condition"])),
            _ => format!("{} does not match: {}", shown(&route["condition"]), route["rule"]),
        };
        writeln!(out, "  {} ({}): {verdict}", shown(&route["id"]), place(route))?;
    }
    if answer["omitted"].as_u64() > Some(0) {
        writeln!(out, "  and {} more", answer["omitted"])?;
    }
    writeln!(out, "\nPlugins, in the order in which they run:")?;
    if list(&answer["plugins"]).is_empty() {
        writeln!(out, "  none")?;
    }
    for plugin in list(&answer["plugins"]) {
        let from = shown(plugin["from"].get("key").unwrap_or(&Value::Null));
        let why = if plugin["why"].is_null() {
            String::new()
        } else {
            format!(", does not run: {}", shown(&plugin["why"]))
        };
        let over: Vec<String> = list(&plugin["overrides"]).iter().map(|layer| shown(&layer["key"])).collect();
        let over = if over.is_empty() { String::new() } else { format!(", in place of {}", over.join(", ")) };
        writeln!(out, "  {} from {from}{over}{why}", shown(&plugin["name"]))?;
    }
    match &answer["upstream"] {
        Value::Null if answer["status"].is_null() => writeln!(out, "\nNo upstream.")?,
        Value::Null => writeln!(out, "\nNo upstream: the gateway answers {} itself.", answer["status"])?,
        upstream => {
            let node = &upstream["node"];
            writeln!(
                out,
                "\nUpstream {} ({}), node {}:{} ({}).",
                shown(&upstream["from"]),
                shown(&upstream["type"]),
                shown(&node["host"]),
                node["port"],
                shown(&upstream["node_is"])
            )?;
        }
    }
    if !answer["broken"].is_null() {
        writeln!(out, "The route is broken: {}.", shown(&answer["broken"]))?;
    }
    Ok(out.trim_end().to_owned())
}

/// Where a route stands: its host and path, and its priority where it has one.
fn place(route: &Value) -> String {
    let host = route["host"].as_str().unwrap_or_default();
    let uri = route["uri"].as_str().unwrap_or("no path fits");
    match route["priority"].as_i64() {
        None | Some(0) => format!("{host}{uri}"),
        Some(priority) => format!("{host}{uri}, priority {priority}"),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text without its quotes.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    fn args(line: &[&str]) -> ExplainArgs {
        let Command::Explain(args) =
            Cli::try_parse_from([&["tidegate", "explain"], line].concat()).unwrap().command
        else {
            panic!("another command")
        };
        args
    }

    #[test]
    fn a_url_is_taken_apart() {
        let asked =
            question(&args(&["GET", "https://a.com:8443/b?c=d", "-H", "X-A: 1", "-H", "X-A: 2"])).unwrap();
        assert_eq!(
            asked,
            json!({"method": "GET", "host": "a.com:8443", "uri": "/b?c=d", "headers": {"X-A": ["1", "2"]}})
        );
        assert_eq!(question(&args(&["GET", "/x"])).unwrap()["uri"], "/x");
        assert_eq!(question(&args(&["GET", "http://a.com"])).unwrap()["uri"], "/");
        assert!(question(&args(&["GET", "/", "-H", "nothing"])).is_err());
    }

    #[test]
    fn an_answer_is_told_in_words() {
        let told = tell(&json!({
            "uri": "/x", "route": {"id": "1", "uri": "/x", "host": null, "priority": 0},
            "considered": [
                {"id": "2", "uri": "/x", "host": "a.com", "priority": 1, "outcome": "failed", "condition": "vars", "rule": ["arg_a", "==", "b"]},
                {"id": "1", "uri": "/x", "outcome": "chosen"},
                {"id": "3", "uri": "/*", "outcome": "beaten", "by": "uri"},
            ],
            "omitted": 2,
            "plugins": [{"name": "p", "from": {"key": "/apisix/routes/1"}, "overrides": [{"key": "/apisix/services/1"}], "runs": true}],
            "upstream": {"from": "/apisix/upstreams/1", "type": "roundrobin", "node": {"host": "127.0.0.1", "port": 80}, "node_is": "certain"},
            "status": null
        }))
        .unwrap();
        for line in [
            "Route 1 (/x) matches /x.",
            "  2 (a.com/x, priority 1): vars does not match: [\"arg_a\",\"==\",\"b\"]",
            "  3 (/*): fits, but another goes first by uri",
            "  and 2 more",
            "  p from /apisix/routes/1, in place of /apisix/services/1",
            "Upstream /apisix/upstreams/1 (roundrobin), node 127.0.0.1:80 (certain).",
        ] {
            assert!(told.lines().any(|told| told == line), "{line} in\n{told}");
        }
        let told = tell(&json!({"uri": "/x", "route": null, "status": 404, "upstream": null})).unwrap();
        assert!(
            told.starts_with("No route matches /x.") && told.ends_with("the gateway answers 404 itself.")
        );
    }
}
