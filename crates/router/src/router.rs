//! The router: entries under all their hosts and paths, and the search for the one that a request matches.

use crate::entry::{Candidate, Candidates, Placed};
use crate::pattern::{HostPattern, PathPattern};
use crate::payloads::Payloads;
use crate::tree::{Backward, Forward, Slot, Tree};
use crate::{RequestFacts, RouteEntry};
use model::var::{BodyNeed, Var};
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
    /// `radixtree_uri_with_parameter`: as [`Self::Uri`], and a segment `:name` of a path stands for any one segment.
    UriWithParameter,
}

/// A persistent router: a clone costs five reference counts, and neither sees what the other is changed to later.
#[derive(Debug)]
pub struct Router<T> {
    pub(crate) mode: Mode,
    pub(crate) hosts: Tree<HostRoutes>,
    pub(crate) any_host: Tree<Candidates>,
    pub(crate) by_id: Tree<Arc<Placed>>,
    payloads: Payloads<T>,
    len: usize,
    body_users: BodyUsers,
}

/// How many entries look at something of the body.
#[derive(Debug, Clone, Copy, Default)]
struct BodyUsers {
    fields: usize,
    graphql: usize,
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
#[derive(Debug, Clone)]
pub(crate) struct HostRoutes {
    pub(crate) pattern: Arc<str>,
    pub(crate) paths: Tree<Candidates>,
}

impl Mode {
    /// By its name in the configuration; `None` for other names.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "radixtree_host_uri" => Some(Self::HostUri),
            "radixtree_uri" => Some(Self::Uri),
            "radixtree_uri_with_parameter" => Some(Self::UriWithParameter),
            _ => None,
        }
    }

    /// Whether `:name` is a parameter.
    pub(crate) fn has_params(self) -> bool {
        self == Self::UriWithParameter
    }
}

impl<T> Router<T> {
    /// A router without entries.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            hosts: Tree::default(),
            any_host: Tree::default(),
            by_id: Tree::default(),
            payloads: Payloads::default(),
            len: 0,
            body_users: BodyUsers::default(),
        }
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

    /// What the entry of `id` leads to.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&T> {
        self.payloads.get(self.placed(id)?.payload)
    }

    /// The hosts of the entry of `id`, in lower case.
    #[must_use]
    pub fn hosts(&self, id: &str) -> Option<&[String]> {
        Some(&self.placed(id)?.hosts)
    }

    /// What of the body the conditions of any entry look at.
    #[inline]
    #[must_use]
    pub fn body_need(&self) -> BodyNeed {
        BodyNeed { fields: self.body_users.fields > 0, graphql: self.body_users.graphql > 0 }
    }

    /// The entry that `request` matches, in the order that the crate's documentation describes.
    pub fn find<'r, R: RequestFacts>(&'r self, request: &R) -> Option<Match<'r, T>> {
        let (candidate, host) = self.first(request)?;
        let payload = self.payloads.get(candidate.entry.payload)?;
        Some(Match { payload, path: candidate.path(), host })
    }

    #[inline]
    fn first<'r, R: RequestFacts>(&'r self, request: &R) -> Option<(&'r Candidate, Option<&'r str>)> {
        if !self.hosts.is_empty() {
            let below_host = |routes: &'r HostRoutes| {
                let (found, _) = find_path(&routes.paths, request, |_| Some(None))?;
                Some((found, Some(&*routes.pattern)))
            };
            if let Some(found) = self.hosts.find_map(Backward(request.host()), below_host) {
                return Some(found);
            }
        }
        match self.mode {
            Mode::HostUri => find_path(&self.any_host, request, |_| Some(None)),
            Mode::Uri | Mode::UriWithParameter => {
                find_path(&self.any_host, request, |entry| host_condition(entry, request))
            }
        }
    }

    fn placed(&self, id: &str) -> Option<&Arc<Placed>> {
        self.by_id.get(id.as_bytes())?.exact.as_ref()
    }

    /// Under which hosts the entry stands in the host tree; `None` is the tree of any host.
    fn host_keys<'e>(&self, entry: &'e Placed) -> Vec<Option<&'e str>> {
        if self.mode != Mode::HostUri || entry.hosts.is_empty() {
            return vec![None];
        }
        entry.hosts.iter().map(|host| Some(host.as_str())).collect()
    }
}

impl<T: Clone> Router<T> {
    /// Puts `entry` under all its hosts and paths, in place of the one that has its id.
    pub fn insert(&mut self, entry: RouteEntry<T>) {
        self.remove(&entry.id);
        let RouteEntry { id, mut hosts, paths, priority, conditions, payload } = entry;
        hosts.iter_mut().for_each(|host| host.make_ascii_lowercase());
        let payload = self.payloads.add(payload);
        let entry = Arc::new(Placed { id, hosts, paths, priority, conditions, payload });
        let params = self.mode.has_params();
        for host in self.host_keys(&entry) {
            let paths = match host {
                None => &mut self.any_host,
                Some(host) => &mut HostRoutes::at(&mut self.hosts, host).paths,
            };
            add(paths, &entry, params);
        }
        let need = entry.conditions.body_need();
        self.body_users.fields += usize::from(need.fields);
        self.body_users.graphql += usize::from(need.graphql);
        self.by_id.slot_mut(entry.id.as_bytes()).exact = Some(Arc::clone(&entry));
        self.len += 1;
    }

