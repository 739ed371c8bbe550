//! A route as the router holds it, and the candidates that stand at one path.

use crate::Conditions;
use crate::glob::Glob;
use crate::pattern::PathPattern;
use std::cmp::Reverse;
use std::sync::Arc;

/// A route, compiled: where it stands in the trees, when it matches, and what it leads to.
#[derive(Debug, Clone)]
pub struct RouteEntry<T> {
    /// The route's id; a router holds at most one entry of an id.
    pub id: String,
    /// Hosts: exact, or a suffix after `*` (`*.foo.com`); in any case. None at all means any host. The hosts of a
    /// service are the caller's to fill in where the route names none.
    pub hosts: Vec<String>,
    /// Paths: exact, or a prefix before `*`. In `/doc/*/edit` the text after the `*` must fit as well. With
    /// [`Mode::UriWithParameter`](crate::Mode) a segment `:name` stands for any one segment.
    pub paths: Vec<String>,
    /// Among entries of one path the higher goes first.
    pub priority: i64,
    /// What else a request must satisfy.
    pub conditions: Conditions,
    /// What the caller gets back.
    pub payload: T,
}

/// An entry as the trees hold it: its payload is kept elsewhere, and the entry knows where.
pub(crate) type Placed = RouteEntry<usize>;

/// An entry under one of its paths.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) entry: Arc<Placed>,
    /// Which of the entry's paths.
    path: usize,
    /// What must hold behind the path's key, and how long that is.
    rest: Option<(usize, Glob)>,
}

/// The candidates at one place of the tree, in the order in which they are tried.
#[derive(Debug, Clone, Default)]
pub(crate) struct Candidates(Vec<Candidate>);

impl Candidate {
    /// `entry` under path number `path`, which is `pattern`.
    pub(crate) fn new(entry: &Arc<Placed>, path: usize, pattern: PathPattern<'_>) -> Self {
        let key_len = pattern.key.len();
        Self { entry: Arc::clone(entry), path, rest: pattern.glob.map(|glob| (key_len, glob)) }
    }

    pub(crate) fn path(&self) -> &str {
        &self.entry.paths[self.path]
    }

    /// Whether the part of `path` behind the key fits as well.
    #[inline]
    pub(crate) fn fits(&self, path: &[u8]) -> bool {
        let behind =
            |(key_len, glob): &(usize, Glob)| path.get(*key_len..).is_some_and(|rest| glob.matches(rest));
        self.rest.as_ref().is_none_or(behind)
    }

    /// By priority, then the longer pattern (`/a/*/b` before `/a/*`), then the lesser id as text: the order in which
    /// APISIX meets routes when it reads them from etcd.
    fn rank(&self) -> impl Ord {
        (Reverse(self.entry.priority), Reverse(self.path().len()), &self.entry.id, self.path)
    }
}

impl Candidates {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Candidate> {
        self.0.iter()
    }

    pub(crate) fn insert(&mut self, candidate: Candidate) {
        let at = self.0.partition_point(|other| other.rank() < candidate.rank());
        self.0.insert(at, candidate);
    }

    /// Takes the entry `id` out; true if no other is left.
    pub(crate) fn remove(&mut self, id: &str) -> bool {
        self.0.retain(|candidate| candidate.entry.id != id);
        self.0.is_empty()
    }
}
