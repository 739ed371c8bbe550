//! `location` blocks: routes.
//!
//! nginx asks for an exact location first, then remembers the longest prefix, then lets the regexes overrule it in their
//! order unless the prefix says `^~`. A route's path decides before its priority does, so each regex becomes a route at
//! every prefix that it may overrule, above the prefix's own.
//!
//! A location that can't be translated is a route all the same, one that answers 501: without it, another location would
//! get its requests.

use super::Out;
use super::proxy;
use super::scope::Scope;
use super::tree::Directive;
use super::upstream::Group;
use pcre2::bytes::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};

/// What the routes of one server have in common.
pub(super) struct Site {
    /// Tells it from others, in the ids of routes.
    pub(super) id: String,
    /// Empty: all.
    pub(super) hosts: Vec<String>,
    /// Empty: all.
    pub(super) ports: Vec<u16>,
    pub(super) name: String,
}

/// How a location matches.
enum Match {
    Exact(String),
    Prefix { path: String, final_: bool },
    Regex { pattern: String, ignore_case: bool, compiled: Regex },
}

/// A location, translated.
pub(super) struct Location {
    matches: Match,
    /// Everything of the route but where it matches.
    route: Map<String, Value>,
    /// Whether files answer, to the server's own redirects at least.
    files: bool,
}

/// Translates the locations of a server, and what holds where none matches.
pub(super) fn translate_all(
    out: &mut Out,
    scope: &Scope,
    server: &Directive,
    groups: &[Group],
) -> Vec<Location> {
    let blocks = server.block().iter().filter(|directive| directive.name == "location");
    let mut locations: Vec<_> = blocks.filter_map(|block| location(out, scope, block, groups)).collect();
    let everything =
        |location: &Location| matches!(&location.matches, Match::Prefix { path, .. } if path == "/");
    if !locations.iter().any(everything) {
        // What the server itself says, or nginx's own default, a folder beside the configuration.
        let mut own = scope.clone();
        own.root = own.root.or_else(|| Some(out.absolute("html")));
        let actions = server.block().iter().filter(|directive| ANSWERS.contains(&directive.name.as_str()));
        let route = route(out, &own, server, actions, "/", groups).unwrap_or_else(closed);
        let matches = Match::Prefix { path: "/".to_owned(), final_: false };
        locations.push(Location { matches, files: route.contains_key("static"), route });
    }
    redirect_to_files(out, server, &mut locations);
    locations
}

/// The server's own redirects (to an index, to a page for errors, to the end of `try_files`) are matched anew. One that
/// leads to a location without files leads to no file: what should be run would be sent.
fn redirect_to_files(out: &mut Out, server: &Directive, locations: &mut [Location]) {
    let leads_to_files = |path: &str| chosen(locations, path).is_none_or(|location| location.files);
    let mut mended: Vec<Option<Value>> = Vec::new();
    let mut elsewhere = Vec::new();
    for location in locations.iter() {
        let folder = match &location.matches {
            Match::Prefix { path, .. } | Match::Exact(path) => path.rfind('/').map_or("/", |at| &path[..=at]),
            Match::Regex { .. } => "/",
        };
        let mut files = location.route.get("static").cloned();
        let mut keep = |path: String| {
            let kept = leads_to_files(&path);
            if !kept && !elsewhere.contains(&path) {
                elsewhere.push(path);
            }
            kept
        };
        if let Some(files) = &mut files {
            if let Some(Value::Array(names)) = files.get_mut("index") {
                names.retain(|name| keep(format!("{folder}{}", name.as_str().unwrap_or_default())));
            }
            if let Some(Value::Object(pages)) = files.get_mut("error_pages") {
                pages.retain(|_, page| keep(page.as_str().unwrap_or_default().to_owned()));
            }
            if let Some(last) =
                files.get_mut("try_files").and_then(Value::as_array_mut).and_then(|all| all.last_mut())
                && last.as_str().is_some_and(|last| last.starts_with('/') && !keep(last.to_owned()))
            {
                *last = json!("=501");
            }
        }
        mended.push(files);
    }
    for path in elsewhere {
        out.refuse(server, format!("{path} is no file here: its location answers otherwise"));
    }
    for (location, files) in locations.iter_mut().zip(mended) {
        if let Some(files) = files {
            location.route.insert("static".into(), files);
        }
    }
}

/// The location that nginx chooses for a path.
fn chosen<'l>(locations: &'l [Location], path: &str) -> Option<&'l Location> {
    let exact = locations.iter().find(|one| matches!(&one.matches, Match::Exact(own) if own == path));
    let prefix = |one: &'l Location| match &one.matches {
        Match::Prefix { path: own, final_ } if path.starts_with(own) => Some((own.len(), *final_, one)),
        _ => None,
    };
    let longest = locations.iter().filter_map(prefix).max_by_key(|(length, ..)| *length);
    let suits = |one: &&Location| match &one.matches {
        Match::Regex { compiled, .. } => compiled.is_match(path.as_bytes()).unwrap_or(true),
        _ => false,
    };
    exact.or_else(|| match longest {
        Some((_, true, one)) => Some(one),
        other => locations.iter().find(suits).or(other.map(|(.., one)| one)),
    })
}

