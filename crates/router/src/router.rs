//! The router: entries under all their hosts and paths, and the search for the one that a request matches.

use crate::RouteEntry;
use crate::entry::{Candidate, Candidates};
use crate::pattern::{HostPattern, PathPattern};
use crate::tree::{Backward, Forward, Slot, Tree};
use model::var::{Var, VarSource};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

/// How hosts take part in the choice (`apisix.router.http`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// `radixtree_host_uri`: the host first, from the exact one to the shortest wildcard; then, below each that fits,
    /// the path; routes without a host last.
    #[default]
    HostUri,
    /// `radixtree_uri`: the path first; the host is one more condition.
    Uri,
}

/// What the router asks about a request. Nothing here may allocate in the plain case.
pub trait RequestFacts: VarSource {
    /// The host in lower case without a port; may be empty.
    fn host(&self) -> &[u8];
    /// The normalised path, without the query.
    fn path(&self) -> &[u8];
    /// The method as sent.
    fn method(&self) -> &[u8];
    /// The client's address.
    fn remote_ip(&self) -> IpAddr;
}

/// A persistent router: a clone costs three reference counts, and neither sees what the other is changed to later.
#[derive(Debug)]
pub struct Router<T> {
    mode: Mode,
    hosts: Tree<HostRoutes<T>>,
    any_host: Tree<Candidates<T>>,
    by_id: Tree<Arc<RouteEntry<T>>>,
    len: usize,
}

/// The entry that a request matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match<'r, T> {
    /// What was inserted.
    pub payload: &'r T,
    /// The path pattern that fitted, as the route has it: `/a/*`.
    pub path: &'r str,
    /// The host pattern that fitted, in lower case: `*.foo.com`; `None` for routes of any host.
    pub host: Option<&'r str>,
}

/// The paths below one host pattern.
#[derive(Debug)]
struct HostRoutes<T> {
    pattern: Arc<str>,
    paths: Tree<Candidates<T>>,
}

impl Mode {
    /// By its name in the configuration; `None` for names that are not supported.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "radixtree_host_uri" => Some(Self::HostUri),
            "radixtree_uri" => Some(Self::Uri),
            _ => None,
        }
    }
}

impl<T> Router<T> {
    /// A router without entries.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { mode, hosts: Tree::default(), any_host: Tree::default(), by_id: Tree::default(), len: 0 }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry of `id`.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&RouteEntry<T>> {
        self.by_id.get(id.as_bytes())?.exact.as_deref()
    }

    /// Puts `entry` under all its hosts and paths, in place of the one that has its id.
    pub fn insert(&mut self, mut entry: RouteEntry<T>) {
        self.remove(&entry.id);
        for host in &mut entry.hosts {
            host.make_ascii_lowercase();
        }
        let entry = Arc::new(entry);
        for host in self.host_keys(&entry) {
            let paths = match host {
                None => &mut self.any_host,
                Some(host) => &mut HostRoutes::at(&mut self.hosts, host).paths,
            };
            add(paths, &entry);
        }
        self.by_id.slot_mut(entry.id.as_bytes()).exact = Some(Arc::clone(&entry));
        self.len += 1;
    }

    /// Takes the entry of `id` out of all its places and returns it; `None` where there is none.
    pub fn remove(&mut self, id: &str) -> Option<Arc<RouteEntry<T>>> {
        let entry = Arc::clone(self.by_id.get(id.as_bytes())?.exact.as_ref()?);
        for host in self.host_keys(&entry) {
            match host {
                None => take_out(&mut self.any_host, &entry),
                Some(host) => HostRoutes::take_out(&mut self.hosts, host, &entry),
            }
        }
        self.by_id.edit(id.as_bytes(), |slot| slot.exact = None);
        self.len -= 1;
        Some(entry)
    }

    /// The entry that `request` matches, in the order that the crate's documentation describes.
    pub fn find<'r, R: RequestFacts>(&'r self, request: &R) -> Option<Match<'r, T>> {
        if !self.hosts.is_empty() {
            let below_host = |routes: &'r HostRoutes<T>| {
                let found = find_path(&routes.paths, request, |_| Some(None))?;
                Some(Match { host: Some(&routes.pattern), ..found })
            };
            if let Some(found) = self.hosts.find_map(Backward(request.host()), below_host) {
                return Some(found);
            }
        }
        match self.mode {
            Mode::HostUri => find_path(&self.any_host, request, |_| Some(None)),
            Mode::Uri => find_path(&self.any_host, request, |entry| host_condition(entry, request)),
        }
    }

    /// Under which hosts the entry stands in the host tree; `None` is the tree of any host.
    fn host_keys<'e>(&self, entry: &'e RouteEntry<T>) -> Vec<Option<&'e str>> {
        if self.mode == Mode::Uri || entry.hosts.is_empty() {
            return vec![None];
        }
        entry.hosts.iter().map(|host| Some(host.as_str())).collect()
    }
}

