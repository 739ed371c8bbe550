//! `location` blocks: routes.
//!
//! nginx asks for an exact location first, then remembers the longest prefix, then lets the regexes overrule it in their
//! order unless the prefix says `^~`. A route's path decides before its priority does, so each regex becomes a route at
//! every prefix that it may overrule, above the prefix's own.

use super::Out;
use super::scope::Scope;
use super::tree::Directive;
use super::upstream::{Group, host_port};
use crate::Verdict;
use serde_json::{Map, Value, json};

/// What the routes of one server have in common.
pub(super) struct Site {
    pub(super) index: usize,
    /// Empty: all.
    pub(super) hosts: Vec<String>,
    /// Empty: all.
    pub(super) ports: Vec<u16>,
    pub(super) name: String,
}

/// How a location matches.
#[derive(Debug, Clone, PartialEq)]
enum Match {
    Exact(String),
    Prefix { path: String, final_: bool },
    Regex { pattern: String, ignore_case: bool },
}

struct Location {
    matches: Match,
    /// Everything of the route but where it matches.
    route: Map<String, Value>,
}

/// Translates the locations of a server, and what holds where none matches.
pub(super) fn translate_all(out: &mut Out, scope: &Scope, site: &Site, server: &Directive, groups: &[Group]) {
    let blocks = server.block().iter().filter(|directive| directive.name == "location");
    let mut locations: Vec<_> =
        blocks.filter_map(|block| location(out, scope.clone(), block, groups)).collect();
    let everything = Match::Prefix { path: "/".to_owned(), final_: false };
    if !locations
        .iter()
        .any(|location| matches!(&location.matches, Match::Prefix { path, .. } if path == "/"))
    {
        // What the server itself says, or nginx's own default, a folder beside the configuration.
        let mut own = scope.clone();
        own.root = own.root.or_else(|| Some(out.absolute("html")));
        let actions = server.block().iter().filter(|directive| ANSWERS.contains(&directive.name.as_str()));
        let route = route(out, &own, actions, "/", groups);
        locations.extend(route.map(|route| Location { matches: everything, route }));
    }
    let regexes: Vec<_> = locations
        .iter()
        .enumerate()
        .filter_map(|(at, location)| match &location.matches {
            Match::Regex { pattern, ignore_case } => Some((at, pattern, *ignore_case)),
            _ => None,
        })
        .collect();
    for (at, location) in locations.iter().enumerate() {
        let (uri, overruled) = match &location.matches {
            Match::Exact(path) => (path.clone(), false),
            Match::Prefix { path, final_ } => (format!("{path}*"), !final_),
            Match::Regex { .. } => continue,
        };
        site.push(out, &location.route, &uri, &format!("{at}"), None);
        for (order, (regex, pattern, ignore_case)) in regexes.iter().enumerate().filter(|_| overruled) {
            let operator = if *ignore_case { "~*" } else { "~~" };
            let priority = regexes.len() - order;
            let condition = (json!(["uri", operator, pattern]), priority);
            site.push(out, &locations[*regex].route, &uri, &format!("{regex}-{at}"), Some(condition));
        }
    }
}

impl Site {
    fn push(
        &self,
        out: &mut Out,
        route: &Map<String, Value>,
        uri: &str,
        id: &str,
        condition: Option<(Value, usize)>,
    ) {
        let mut route = route.clone();
        let mut vars = Vec::new();
        if !self.ports.is_empty() {
            let ports: Vec<_> = self.ports.iter().map(u16::to_string).collect();
            vars.push(json!(["server_port", "in", ports]));
        }
        if let Some((condition, priority)) = condition {
            vars.push(condition);
            route.insert("priority".into(), json!(priority));
        }
        route.insert("id".into(), json!(format!("nginx-{}-{id}", self.index)));
        route.insert("name".into(), json!(format!("{}{uri}", self.name)));
        route.insert("uri".into(), json!(uri));
        if !self.hosts.is_empty() {
            route.insert("hosts".into(), json!(self.hosts));
        }
        if !vars.is_empty() {
            route.insert("vars".into(), Value::Array(vars));
        }
        out.routes.push(Value::Object(route));
    }
}

