//! The rules that combine schemas: `allOf`, `anyOf`, `oneOf`, `if` / `then` / `else` and `not`.

use super::node::Node;
use super::walk::{First, Verdict, Walk};
use crate::ConfigError;
use serde_json::Value;

/// Combinations of one schema, applied in this order.
#[derive(Debug, Default)]
pub(super) struct Combinations {
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Option<AnyOf>,
    pub(super) one_of: Option<Vec<Node>>,
    pub(super) condition: Option<Condition>,
    pub(super) not: Option<Node>,
}

/// `anyOf`.
#[derive(Debug)]
pub(super) struct AnyOf {
    pub(super) branches: Vec<Node>,
    /// What its message adds: the branches' `required`, or nothing.
    pub(super) hint: String,
}

/// `if`, `then` and `else`.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) test: Node,
    pub(super) then: Option<Node>,
    pub(super) otherwise: Option<Node>,
}

impl Combinations {
    pub(super) fn check(&self, value: &mut Value, walk: &mut Walk) -> Verdict {
        let mut first = First::default();
        for (i, node) in self.all_of.iter().enumerate() {
            let verdict = node.check(value, walk).map_err(|line| format!("allOf {} failed: {line}", i + 1));
            first.note(verdict, walk)?;
        }
        if let Some(any_of) = &self.any_of {
            first.note(any_of.check(value, walk), walk)?;
        }
        if let Some(branches) = &self.one_of {
            first.note(check_one_of(branches, value, walk), walk)?;
        }
        if let Some(condition) = &self.condition {
            first.note(condition.check(value, walk), walk)?;
        }
        if let Some(not) = &self.not
            && walk.passes(|walk| not.check(value, walk))
        {
            first.note(walk.fault("value wasn't supposed to match schema"), walk)?;
        }
        first.verdict()
    }

    /// The schemas that speak about the same value as this one does and may say yes to it; not `if` and `not`, which
    /// name fields without accepting them.
    pub(super) fn branches(&self) -> impl Iterator<Item = &Node> {
        let any_of = self.any_of.iter().flat_map(|any_of| &any_of.branches);
        let conditional = self.condition.iter().flat_map(|c| c.then.iter().chain(&c.otherwise));
        self.all_of.iter().chain(any_of).chain(self.one_of.iter().flatten()).chain(conditional)
    }
}

impl AnyOf {
    fn check(&self, value: &mut Value, walk: &mut Walk) -> Verdict {
        if self.branches.iter().any(|node| walk.passes(|walk| node.check(value, walk))) {
            return Ok(());
        }
        no_branch(&self.branches, value, walk, format!("object matches none of the required{}", self.hint))
    }
}

fn check_one_of(branches: &[Node], value: &mut Value, walk: &mut Walk) -> Verdict {
    let mut matched = None;
    for (i, node) in branches.iter().enumerate() {
        if !walk.passes(|walk| node.check(value, walk)) {
            continue;
        }
        if let Some(earlier) = matched.replace(i + 1) {
            return walk.fault(format!(
                "value should match only one schema, but matches both schemas {earlier} and {}",
                i + 1
            ));
        }
    }
    if matched.is_some() {
        return Ok(());
    }
    no_branch(branches, value, walk, "value should match only one schema, but matches none".to_owned())
}

/// Records why no branch takes the value. APISIX answers `line` and keeps the reasons to itself.
///
/// The branch that was most likely meant speaks for all of them: the only one for the value's type, or else the only
/// one that refuses nothing but parts of the value. Where there is no such branch, the reasons of all stand in one
/// message.
fn no_branch(branches: &[Node], value: &mut Value, walk: &mut Walk, line: String) -> Verdict {
    if !walk.records() {
        return Err(line);
    }
    let types =
        |node: &Node| node.rules().and_then(|rules| rules.types.as_ref()).map(|types| types.accept(value));
    let accepted: Vec<Option<bool>> = branches.iter().map(types).collect();
    let reasons: Vec<Vec<ConfigError>> = branches
        .iter()
        // Each branch puts in its own defaults.
        .map(|node| walk.reasons(|walk| node.check(&mut value.clone(), walk)))
        .collect();
    let by_type =
        accepted.iter().all(Option::is_some).then(|| only(&accepted, |accepts| *accepts == Some(true)));
    let inside = |errors: &Vec<ConfigError>| {
        !errors.is_empty() && errors.iter().all(|error| error.path.len() > walk.path().len())
    };
    match by_type.flatten().or_else(|| only(&reasons, inside)) {
        Some(meant) => walk.extend(reasons.into_iter().nth(meant).unwrap_or_default()),
        None => {
            let _ = walk.fault(alternatives(&reasons, walk.path()).unwrap_or_else(|| line.clone()));
        }
    }
    Err(line)
}

/// The index of the only item that has a property.
fn only<T>(items: &[T], has: impl Fn(&T) -> bool) -> Option<usize> {
    let mut found = items.iter().enumerate().filter(|(_, item)| has(item)).map(|(index, _)| index);
    found.next().filter(|_| found.next().is_none())
}

/// The first reason of each branch in one sentence; `None` where a branch has none to say.
fn alternatives(reasons: &[Vec<ConfigError>], path: &str) -> Option<String> {
    let reason = |errors: &Vec<ConfigError>| {
        let ConfigError { path: at, message } = errors.first()?;
        let inner = at.strip_prefix(path).unwrap_or(at);
        Some(if inner.is_empty() { message.clone() } else { format!("{inner}: {message}") })
    };
    let mut said: Vec<String> = Vec::new();
    for one in reasons.iter().map(reason) {
        let one = one?;
        if !said.contains(&one) {
            said.push(one);
        }
    }
    let required: Option<Vec<&str>> =
        said.iter().map(|one| one.strip_prefix("property ")?.strip_suffix(" is required")).collect();
    match (&said[..], required) {
        ([], _) => None,
        ([one], _) => Some(one.clone()),
        (_, Some(names)) => Some(format!("one of these properties is required: {}", names.join(", "))),
        (several, None) => Some(format!("none of the alternatives fits: {}", several.join("; or "))),
    }
}

impl Condition {
    fn check(&self, value: &mut Value, walk: &mut Walk) -> Verdict {
        let (clause, name) = if walk.passes(|walk| self.test.check(value, walk)) {
            (&self.then, "then")
        } else {
            (&self.otherwise, "else")
        };
        // The list says what the clause misses; APISIX's line only that it does.
        clause
            .as_ref()
            .map_or(Ok(()), |clause| clause.check(value, walk))
            .map_err(|_| format!("{name} clause did not match"))
    }
}