impl<T> Clone for Router<T> {
    fn clone(&self) -> Self {
        Self {
            mode: self.mode,
            hosts: self.hosts.clone(),
            any_host: self.any_host.clone(),
            by_id: self.by_id.clone(),
            len: self.len,
        }
    }
}

impl<T> Default for Router<T> {
    fn default() -> Self {
        Self::new(Mode::default())
    }
}

impl<T> Clone for HostRoutes<T> {
    fn clone(&self) -> Self {
        Self { pattern: Arc::clone(&self.pattern), paths: self.paths.clone() }
    }
}

impl<T> HostRoutes<T> {
    fn at<'t>(hosts: &'t mut Tree<Self>, host: &str) -> &'t mut Self {
        let pattern = HostPattern::parse(host);
        half(hosts.slot_mut(&pattern.key), pattern.exact)
            .get_or_insert_with(|| Self { pattern: host.into(), paths: Tree::default() })
    }

    fn take_out(hosts: &mut Tree<Self>, host: &str, entry: &RouteEntry<T>) {
        let pattern = HostPattern::parse(host);
        hosts.edit(&pattern.key, |slot| {
            let routes = half(slot, pattern.exact);
            if let Some(routes) = routes {
                take_out(&mut routes.paths, entry);
            }
            routes.take_if(|routes| routes.paths.is_empty());
        });
    }
}

/// Puts `entry` under all its paths.
fn add<T>(paths: &mut Tree<Candidates<T>>, entry: &Arc<RouteEntry<T>>) {
    for (at, path) in entry.paths.iter().enumerate() {
        let pattern = PathPattern::parse(path);
        half(paths.slot_mut(pattern.key.as_bytes()), pattern.exact)
            .get_or_insert_default()
            .insert(Candidate { entry: Arc::clone(entry), path: at, glob: pattern.glob });
    }
}

/// Takes `entry` out from under all its paths.
fn take_out<T>(paths: &mut Tree<Candidates<T>>, entry: &RouteEntry<T>) {
    for path in &entry.paths {
        let pattern = PathPattern::parse(path);
        paths.edit(pattern.key.as_bytes(), |slot| {
            half(slot, pattern.exact).take_if(|candidates| candidates.remove(&entry.id));
        });
    }
}

fn half<V>(slot: &mut Slot<V>, exact: bool) -> &mut Option<V> {
    if exact { &mut slot.exact } else { &mut slot.prefix }
}

/// The first candidate in `paths` that `request` satisfies. `host` says whether the entry takes the request's host, and
/// under which pattern.
#[inline]
fn find_path<'r, T, R: RequestFacts>(
    paths: &'r Tree<Candidates<T>>,
    request: &R,
    host: impl Fn(&'r RouteEntry<T>) -> Option<Option<&'r str>>,
) -> Option<Match<'r, T>> {
    let path = request.path();
    paths.find_map(Forward(path), |candidates| {
        candidates.iter().find_map(|candidate| {
            let entry = &*candidate.entry;
            let host = host(entry)?;
            let fits = entry.conditions.allow(request)
                && candidate.glob.as_ref().is_none_or(|glob| {
                    let key_len = candidate.path().find('*').unwrap_or_default();
                    glob.matches(path.get(key_len..).unwrap_or_default())
                });
            fits.then(|| Match { payload: &entry.payload, path: candidate.path(), host })
        })
    })
}

/// The host as a condition ([`Mode::Uri`]): the first of the entry's hosts that fits. A host written with a port is
/// compared with the `Host` header as it was sent.
fn host_condition<'r, T, R: RequestFacts>(entry: &'r RouteEntry<T>, request: &R) -> Option<Option<&'r str>> {
    static HTTP_HOST: LazyLock<Var> = LazyLock::new(|| Var::Http("host".to_owned()));
    if entry.hosts.is_empty() {
        return Some(None);
    }
    let fits = |pattern: &&String| {
        let header = pattern.contains(':').then(|| request.var(&HTTP_HOST)).flatten();
        let host = header.as_deref().unwrap_or(request.host());
        match pattern.strip_prefix('*') {
            Some(suffix) => {
                let start = host.len().checked_sub(suffix.len());
                start.is_some_and(|start| host[start..].eq_ignore_ascii_case(suffix.as_bytes()))
            }
            None => host.eq_ignore_ascii_case(pattern.as_bytes()),
        }
    };
    entry.hosts.iter().find(fits).map(|pattern| Some(pattern.as_str()))
}
