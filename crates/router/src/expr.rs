//! `vars`: conditions on variables in lua-resty-expr's form, compiled once.
//!
//! `[["arg_name", "==", "json"], ["OR", ["arg_age", ">", 18], ["arg_vip", "!", "in", ["no", "0"]]]]`
//!
//! Differences from lua-resty-expr: what it lets in and then fails on for every request (a pattern that doesn't compile,
//! a variable's name that is no string) is refused here; all mistakes are reported at once, each with its place.

use crate::operator::{Operator, Test};
use model::ConfigError;
use model::var::{BodyNeed, Var, VarSource};
use serde_json::Value;

/// How deep rules may nest. Conditions that people write stay below four; compiling and evaluating recurse as deep as
/// this and no deeper.
pub const MAX_DEPTH: usize = 32;

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Expr(Node);

#[derive(Debug, Clone)]
enum Node {
    /// `AND`, `!AND`, or rules side by side.
    All { negated: bool, parts: Box<[Node]> },
    /// `OR`, `!OR`
    Any { negated: bool, parts: Box<[Node]> },
    /// A variable and its test.
    Test { negated: bool, var: Var, test: Test },
}

/// What compiles to a part of an expression, or all that is wrong with it.
type Compiled = Result<Node, Vec<ConfigError>>;

impl Expr {
    /// Compiles the value of `vars`. The pointers of errors are relative to it, and the first message is the one that
    /// lua-resty-expr would give.
    pub fn compile(rule: &Value) -> Result<Self, Vec<ConfigError>> {
        let rules = match rule {
            Value::Array(rules) => rules.as_slice(),
            // How Lua's JSON encoder writes an empty list.
            Value::Object(empty) if empty.is_empty() => &[],
            _ => return refuse("", "an array of rules is expected"),
        };
        match rules.first() {
            None => Ok(Self(Node::All { negated: false, parts: Box::default() })),
            Some(Value::Array(_) | Value::Object(_)) => compile(rule, "", 0).map(Self),
            Some(first) if logical(first).is_some() => compile(rule, "", 0).map(Self),
            Some(_) => refuse("", "rule should be wrapped inside brackets"),
        }
    }

    /// Whether the expression holds for a request.
    #[must_use]
    pub fn eval<S: VarSource + ?Sized>(&self, source: &S) -> bool {
        self.0.eval(source)
    }

    /// Where the expression does not hold: the index of the first rule that fails, or `None` where the rules do not
    /// just stand side by side.
    pub(crate) fn first_failed<S: VarSource + ?Sized>(&self, source: &S) -> Option<Option<usize>> {
        if self.eval(source) {
            return None;
        }
        Some(match &self.0 {
            Node::All { negated: false, parts } => parts.iter().position(|part| !part.eval(source)),
            _ => None,
        })
    }

    /// What of the body the variables are made from.
    #[must_use]
    pub fn body_need(&self) -> BodyNeed {
        self.0.body_need()
    }
}

impl Node {
    fn eval<S: VarSource + ?Sized>(&self, source: &S) -> bool {
        match self {
            Self::All { negated, parts } => parts.iter().all(|part| part.eval(source)) != *negated,
            Self::Any { negated, parts } => parts.iter().any(|part| part.eval(source)) != *negated,
            Self::Test { negated, var, test } => test.holds(var, source) != *negated,
        }
    }

    fn body_need(&self) -> BodyNeed {
        match self {
            Self::All { parts, .. } | Self::Any { parts, .. } => parts.iter().map(Self::body_need).collect(),
            Self::Test { var, .. } => var.body_need(),
        }
    }
}

/// A rule: a list of rules, a logical operator with rules, or a test. `path` is the rule's own place.
fn compile(rule: &Value, path: &str, depth: usize) -> Compiled {
    if depth == MAX_DEPTH {
        return refuse(path, format!("rules are nested deeper than {MAX_DEPTH} levels"));
    }
    let rules = match rule {
        Value::Array(rules) => rules.as_slice(),
        Value::Object(_) => &[], // to Lua a table of length 0
        _ => return refuse(path, "invalid expression: an array is expected"),
    };
    match rules.first() {
        None => refuse(path, "rule too short"),
        Some(Value::Array(_) | Value::Object(_)) => {
            let parts = compile_all(rules, 0, path, depth)?;
            Ok(Node::All { negated: false, parts })
        }
        Some(first) => match logical(first) {
            Some(_) if rules.len() <= 2 => refuse(path, "rule too short"),
            Some((negated, all)) => {
                let parts = compile_all(&rules[1..], 1, path, depth)?;
                Ok(if all { Node::All { negated, parts } } else { Node::Any { negated, parts } })
            }
            None => compile_test(rules, path),
        },
    }
}

