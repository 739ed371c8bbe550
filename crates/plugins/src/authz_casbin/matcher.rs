//! A matcher with the parts of one rule put in: what is left to know is the request.

use super::functions::{Pattern, Patterns};
use super::model::Model;
use super::roles::Roles;
use super::syntax::{Ast, Comparison, parse};

/// What an expression is made with.
pub(super) struct Binding<'b> {
    pub(super) model: &'b Model,
    /// The parts of the rule.
    pub(super) rule: &'b [String],
    pub(super) patterns: &'b mut Patterns,
    /// Whether this is the expression in a rule, which must not hold another.
    pub(super) is_of_rule: bool,
}

/// An expression.
pub(super) enum Node {
    Or(Vec<Self>),
    And(Vec<Self>),
    Not(Box<Self>),
    Compare(Comparison, Operand, Operand),
    In(Operand, Vec<Operand>),
    Bool(bool),
    Matches(Operand, Pattern),
    /// The kind of role, who, what and in which domain.
    Role(usize, Operand, Operand, Operand),
}

/// A text.
pub(super) enum Operand {
    Text(String),
    /// A part of the request.
    Request(usize),
}

impl Node {
    /// Puts a rule's parts in.
    pub(super) fn bind(ast: &Ast, binding: &mut Binding<'_>) -> Result<Self, String> {
        let mut all =
            |parts: &[Ast]| parts.iter().map(|part| Self::bind(part, binding)).collect::<Result<_, _>>();
        match ast {
            Ast::Or(parts) => all(parts).map(Self::Or),
            Ast::And(parts) => all(parts).map(Self::And),
            Ast::Not(inner) => Ok(Self::Not(Box::new(Self::bind(inner, binding)?))),
            Ast::Bool(value) => Ok(Self::Bool(*value)),
            Ast::Compare(comparison, left, right) => {
                Ok(Self::Compare(*comparison, Operand::bind(left, binding)?, Operand::bind(right, binding)?))
            }
            Ast::In(item, list) => {
                let list = list.iter().map(|item| Operand::bind(item, binding)).collect::<Result<_, _>>()?;
                Ok(Self::In(Operand::bind(item, binding)?, list))
            }
            Ast::Call(name, arguments) => Self::call(name, arguments, binding),
            Ast::Text(_) | Ast::Number(_) | Ast::Request(_) | Ast::Policy(_) => {
                Err("an expression of the model is a text where it should be true or false".to_owned())
            }
        }
    }

    fn call(name: &str, arguments: &[Ast], binding: &mut Binding<'_>) -> Result<Self, String> {
        if name == "eval" {
            return Self::of_rule(arguments, binding);
        }
        let operands: Vec<_> =
            arguments.iter().map(|argument| Operand::bind(argument, binding)).collect::<Result<_, _>>()?;
        if let Some(kind) = binding.model.roles.iter().position(|(role, _)| role == name) {
            let parts = binding.model.roles[kind].1;
            let mut operands = operands.into_iter();
            return match (operands.next(), operands.next(), operands.next(), operands.next()) {
                (Some(user), Some(role), domain, None) if domain.is_some() == (parts == 3) => {
                    Ok(Self::Role(kind, user, role, domain.unwrap_or(Operand::Text(String::new()))))
                }
                _ => Err(format!("`{name}` has {parts} parts")),
            };
        }
        let mut operands = operands.into_iter();
        let (Some(text), Some(pattern), None) = (operands.next(), operands.next(), operands.next()) else {
            return Err(format!("the function `{name}` is unknown, or takes two arguments"));
        };
        let Operand::Text(pattern) = pattern else {
            return Err(format!("`{name}`: the pattern must not come from the request"));
        };
        match Pattern::compile(name, &pattern, binding.patterns) {
            Some(compiled) => Ok(Self::Matches(text, compiled?)),
            None => Err(format!("the function `{name}` is unknown")),
        }
    }

    /// The expression that stands in the rule.
    fn of_rule(arguments: &[Ast], binding: &mut Binding<'_>) -> Result<Self, String> {
        let [Ast::Policy(at)] = arguments else { return Err("`eval` takes a part of the rule".to_owned()) };
        if binding.is_of_rule {
            return Err("an expression in a rule must not have `eval`".to_owned());
        }
        let text = binding.rule.get(*at).map(String::as_str).unwrap_or_default();
        let ast = if text.is_empty() { Ast::Bool(false) } else { parse(text, binding.model)? };
        let Binding { model, rule, .. } = *binding;
        Self::bind(&ast, &mut Binding { model, rule, patterns: binding.patterns, is_of_rule: true })
    }

    /// Whether it holds for a request.
    pub(super) fn holds(&self, request: &[&str], roles: &[Roles]) -> bool {
        match self {
            Self::Or(parts) => parts.iter().any(|part| part.holds(request, roles)),
            Self::And(parts) => parts.iter().all(|part| part.holds(request, roles)),
            Self::Not(inner) => !inner.holds(request, roles),
            Self::Bool(value) => *value,
            Self::Compare(comparison, left, right) => {
                comparison.holds(left.text(request), right.text(request))
            }
            Self::In(item, list) => list.iter().any(|other| other.text(request) == item.text(request)),
            Self::Matches(text, pattern) => pattern.matches(text.text(request)),
            Self::Role(kind, user, role, domain) => roles
                .get(*kind)
                .is_some_and(|roles| roles.has(user.text(request), role.text(request), domain.text(request))),
        }
    }
}

impl Operand {
    fn bind(ast: &Ast, binding: &Binding<'_>) -> Result<Self, String> {
        match ast {
            Ast::Text(text) => Ok(Self::Text(text.clone())),
            Ast::Number(number) => Ok(Self::Text(number.to_string())),
            Ast::Bool(value) => Ok(Self::Text(value.to_string())),
            Ast::Request(at) => Ok(Self::Request(*at)),
            Ast::Policy(at) => Ok(Self::Text(binding.rule.get(*at).cloned().unwrap_or_default())),
            _ => Err("an expression of the model compares what is no text".to_owned()),
        }
    }

    fn text<'t>(&'t self, request: &[&'t str]) -> &'t str {
        match self {
            Self::Text(text) => text,
            Self::Request(at) => request.get(*at).copied().unwrap_or_default(),
        }
    }
}

impl Comparison {
    /// Compares texts, and numbers by their size; what are no numbers are neither less nor greater.
    fn holds(self, left: &str, right: &str) -> bool {
        let numbers = || left.parse::<f64>().ok().zip(right.parse::<f64>().ok());
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => numbers().is_some_and(|(left, right)| left < right),
            Self::LessOrEqual => numbers().is_some_and(|(left, right)| left <= right),
            Self::Greater => numbers().is_some_and(|(left, right)| left > right),
            Self::GreaterOrEqual => numbers().is_some_and(|(left, right)| left >= right),
        }
    }
}
