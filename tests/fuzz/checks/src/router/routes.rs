//! Routes and a request, written as text.
//!
//! The first line is the request, `METHOD host path`; each further line a route, `id priority hosts paths methods`
//! (lists with commas, `-` for none, methods may be left out), or `!id` to take one away.

use model::var::{Var, VarSource};
use router::{Conditions, MethodSet, Mode, RequestFacts, RouteEntry, Router};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

/// A request of three words.
struct Request<'t> {
    method: &'t [u8],
    host: Vec<u8>,
    path: &'t [u8],
}

impl VarSource for Request<'_> {
    fn var(&self, _: &Var) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(&self.host))
    }
}

impl RequestFacts for Request<'_> {
    fn host(&self) -> &[u8] {
        &self.host
    }
    fn path(&self) -> &[u8] {
        self.path
    }
    fn method(&self) -> &[u8] {
        self.method
    }
    fn remote_ip(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }
}

/// Builds the routers, searches them, and takes all routes away again.
pub fn check(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let mut words = lines.next().unwrap_or_default().split(|byte| *byte == b' ');
    let mut word = || words.next().unwrap_or_default();
    let request = Request { method: word(), host: word().to_ascii_lowercase(), path: word() };
    let changes: Vec<Cow<'_, str>> = lines.take(64).map(String::from_utf8_lossy).collect();
    for mode in [Mode::HostUri, Mode::Uri] {
        let mut router = Router::new(mode);
        let mut kept: Vec<RouteEntry<String>> = Vec::new();
        for change in &changes {
            if let Some(id) = change.strip_prefix('!') {
                let before = kept.len();
                kept.retain(|entry| entry.id != id);
                assert_eq!(router.remove(id).is_some(), kept.len() < before);
            } else if let Some(entry) = entry(change) {
                kept.retain(|other| other.id != entry.id);
                kept.push(entry.clone());
                router.insert(entry);
            }
            assert_eq!(router.len(), kept.len());
        }
        check_find(&router, &kept, &request);
        for entry in &kept {
            assert!(router.remove(&entry.id).is_some());
        }
        assert!(router.is_empty() && router.find(&request).is_none(), "nothing is left behind");
    }
}

/// What is found is there and fits; where nothing is, no plain exact path was overlooked.
fn check_find(router: &Router<String>, kept: &[RouteEntry<String>], request: &Request<'_>) {
    match router.find(request) {
        Some(found) => {
            let entry = kept.iter().find(|entry| entry.id == *found.payload).expect("it was inserted");
            assert!(entry.paths.iter().any(|path| path == found.path), "under this path");
            assert!(entry.conditions.allow(request));
            let path = found.path.as_bytes();
            match path.iter().position(|byte| *byte == b'*') {
                Some(star) => assert!(request.path.starts_with(&path[..star])),
                None => assert_eq!(path, request.path),
            }
        }
        None => {
            let overlooked = kept.iter().find(|entry| {
                let exact = |path: &String| !path.contains('*') && path.as_bytes() == request.path;
                entry.hosts.is_empty() && entry.paths.iter().any(exact) && entry.conditions.allow(request)
            });
            assert!(overlooked.is_none(), "{overlooked:?} fits");
        }
    }
}

/// The route on a line; `None` for lines that are none.
fn entry(line: &str) -> Option<RouteEntry<String>> {
    let mut words = line.split(' ');
    let id = words.next()?.to_owned();
    let priority = words.next()?.parse().ok()?;
    let mut list = || -> Vec<String> {
        let word = words.next().unwrap_or("-");
        if word == "-" { Vec::new() } else { word.split(',').map(str::to_owned).collect() }
    };
    let (hosts, paths, methods) = (list(), list(), list());
    let conditions = Conditions { methods: MethodSet::compile(&methods).ok()?, ..Conditions::default() };
    Some(RouteEntry { payload: id.clone(), id, hosts, paths, priority, conditions })
}