impl Site {
    /// Makes routes of a server's locations.
    pub(super) fn push_all(&self, out: &mut Out, locations: &[Location]) {
        let regexes: Vec<_> = locations
            .iter()
            .enumerate()
            .filter_map(|(at, location)| match &location.matches {
                Match::Regex { pattern, ignore_case, .. } => Some((at, pattern, *ignore_case)),
                _ => None,
            })
            .collect();
        for (at, location) in locations.iter().enumerate() {
            let (uri, overruled) = match &location.matches {
                Match::Exact(path) => (path.clone(), false),
                Match::Prefix { path, final_ } => (format!("{path}*"), !final_),
                Match::Regex { .. } => continue,
            };
            self.push(out, &location.route, &uri, &format!("{at}"), None);
            for (order, (regex, pattern, ignore_case)) in regexes.iter().enumerate().filter(|_| overruled) {
                let operator = if *ignore_case { "~*" } else { "~~" };
                let priority = regexes.len() - order;
                let condition = (json!(["uri", operator, pattern]), priority);
                self.push(out, &locations[*regex].route, &uri, &format!("{regex}-{at}"), Some(condition));
            }
        }
    }

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
        route.insert("id".into(), json!(format!("nginx-{}-{id}", self.id)));
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

fn location(out: &mut Out, outer: &Scope, block: &Directive, groups: &[Group]) -> Option<Location> {
    let matches = matches(out, block)?;
    let mut scope = outer.inherited(block);
    // An alias holds for its own location alone.
    scope.alias = None;
    let mut internal = false;
    for directive in block.block() {
        let name = directive.name.as_str();
        if scope.take(out, directive) || ANSWERS.contains(&name) {
            continue;
        }
        match name {
            "internal" => {
                internal = true;
                out.taken(directive, "404 for clients");
            }
            "location" | "if" | "rewrite" | "set" | "limit_except" => {
                out.refuse(directive, format!("`{name}` has no counterpart"));
                scope.bar(directive);
            }
            other => out.refuse(directive, format!("`{other}` has no counterpart")),
        }
    }
    let path = match &matches {
        Match::Exact(path) | Match::Prefix { path, .. } => path.clone(),
        Match::Regex { .. } if scope.alias.is_some() => {
            out.refuse(block, "an alias below a regex: 501 is answered");
            return Some(Location { matches, route: closed(), files: false });
        }
        Match::Regex { .. } => String::new(),
    };
    if scope.root.is_none() {
        scope.root = Some(out.absolute("html"));
    }
    let actions = block.block().iter().filter(|directive| ANSWERS.contains(&directive.name.as_str()));
    let Some(mut route) = route(out, &scope, block, actions, &path, groups) else {
        out.refuse(block, "501 is answered: it would do something else without what was refused in it");
        return Some(Location { matches, route: closed(), files: false });
    };
    out.taken(block, "routes");
    let files = route.contains_key("static");
    if internal {
        route = answering(404);
    }
    Some(Location { matches, route, files })
}

/// How a location matches; `None` where that is refused.
fn matches(out: &mut Out, block: &Directive) -> Option<Match> {
    let (first, second) = (block.arg(0), block.arg(1).to_owned());
    if first.is_empty() || (matches!(first, "=" | "^~") && second.is_empty()) {
        out.refuse(block, "names no path");
        return None;
    }
    Some(match first {
        "=" => Match::Exact(second),
        "^~" => Match::Prefix { path: second, final_: true },
        "~" | "~*" => {
            let ignore_case = first == "~*";
            match RegexBuilder::new().caseless(ignore_case).build(&second) {
                Ok(compiled) => Match::Regex { pattern: second, ignore_case, compiled },
                Err(error) => {
                    out.refuse(block, format!("no regular expression: {error}"));
                    return None;
                }
            }
        }
        named if named.starts_with('@') => {
            out.refuse(block, "named locations have no counterpart");
            return None;
        }
        path => Match::Prefix { path: path.to_owned(), final_: false },
    })
}

/// A route that gives one status to every request.
fn answering(status: u16) -> Map<String, Value> {
    let abort = json!({ "abort": { "http_status": status } });
    Map::from_iter([("plugins".to_owned(), json!({ "fault-injection": abort }))])
}

/// The route of a location that can't be translated.
fn closed() -> Map<String, Value> {
    answering(501)
}

/// Directives that answer requests.
pub(super) const ANSWERS: &[&str] = &["proxy_pass", "return"];

/// A route without its path: from what answers in it, or the files of its scope. `None` where something is refused that
/// decides about its answers.
fn route<'d>(
    out: &mut Out,
    scope: &Scope,
    block: &Directive,
    actions: impl Iterator<Item = &'d Directive>,
    path: &str,
    groups: &[Group],
) -> Option<Map<String, Value>> {
    let mut route = Map::new();
    let mut plugins = Map::new();
    let mut answered = false;
    for directive in actions {
        match directive.name.as_str() {
            "proxy_pass" => {
                proxy::translate(out, scope, directive, path, groups, &mut route, &mut plugins)?;
            }
            _ => {
                answered = true;
                answer(out, directive, &mut plugins)?;
            }
        }
    }
    if scope.is_barred() {
        return None;
    }
    match scope.access.plugin() {
        // nginx answers with `return` before it asks who may ask.
        _ if answered => {}
        Ok(plugin) => plugins.extend(plugin.map(|(name, settings)| (name.to_owned(), settings))),
        Err(reason) => {
            out.refuse(block, reason);
            return None;
        }
    }
    if !route.contains_key("upstream") && !answered {
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

/// `return CODE [TEXT]` and `return URL`; `None` where it is refused.
fn answer(out: &mut Out, directive: &Directive, plugins: &mut Map<String, Value>) -> Option<()> {
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
        _ => {
            out.refuse(directive, "not a status from 200 to 599");
            return None;
        }
    }
    out.taken(directive, "plugins");
    Some(())
}
