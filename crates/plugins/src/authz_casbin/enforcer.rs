//! A model and a policy, compiled.

use super::functions::Patterns;
use super::matcher::{Binding, Node};
use super::model::{Effect, Model};
use super::roles::Roles;
use super::syntax::parse;
use ::model::ConfigError;

/// Rules of a policy. All of them are tried for a request that none matches: some milliseconds.
const RULES_MAX: usize = 10_000;

/// Decides about requests.
pub(super) struct Enforcer {
    effect: Effect,
    rules: Vec<Rule>,
    roles: Vec<Roles>,
}

struct Rule {
    /// `None` of a rule that neither allows nor denies.
    allows: Option<bool>,
    matcher: Node,
}

impl Enforcer {
    /// Compiles a model and a policy.
    pub(super) fn compile(model: &str, policy: &str) -> Result<Self, ConfigError> {
        let in_model = |message: String| ConfigError::new("/model", message);
        let in_policy = |message: String| ConfigError::new("/policy", message);
        let model = Model::parse(model).map_err(in_model)?;
        let matcher = parse(&model.matcher, &model).map_err(in_model)?;
        let (mut written, roles) = read(policy, &model).map_err(in_policy)?;
        if written.len() > RULES_MAX {
            return Err(in_policy(format!("more than {RULES_MAX} rules")));
        }
        if let Some(at) = model.policy.iter().position(|name| name == "priority") {
            let priority =
                |rule: &Vec<String>| rule.get(at).and_then(|text| text.parse().ok()).unwrap_or(i64::MAX);
            written.sort_by_key(priority);
        }
        // A matcher may do without rules: it decides alone where there is none.
        if written.is_empty() {
            written.push(vec![String::new(); model.policy.len()]);
        }
        let (mut patterns, mut rules) = (Patterns::default(), Vec::with_capacity(written.len()));
        let effect_at = model.policy.iter().position(|name| name == "eft");
        for rule in &written {
            let mut binding = Binding { model: &model, rule, patterns: &mut patterns, is_of_rule: false };
            let matcher = Node::bind(&matcher, &mut binding).map_err(in_model)?;
            let allows = match effect_at.and_then(|at| rule.get(at)).map(String::as_str) {
                None | Some("" | "allow") => Some(true),
                Some("deny") => Some(false),
                Some(_) => None,
            };
            rules.push(Rule { allows, matcher });
        }
        Ok(Self { effect: model.effect, rules, roles })
    }

    /// Whether the request is allowed.
    pub(super) fn allows(&self, request: &[&str]) -> bool {
        let mut effects = self
            .rules
            .iter()
            .filter_map(|rule| rule.allows.filter(|_| rule.matcher.holds(request, &self.roles)));
        match self.effect {
            Effect::Allow => effects.any(|allows| allows),
            Effect::NoDeny => !effects.any(|allows| !allows),
            Effect::AllowAndNoDeny => {
                let mut allowed = false;
                for allows in effects {
                    if !allows {
                        return false;
                    }
                    allowed = true;
                }
                allowed
            }
            Effect::Priority => effects.next().unwrap_or(false),
        }
    }
}

/// The rules and roles of a policy's text.
fn read(policy: &str, model: &Model) -> Result<(Vec<Vec<String>>, Vec<Roles>), String> {
    let mut rules = Vec::new();
    let mut roles: Vec<Roles> = model.roles.iter().map(|_| Roles::default()).collect();
    let lines = policy.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let mut fields = fields(line).ok_or_else(|| format!("a quotation mark has no end: {line}"))?;
        let kind = fields.remove(0);
        if kind == "p" {
            // The effect is allowed to be left out.
            let least =
                model.policy.len() - usize::from(model.policy.last().is_some_and(|name| name == "eft"));
            if !(least..=model.policy.len()).contains(&fields.len()) {
                return Err(format!(
                    "a rule has {} parts where the model has {}: {line}",
                    fields.len(),
                    model.policy.len()
                ));
            }
            rules.push(fields);
        } else if let Some(at) = model.roles.iter().position(|(name, _)| *name == kind) {
            if fields.len() != model.roles[at].1 {
                return Err(format!(
                    "a role has {} parts where the model has {}: {line}",
                    fields.len(),
                    model.roles[at].1
                ));
            }
            roles[at].add(&fields[0], &fields[1], fields.get(2).map(String::as_str).unwrap_or_default());
        } else {
            return Err(format!("the model knows no `{kind}`: {line}"));
        }
    }
    Ok((rules, roles))
}

/// The fields of a line of CSV, without the white space around them; quotation marks hold commas, and doubled ones
/// themselves. `None` where one has no end.
fn fields(line: &str) -> Option<Vec<String>> {
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        rest = rest.trim_start();
        if let Some(quoted) = rest.strip_prefix('"') {
            let (mut field, mut inner) = (String::new(), quoted);
            loop {
                let (text, after) = inner.split_once('"')?;
                field.push_str(text);
                match after.strip_prefix('"') {
                    Some(more) => {
                        field.push('"');
                        inner = more;
                    }
                    None => {
                        rest = after.trim_start();
                        break;
                    }
                }
            }
            fields.push(field);
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None if rest.is_empty() => return Some(fields),
                None => return None,
            }
        } else {
            match rest.split_once(',') {
                Some((field, after)) => {
                    fields.push(field.trim().to_owned());
                    rest = after;
                }
                None => {
                    fields.push(rest.trim().to_owned());
                    return Some(fields);
                }
            }
        }
    }
}