/// Rules that stand side by side, the first of them at index `first` of what is at `path`.
fn compile_all(
    rules: &[Value],
    first: usize,
    path: &str,
    depth: usize,
) -> Result<Box<[Node]>, Vec<ConfigError>> {
    let (mut parts, mut errors) = (Vec::with_capacity(rules.len()), Vec::new());
    for (at, rule) in rules.iter().enumerate() {
        match compile(rule, &format!("{path}/{}", first + at), depth + 1) {
            Ok(part) => parts.push(part),
            Err(more) => errors.extend(more),
        }
    }
    if errors.is_empty() { Ok(parts.into()) } else { Err(errors) }
}

/// `[variable, operator, value]`, `[variable, "!", operator, value]`, or the old `[variable, value]` for equality.
fn compile_test(rule: &[Value], path: &str) -> Compiled {
    let reversed = rule.len() == 4;
    if reversed && rule[1] != "!" {
        return refuse(path, "bad 'not' expression");
    }
    let operator_at = if reversed { 2 } else { 1 };
    let right_at = operator_at + 1;
    let Some(written) = rule.get(operator_at) else { return refuse(path, "invalid expression") };
    let operator_path = format!("{path}/{operator_at}");
    let Some(name) = lua_text(written) else {
        return refuse(operator_path, format!("invalid operator {written}, a string is expected"));
    };
    let (operator, right, right_path) = match (Operator::parse(&name), rule.get(right_at)) {
        (Some(operator), right) => (operator, right.cloned(), format!("{path}/{right_at}")),
        // The value has gone through lua-resty-expr's lower-casing of operators, and so it does here.
        (None, None) => (Operator::Equal, Some(name.to_ascii_lowercase().into()), operator_path),
        (None, Some(_)) => {
            return refuse(operator_path, format!("invalid operator '{}'", name.to_ascii_lowercase()));
        }
    };
    let Some(var) = rule[0].as_str() else {
        return refuse(format!("{path}/0"), "invalid expression: the name of a variable is expected");
    };
    let var = Var::try_parse(var).map_err(|error| {
        vec![ConfigError::new(format!("{path}/0"), format!("invalid expression: {error}"))]
    })?;
    let test = operator
        .test(&right.unwrap_or(Value::Null))
        .map_err(|errors| errors.into_iter().map(|error| error.under(&right_path)).collect::<Vec<_>>())?;
    Ok(Node::Test { negated: reversed != operator.negates(), var, test })
}

/// Whether a logical operator negates, and whether it wants all of its rules (or any of them).
fn logical(value: &Value) -> Option<(bool, bool)> {
    match value.as_str()?.to_ascii_uppercase().as_str() {
        "AND" => Some((false, true)),
        "!AND" => Some((true, true)),
        "OR" => Some((false, false)),
        "!OR" => Some((true, false)),
        _ => None,
    }
}

