//! The rules that combine schemas: `allOf`, `anyOf`, `oneOf`, `if` / `then` / `else` and `not`.

use super::node::{Node, Rules};
use super::walk::{First, Verdict, Walk};
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

/// APISIX answers `line` and keeps the reasons to itself. Where the value's type leaves one branch only, that
/// branch's mistakes are listed: a node without a weight is then named as such.
fn no_branch(branches: &[Node], value: &mut Value, walk: &mut Walk, line: String) -> Verdict {
    let accepts = |rules: &&Rules| rules.types.as_ref().is_some_and(|types| types.accept(value));
    let every_branch_has_a_type =
        branches.iter().all(|node| node.rules().is_some_and(|rules| rules.types.is_some()));
    let meant = branches.iter().filter(|node| node.rules().as_ref().is_some_and(accepts));
    if walk.records()
        && every_branch_has_a_type
        && let [only] = meant.collect::<Vec<_>>()[..]
        && only.check(value, walk).is_err()
    {
        return Err(line);
    }
    walk.fault(line)
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