fn location(out: &mut Out, mut scope: Scope, block: &Directive, groups: &[Group]) -> Option<Location> {
    let (first, second) = (block.arg(0), block.arg(1).to_owned());
    let matches = match first {
        "=" => Match::Exact(second),
        "^~" => Match::Prefix { path: second, final_: true },
        "~" | "~*" => Match::Regex { pattern: second, ignore_case: first == "~*" },
        named if named.starts_with('@') => {
            out.refuse(block, "named locations have no counterpart");
            return None;
        }
        path => Match::Prefix { path: path.to_owned(), final_: false },
    };
    // An alias holds for its own location alone.
    scope.alias = None;
    let mut refused = false;
    for directive in block.block() {
        let name = directive.name.as_str();
        if scope.take(out, directive) || action(out, directive).is_some() {
            continue;
        }
        match name {
            "location" | "if" | "rewrite" | "set" | "internal" | "limit_except" => {
                out.refuse(directive, format!("`{name}` has no counterpart"));
                refused = true;
            }
            other => out.refuse(directive, format!("`{other}` has no counterpart")),
        }
    }
    if refused {
        out.refuse(block, "left out as a whole: it would do something else without what was refused in it");
        return None;
    }
    let path = match &matches {
        Match::Exact(path) | Match::Prefix { path, .. } => path.clone(),
        Match::Regex { .. } if scope.alias.is_some() => {
            out.refuse(block, "an alias below a regex");
            return None;
        }
        Match::Regex { .. } => String::new(),
    };
    if scope.root.is_none() {
        scope.root = Some(out.absolute("html"));
    }
    let actions = block.block().iter().filter(|directive| ANSWERS.contains(&directive.name.as_str()));
    let route = route(out, &scope, actions, &path, groups)?;
    out.taken(block, "routes");
    Some(Location { matches, route })
}

/// Directives that answer requests.
const ANSWERS: &[&str] = &["proxy_pass", "return", "allow", "deny"];

/// Leaves alone what [`route`] translates; `None` for any other directive.
pub(super) fn action(_out: &mut Out, directive: &Directive) -> Option<()> {
    ANSWERS.contains(&directive.name.as_str()).then_some(())
}

/// A route without its path: from what answers in it, or the files of its scope.
fn route<'d>(
    out: &mut Out,
    scope: &Scope,
    actions: impl Iterator<Item = &'d Directive>,
    path: &str,
    groups: &[Group],
) -> Option<Map<String, Value>> {
    let mut route = Map::new();
    let mut plugins = Map::new();
    let (mut allowed, mut denied, mut all_denied) = (Vec::new(), Vec::new(), false);
    for directive in actions {
        match directive.name.as_str() {
            "proxy_pass" => proxy(out, scope, directive, path, groups, &mut route, &mut plugins)?,
            "return" => answer(out, directive, &mut plugins),
            "allow" | "deny" => {
                match (directive.name.as_str(), directive.arg(0)) {
                    ("deny", "all") => all_denied = true,
                    ("allow", "all") => {}
                    ("allow", address) => allowed.push(json!(address)),
                    (_, address) => denied.push(json!(address)),
                }
                out.taken(directive, "plugins");
            }
            _ => {}
        }
    }
    match (all_denied, allowed.is_empty(), denied.is_empty()) {
        (true, true, _) => {
            plugins.insert("fault-injection".into(), json!({ "abort": { "http_status": 403 } }));
        }
        (true, false, _) => {
            plugins.insert("ip-restriction".into(), json!({ "whitelist": allowed }));
        }
        (false, _, false) => {
            plugins.insert("ip-restriction".into(), json!({ "blacklist": denied }));
        }
        _ => {}
    }
    if !route.contains_key("upstream") {
        let mut files = scope.static_files()?;
        if scope.alias.is_some() {
            files.insert("strip_prefix".into(), json!(path));
        }
        route.insert("static".into(), Value::Object(files));
    }
    if !plugins.is_empty() {
        route.insert("plugins".into(), Value::Object(plugins));
    }
    Some(route)
}

/// `return CODE [TEXT]` and `return URL`.
fn answer(out: &mut Out, directive: &Directive, plugins: &mut Map<String, Value>) {
    let (first, second) = (directive.arg(0), directive.args.get(1));
    let redirect = |uri: &str, code: u16| json!({ "uri": uri, "ret_code": code });
    match (first.parse::<u16>(), second) {
        (Err(_), None) => {
            plugins.insert("redirect".into(), redirect(first, 302));
        }
        (Ok(code @ (301 | 302 | 303 | 307 | 308)), Some(uri)) => {
            plugins.insert("redirect".into(), redirect(uri, code));
        }
        (Ok(code @ 200..=599), text) => {
            let mut abort = json!({ "http_status": code });
            if let Some(text) = text {
                abort["body"] = json!(text);
            }
            plugins.insert("fault-injection".into(), json!({ "abort": abort }));
        }
        _ => return out.refuse(directive, "not a status from 200 to 599"),
    }
    out.taken(directive, "plugins");
}