/// What Lua's string functions take: strings, and numbers as their text.
fn lua_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn refuse<T>(path: impl Into<String>, message: impl Into<String>) -> Result<T, Vec<ConfigError>> {
    Err(vec![ConfigError::new(path, message)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::borrow::Cow;

    /// A request with query arguments.
    struct Args(&'static [(&'static str, &'static str)]);
    impl VarSource for Args {
        fn var(&self, var: &Var) -> Option<Cow<'_, [u8]>> {
            let Var::Arg(name) = var else { return None };
            self.0.iter().find(|(key, _)| key == name).map(|(_, value)| Cow::Borrowed(value.as_bytes()))
        }
    }

    #[test]
    fn rules_combine() {
        let heavy = json!(["arg_weight", ">", 10]);
        let light = json!(["arg_weight", "!", ">", 15]);
        let tall = json!(["arg_height", ">=", 10]);
        let json = json!(["arg_name", "==", "json"]);
        let args: &[_] = &[("weight", "12"), ("height", "6"), ("name", "json")];
        for (rule, expected) in [
            (json!([]), true),
            (json!({}), true),
            (json!([heavy, light]), true),
            (json!([heavy, tall]), false),
            (json!([["arg_name", "json"]]), true),
            (json!([["arg_name", "JSON"]]), true),
            (json!([["arg_name", "xml"]]), false),
            (json!([["arg_weight", 12]]), true),
            (json!([["arg_none", "=="]]), true),
            (json!([["arg_none", "!", "~=", null]]), true),
            (json!([["arg_name", "~="]]), true),
            (json!([["arg_name", "==", "json", "left", "out"]]), true),
            (json!(["AND", heavy, light]), true),
            (json!(["!AND", heavy, light]), false),
            (json!(["!AND", heavy, tall]), true),
            (json!(["OR", tall, heavy]), true),
            (json!(["or", tall, ["arg_name", "~=", "json"]]), false),
            (json!(["!OR", tall, heavy]), false),
            (json!(["!or", tall, tall]), true),
            (json!(["!AND", json, ["OR", heavy, tall]]), false),
            (json!(["!OR", ["!AND", heavy, light], [tall, heavy], ["AND", tall, heavy]]), true),
            (json!([["OR", tall, heavy], json]), true),
        ] {
            let compiled = Expr::compile(&rule).unwrap_or_else(|errors| panic!("{rule}: {errors:?}"));
            assert_eq!(compiled.eval(&Args(args)), expected, "{rule}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (rule, path, message) in [
            (json!(null), "", "an array of rules is expected"),
            (json!("AND"), "", "an array of rules is expected"),
            (json!(["arg_k", "==", "v"]), "", "rule should be wrapped inside brackets"),
            (json!([null]), "", "rule should be wrapped inside brackets"),
            (json!([["arg_k", "=", "v"]]), "/0/1", "invalid operator '='"),
            (json!([["arg_k", "NO", "v"]]), "/0/1", "invalid operator 'no'"),
            (json!([["arg_k", "!", "=", "v"]]), "/0/2", "invalid operator '='"),
            (json!([["arg_k", "!", "v"]]), "/0/1", "invalid operator '!'"),
            (json!([["arg_k", null]]), "/0/1", "invalid operator null, a string is expected"),
            (json!([["arg_k"]]), "/0", "invalid expression"),
            (json!([[5, "==", "v"]]), "/0/0", "invalid expression: the name of a variable is expected"),
            (json!([[]]), "/0", "rule too short"),
            (json!([{}]), "/0", "rule too short"),
            (json!([["arg_k", "v"], 5]), "/1", "invalid expression: an array is expected"),
            (json!([["!", "arg_k", "==", "1"]]), "/0", "bad 'not' expression"),
            (json!(["OR", ["arg_k", "v"]]), "", "rule too short"),
            (json!(["OR", ["arg_k", "v"], ["AND"]]), "/2", "rule too short"),
            (
                json!([["OR", ["arg_k", "v"], ["a", "ipmatch", ["1.1.1.1", "x"]]]]),
                "/0/2/2/1",
                "invalid ip address: x",
            ),
        ] {
            let errors = Expr::compile(&rule).map(|_| ()).expect_err("refused");
            assert_eq!(errors, [ConfigError::new(path, message)], "{rule}");
        }
    }

    #[test]
    fn all_mistakes_are_named_at_once() {
        let rule = json!([["a", "=", "v"], ["a", "~~", "("], ["AND", ["b"], ["c", "==", "d"]]]);
        let errors = Expr::compile(&rule).map(|_| ()).expect_err("refused");
        assert_eq!(errors.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), ["/0/1", "/1/2", "/2/1"]);
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth| (1..depth).fold(json!(["arg_k", "v"]), |rule, _| json!([rule]));
        assert!(Expr::compile(&nested(MAX_DEPTH)).is_ok());
        let errors = Expr::compile(&nested(MAX_DEPTH + 1)).map(|_| ()).expect_err("too deep");
        assert_eq!(errors[0].message, "rules are nested deeper than 32 levels");
    }
}
