//! A route as the router holds it, and the candidates that stand at one path.

use crate::Conditions;
use crate::pattern::Glob;
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
    /// Paths: exact, or a prefix before `*`. In `/doc/*/edit` the text after the `*` must fit as well.
    pub paths: Vec<String>,
    /// Among entries of one path the higher goes first.
    pub priority: i64,
    /// What else a request must satisfy.
    pub conditions: Conditions,
    /// What the caller gets back.
    pub payload: T,
}

/// An entry under one of its paths.
#[derive(Debug)]
pub(crate) struct Candidate<T> {
    pub(crate) entry: Arc<RouteEntry<T>>,
    /// Which of the entry's paths.
    pub(crate) path: usize,
    pub(crate) glob: Option<Glob>,
}

/// The candidates at one place of the tree, in the order in which they are tried.
#[derive(Debug)]
pub(crate) struct Candidates<T>(Vec<Candidate<T>>);

impl<T> Candidate<T> {
    pub(crate) fn path(&self) -> &str {
        &self.entry.paths[self.path]
    }

    /// By priority, then the longer pattern (`/a/*/b` before `/a/*`), then the lesser id as text: the order in which
    /// APISIX meets routes when it reads them from etcd.
    fn rank(&self) -> impl Ord {
        (Reverse(self.entry.priority), Reverse(self.path().len()), &self.entry.id, self.path)
    }
}

impl<T> Clone for Candidate<T> {
    fn clone(&self) -> Self {
        Self { entry: Arc::clone(&self.entry), path: self.path, glob: self.glob.clone() }
    }
}

impl<T> Candidates<T> {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Candidate<T>> {
        self.0.iter()
    }

    pub(crate) fn insert(&mut self, candidate: Candidate<T>) {
        let at = self.0.partition_point(|other| other.rank() < candidate.rank());
        self.0.insert(at, candidate);
    }

    /// Takes the entry `id` out; true if no other is left.
    pub(crate) fn remove(&mut self, id: &str) -> bool {
        self.0.retain(|candidate| candidate.entry.id != id);
        self.0.is_empty()
    }
}

impl<T> Clone for Candidates<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Candidates<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}