    /// Lets the entry of `id` lead to `payload`; all else about it stays. False where there is none. Far cheaper than
    /// [`Self::insert`]: the trees are not touched.
    pub fn replace(&mut self, id: &str, payload: T) -> bool {
        let Some(place) = self.placed(id).map(|entry| entry.payload) else { return false };
        self.payloads.set(place, payload);
        true
    }

    /// Takes the entry of `id` out of all its places and returns what it led to; `None` where there is none.
    pub fn remove(&mut self, id: &str) -> Option<T> {
        let entry = Arc::clone(self.placed(id)?);
        let params = self.mode.has_params();
        for host in self.host_keys(&entry) {
            match host {
                None => take_out(&mut self.any_host, &entry, params),
                Some(host) => HostRoutes::take_out(&mut self.hosts, host, &entry, params),
            }
        }
        let need = entry.conditions.body_need();
        self.body_users.fields -= usize::from(need.fields);
        self.body_users.graphql -= usize::from(need.graphql);
        self.by_id.edit(id.as_bytes(), |slot| slot.exact = None);
        self.len -= 1;
        self.payloads.take(entry.payload)
    }
}

impl<T> Clone for Router<T> {
    fn clone(&self) -> Self {
        Self {
            mode: self.mode,
            hosts: self.hosts.clone(),
            any_host: self.any_host.clone(),
            by_id: self.by_id.clone(),
            payloads: self.payloads.clone(),
            len: self.len,
            body_users: self.body_users,
        }
    }
}

impl<T> Default for Router<T> {
    fn default() -> Self {
        Self::new(Mode::default())
    }
}

impl HostRoutes {
    fn at<'t>(hosts: &'t mut Tree<Self>, host: &str) -> &'t mut Self {
        let pattern = HostPattern::parse(host);
        half(hosts.slot_mut(&pattern.key), pattern.exact)
            .get_or_insert_with(|| Self { pattern: host.into(), paths: Tree::default() })
    }

    fn take_out(hosts: &mut Tree<Self>, host: &str, entry: &Placed, params: bool) {
        let pattern = HostPattern::parse(host);
        hosts.edit(&pattern.key, |slot| {
            let routes = half(slot, pattern.exact);
            if let Some(routes) = routes {
                take_out(&mut routes.paths, entry, params);
            }
            routes.take_if(|routes| routes.paths.is_empty());
        });
    }
}

/// Puts `entry` under all its paths.
fn add(paths: &mut Tree<Candidates>, entry: &Arc<Placed>, params: bool) {
    for (at, path) in entry.paths.iter().enumerate() {
        let pattern = PathPattern::parse(path, params);
        half(paths.slot_mut(pattern.key.as_bytes()), pattern.exact)
            .get_or_insert_default()
            .insert(Candidate::new(entry, at, pattern));
    }
}

/// Takes `entry` out from under all its paths.
fn take_out(paths: &mut Tree<Candidates>, entry: &Placed, params: bool) {
    for path in &entry.paths {
        let pattern = PathPattern::parse(path, params);
        paths.edit(pattern.key.as_bytes(), |slot| {
            half(slot, pattern.exact).take_if(|candidates| candidates.remove(&entry.id));
        });
    }
}

fn half<V>(slot: &mut Slot<V>, exact: bool) -> &mut Option<V> {
    if exact { &mut slot.exact } else { &mut slot.prefix }
}

/// The first candidate in `paths` that `request` satisfies, and what `host` gave for it: whether the entry takes the
/// request's host, and under which pattern.
#[inline]
fn find_path<'r, R: RequestFacts>(
    paths: &'r Tree<Candidates>,
    request: &R,
    host: impl Fn(&'r Placed) -> Option<Option<&'r str>>,
) -> Option<(&'r Candidate, Option<&'r str>)> {
    let path = request.path();
    paths.find_map(Forward(path), |candidates| {
        candidates.iter().find_map(|candidate| {
            let entry = &*candidate.entry;
            let host = host(entry)?;
            (entry.conditions.allow(request) && candidate.fits(path)).then_some((candidate, host))
        })
    })
}

/// The host as a condition ([`Mode::Uri`]): the first of the entry's hosts that fits. A host written with a port is
/// compared with the `Host` header as it was sent.
pub(crate) fn host_condition<'r, R: RequestFacts>(entry: &'r Placed, request: &R) -> Option<Option<&'r str>> {
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