fn proxy(
    out: &mut Out,
    scope: &Scope,
    directive: &Directive,
    path: &str,
    groups: &[Group],
    route: &mut Map<String, Value>,
    plugins: &mut Map<String, Value>,
) -> Option<()> {
    let url = directive.arg(0);
    let parsed = url.split_once("://").filter(|(scheme, rest)| {
        matches!(*scheme, "http" | "https") && !rest.contains('$') && !rest.starts_with("unix:")
    });
    let Some((scheme, rest)) = parsed else {
        out.refuse(directive, "only http:// or https:// with a fixed address");
        return None;
    };
    let (authority, uri) = match rest.find('/') {
        Some(at) => (&rest[..at], Some(&rest[at..])),
        None => (rest, None),
    };
    let mut upstream = match groups.iter().find(|group| group.name == authority) {
        Some(group) => group.upstream.clone(),
        None => {
            let Some((host, port)) = host_port(authority, if scheme == "https" { 443 } else { 80 }) else {
                out.refuse(directive, format!("{authority} is no address"));
                return None;
            };
            let nodes = json!([{ "host": host, "port": port, "weight": 1 }]);
            Map::from_iter([("type".into(), json!("roundrobin")), ("nodes".into(), nodes)])
        }
    };
    upstream.insert("scheme".into(), json!(scheme));
    let mut rewrite = Map::new();
    headers(scope, authority, &mut upstream, route, &mut rewrite);
    if let Some(uri) = uri.filter(|uri| *uri != path) {
        if path.is_empty() {
            out.refuse(directive, "a path behind the address, below a regex");
            return None;
        }
        rewrite.insert("regex_uri".into(), json!([format!("^{}(.*)", escaped(path)), format!("{uri}$1")]));
    }
    if !rewrite.is_empty() {
        plugins.insert("proxy-rewrite".into(), Value::Object(rewrite));
    }
    route.insert("upstream".into(), Value::Object(upstream));
    if !scope.timeout.is_empty() {
        let mut timeout = scope.timeout.clone();
        for key in ["connect", "send", "read"] {
            timeout.entry(key).or_insert_with(|| json!(60));
        }
        route.insert("timeout".into(), Value::Object(timeout));
    }
    out.note(directive, Verdict::Taken, "upstream");
    Some(())
}

/// What the node is told: `Host`, and the fields of `proxy_set_header` that the gateway doesn't set by itself.
fn headers(
    scope: &Scope,
    authority: &str,
    upstream: &mut Map<String, Value>,
    route: &mut Map<String, Value>,
    rewrite: &mut Map<String, Value>,
) {
    let mut set = Map::new();
    // nginx's default is the name in `proxy_pass`.
    let mut host = authority.to_owned();
    for (name, value) in &scope.set_headers {
        match (name.to_ascii_lowercase().as_str(), value.as_str()) {
            ("host", value) => host = value.to_owned(),
            ("connection", "") => {}
            ("upgrade" | "connection", _) => {
                route.insert("enable_websocket".into(), json!(true));
            }
            ("x-real-ip", "$remote_addr")
            | ("x-forwarded-for", "$proxy_add_x_forwarded_for")
            | ("x-forwarded-proto", "$scheme")
            | ("x-forwarded-host", "$host" | "$http_host")
            | ("x-forwarded-port", "$server_port") => {}
            _ => {
                set.insert(name.clone(), json!(value));
            }
        }
    }
    let pass = match host.as_str() {
        "$host" | "$http_host" => "pass",
        "$proxy_host" => "node",
        host if host == authority && upstream.get("name").is_none() => "node",
        host => {
            upstream.insert("upstream_host".into(), json!(host));
            "rewrite"
        }
    };
    upstream.insert("pass_host".into(), json!(pass));
    if !set.is_empty() {
        rewrite.insert("headers".into(), json!({ "set": set }));
    }
}

fn escaped(path: &str) -> String {
    let special = |c: char| ".+*?()[]{}|^$\\".contains(c);
    path.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}
