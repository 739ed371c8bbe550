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
    let answer = ask(address, &question.to_string())?;
    if args.json {
        return Ok(answer.to_string());
    }
    tell(&answer, args.all).context("the answer can't be written")
}

/// What is asked: the URL taken apart, and the headers.
fn question(args: &ExplainArgs) -> anyhow::Result<Value> {
    let (host, uri) = match args.url.split_once("://") {
        Some((_, rest)) => {
            let at = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some(&rest[..at]).filter(|host| !host.is_empty()), &rest[at..])
        }
        None if args.url.starts_with('/') => (None, args.url.as_str()),
        None => bail!("`{}` is neither a path nor a URL: write /path or http://host/path", args.url),
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
    let request = admin_client::agent(PATIENCE, tls::for_calls(true))
        .post(format!("http://{address}/v1/explain"))
        .header("Content-Type", "application/json");
    let unreachable = || format!("the control API at {address} does not answer");
    let mut response = request.send(question).with_context(unreachable)?;
    let text = response.body_mut().read_to_string().with_context(unreachable)?;
    let answer: Value = serde_json::from_str(&text)
        .with_context(|| format!("what answers at {address} is not the control API"))?;
    if response.status() != 200 {
        bail!("the control API refused the question: {}", shown(answer.get("error_msg").unwrap_or(&answer)));
    }
    Ok(answer)
}

/// The answer in words. Without `all`, routes whose host or path does not match are counted and not listed.
fn tell(answer: &Value, all: bool) -> Result<String, std::fmt::Error> {
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
    tell_routes(answer, all, &mut out)?;
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

fn tell_routes(answer: &Value, all: bool, out: &mut String) -> std::fmt::Result {
    let elsewhere = |route: &&Value| matches!(route["condition"].as_str(), Some("host" | "uri"));
    let considered = list(&answer["considered"]);
    let listed: Vec<&Value> = considered.iter().filter(|route| all || !elsewhere(route)).collect();
    writeln!(out, "\nRoutes, in the order in which they are tried:")?;
    if listed.is_empty() {
        writeln!(out, "  none has this host and path")?;
    }
    for route in &listed {
        let verdict = match route["outcome"].as_str() {
            Some("chosen") => "chosen".to_owned(),
            Some("beaten") => format!("matches too, but another is preferred by {}", shown(&route["by"])),
            _ if route["rule"].is_null() => format!("{} does not match", shown(&route["condition"])),
            _ => format!("{} does not match: {}", shown(&route["condition"]), route["rule"]),
        };
        let place = place(route);
        let place = if place.is_empty() { place } else { format!(" ({place})") };
        writeln!(out, "  {}{place}: {verdict}", shown(&route["id"]))?;
    }
    let others = considered.len() - listed.len();
    if others > 0 {
        writeln!(out, "  and {others} with another host or path (--all lists them)")?;
    }
    if answer["omitted"].as_u64() > Some(0) {
        writeln!(out, "  and {} more that are not named", answer["omitted"])?;
    }
    Ok(())
}

/// The host and path by which a route matches, where it does, and its priority where it has one.
fn place(route: &Value) -> String {
    let path = [&route["host"], &route["uri"]].map(|part| part.as_str().unwrap_or_default()).concat();
    let priority = route["priority"].as_i64().filter(|priority| *priority != 0);
    let priority = priority.map(|priority| format!("priority {priority}"));
    [Some(path).filter(|path| !path.is_empty()), priority]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
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
        let refused = question(&args(&["GET", "not a url"])).unwrap_err();
        assert!(refused.to_string().contains("neither a path nor a URL"), "{refused}");
    }

    #[test]
    fn an_answer_is_told_in_words() {
        let answer = json!({
            "uri": "/x", "route": {"id": "1", "uri": "/x", "host": null, "priority": 0},
            "considered": [
                {"id": "2", "uri": "/x", "host": "a.com", "priority": 1, "outcome": "failed", "condition": "vars", "rule": ["arg_a", "==", "b"]},
                {"id": "1", "uri": "/x", "outcome": "chosen"},
                {"id": "3", "uri": "/*", "outcome": "beaten", "by": "uri"},
                {"id": "4", "uri": null, "host": "a.com", "priority": 0, "outcome": "failed", "condition": "uri"},
            ],
            "omitted": 2,
            "plugins": [{"name": "p", "from": {"key": "/apisix/routes/1"}, "overrides": [{"key": "/apisix/services/1"}], "runs": true}],
            "upstream": {"from": "/apisix/upstreams/1", "type": "roundrobin", "node": {"host": "127.0.0.1", "port": 80}, "node_is": "certain"},
            "status": null
        });
        let told = tell(&answer, false).unwrap();
        for line in [
            "Route 1 (/x) matches /x.",
            "  2 (a.com/x, priority 1): vars does not match: [\"arg_a\",\"==\",\"b\"]",
            "  3 (/*): matches too, but another is preferred by uri",
            "  and 1 with another host or path (--all lists them)",
            "  and 2 more that are not named",
            "  p from /apisix/routes/1, in place of /apisix/services/1",
            "Upstream /apisix/upstreams/1 (roundrobin), node 127.0.0.1:80 (certain).",
        ] {
            assert!(told.lines().any(|told| told == line), "{line} in\n{told}");
        }
        assert!(tell(&answer, true).unwrap().contains("\n  4 (a.com): uri does not match\n"));
        let told =
            tell(&json!({"uri": "/x", "route": null, "status": 404, "upstream": null}), false).unwrap();
        assert!(
            told.starts_with("No route matches /x.") && told.ends_with("the gateway answers 404 itself.")
        );
    }
}
