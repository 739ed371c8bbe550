//! Why a request meets the route it meets: all that could have been chosen, in the order in which the search tries it,
//! each with the first condition that failed. For people who ask; the search itself knows nothing of it.

use crate::RequestFacts;
use crate::conditions::Condition;
use crate::entry::{Candidate, Candidates, Placed};
use crate::pattern::{HostPattern, PathPattern};
use crate::router::{Router, host_condition};
use crate::tree::{Backward, Forward, Tree};
use std::collections::HashSet;

/// What became of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is the one.
    Chosen,
    /// It fits as well, and another goes first.
    Beaten(Beaten),
    /// It does not fit; the first condition that failed.
    Failed(Condition),
}

/// What makes another route go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beaten {
    /// Its host is named more exactly.
    Host,
    /// Its path is named more exactly.
    Path,
    /// Its `priority` is higher.
    Priority,
    /// Both stand at one place of the tree, and its pattern is longer (`/a/*/b` before `/a/*`).
    Pattern,
    /// All else is equal, and its id is the lesser one; or it is the same route by another of its paths.
    Id,
}

/// A route that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Considered<'r, T> {
    /// Its id.
    pub id: &'r str,
    /// What it leads to.
    pub payload: &'r T,
    /// Under which of its paths; `None` where none fits.
    pub path: Option<&'r str>,
    /// Under which of its hosts; `None` where it names none, or none fits.
    pub host: Option<&'r str>,
    /// Its priority.
    pub priority: i64,
    /// What became of it.
    pub outcome: Outcome,
}

/// The answer to the question why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation<'r, T> {
    /// First the routes that the search tries, in its order; then those whose host does not fit, then those whose path
    /// does not, in the order of ids.
    pub considered: Vec<Considered<'r, T>>,
    /// How many routes more there are for which the answer had no room.
    pub omitted: usize,
}

/// Where a candidate stands: what decides before the priority does.
#[derive(Clone, Copy, PartialEq)]
struct Place<'r> {
    /// The pattern of the host tree, if it is there.
    host: Option<&'r str>,
    /// Which list of candidates, by its address.
    candidates: *const Candidates,
}

impl Beaten {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Path => "uri",
            Self::Priority => "priority",
            Self::Pattern => "pattern",
            Self::Id => "id",
        }
    }
}

impl<T> Router<T> {
    /// What [`Router::find`] does for `request`, and why. No more than `most` routes are named; those that were tried
    /// go first.
    pub fn explain<'r, R: RequestFacts>(&'r self, request: &R, most: usize) -> Explanation<'r, T> {
        let mut winner: Option<(Place<'r>, &'r Candidate)> = None;
        let mut considered = Vec::new();
        let mut seen = HashSet::new();
        let mut omitted = 0;
        self.visit(request, &mut |place, candidate| {
            seen.insert(&*candidate.entry.id);
            let by_host = place.host.is_some() || self.mode == crate::Mode::HostUri;
            let host = if by_host { Some(place.host) } else { host_condition(&candidate.entry, request) };
            let outcome = match (failed(candidate, host.is_some(), request), winner) {
                (Some(condition), _) => Outcome::Failed(condition),
                (None, Some(winner)) => Outcome::Beaten(beaten(winner, (place, candidate))),
                (None, None) => {
                    winner = Some((place, candidate));
                    Outcome::Chosen
                }
            };
            // The winner is named however many were tried before it.
            if considered.len() >= most && outcome != Outcome::Chosen {
                omitted += 1;
                return;
            }
            considered.extend(self.considered(
                &candidate.entry,
                Some(candidate.path()),
                host.flatten(),
                outcome,
            ));
        });
        let mut explanation = Explanation { considered, omitted };
        self.add_others(request, &seen, most, &mut explanation);
        explanation
    }

    /// The routes that the search has not come across: their host does not fit, or their path.
    fn add_others<'r, R: RequestFacts>(
        &'r self,
        request: &R,
        seen: &HashSet<&str>,
        most: usize,
        explanation: &mut Explanation<'r, T>,
    ) {
        let path_of = |entry: &'r Placed| {
            let fits = |path: &&String| {
                let pattern = PathPattern::parse(path, self.mode.has_params());
                let Some(rest) = request.path().strip_prefix(pattern.key.as_bytes()) else { return false };
                if pattern.exact {
                    rest.is_empty()
                } else {
                    pattern.glob.is_none_or(|glob| glob.matches(rest))
                }
            };
            entry.paths.iter().find(fits).map(String::as_str)
        };
        for host_fails in [true, false] {
            self.by_id.for_each(|entry| {
                let path = path_of(entry);
                if seen.contains(&*entry.id) || path.is_some() != host_fails {
                    return;
                }
                if explanation.considered.len() >= most {
                    explanation.omitted += 1;
                    return;
                }
                let condition = if host_fails { Condition::Host } else { Condition::Path };
                let host = entry.hosts.iter().find(|host| HostPattern::parse(host).fits(request.host()));
                let outcome = Outcome::Failed(condition);
                explanation.considered.extend(self.considered(
                    entry,
                    path,
                    host.map(String::as_str),
                    outcome,
                ));
            });
        }
    }

    /// Shows `visit` every candidate whose place fits the request, in the order of the search.
    fn visit<'r, R: RequestFacts>(&'r self, request: &R, visit: &mut impl FnMut(Place<'r>, &'r Candidate)) {
        let mut below = |host: Option<&'r str>, paths: &'r Tree<Candidates>| {
            paths.find_map(Forward(request.path()), |candidates| {
                let place = Place { host, candidates: std::ptr::from_ref(candidates) };
                candidates.iter().for_each(|candidate| visit(place, candidate));
                None::<()>
            });
        };
        self.hosts.find_map(Backward(request.host()), |routes| {
            below(Some(&routes.pattern), &routes.paths);
            None::<()>
        });
        below(None, &self.any_host);
    }

    fn considered<'r>(
        &'r self,
        entry: &'r Placed,
        path: Option<&'r str>,
        host: Option<&'r str>,
        outcome: Outcome,
    ) -> Option<Considered<'r, T>> {
        let payload = self.get(&entry.id)?;
        Some(Considered { id: &entry.id, payload, path, host, priority: entry.priority, outcome })
    }
}

/// The first condition of a candidate that fails; the place fits.
fn failed<R: RequestFacts>(candidate: &Candidate, host_fits: bool, request: &R) -> Option<Condition> {
    if !candidate.fits(request.path()) {
        return Some(Condition::Path);
    }
    if !host_fits {
        return Some(Condition::Host);
    }
    candidate.entry.conditions.first_failed(request)
}

/// What makes `winner` go before `other`.
fn beaten(winner: (Place<'_>, &Candidate), other: (Place<'_>, &Candidate)) -> Beaten {
    if winner.0.host != other.0.host {
        return Beaten::Host;
    }
    if winner.0 != other.0 {
        return Beaten::Path;
    }
    if winner.1.entry.priority != other.1.entry.priority {
        return Beaten::Priority;
    }
    if winner.1.path().len() == other.1.path().len() { Beaten::Id } else { Beaten::Pattern }
}
