//! The operators of an expression, with lua-resty-expr's rules for numbers, text and absent values.

use crate::networks::{Networks, parse_ip, parse_network};
use crate::number::to_number;
use model::ConfigError;
use model::pattern::{self, PatternOptions};
use model::var::{Var, VarSource};
use pcre2::bytes::Regex;
use serde_json::Value;
use std::borrow::Cow;

/// Backtracking steps after which a pattern counts as not matching. `(a+)+$` and its like reach this bound in half a
/// millisecond where PCRE2 has a JIT and in some ten where it has none; PCRE2's own bound is a hundred times as high.
const MATCH_LIMIT: u32 = 100_000;

/// An operator as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Matches,
    MatchesCaseless,
    In,
    Has,
    IpMatch,
}

/// An operator with its right side: the question put to a variable.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    /// The variable has no value.
    Absent,
    /// It is this text.
    Text(Box<[u8]>),
    /// It spells this number.
    Number(f64),
    /// It is this boolean, which only values from JSON can be.
    Bool(bool),
    /// It spells a number that stands in this relation to this one.
    Compare(fn(&f64, &f64) -> bool, f64),
    /// The pattern is found in it.
    Pattern(Regex),
    /// It is one of these.
    OneOf(Box<[Value]>),
    /// It is a list with this element.
    Contains(Value),
    /// It is an address within these networks.
    Within(Networks),
    /// No value of a variable stands in this relation to such a right side, as with `["arg_a", ">", true]`.
    Never,
}

impl Operator {
    /// By its name in any case; `None` for other names.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "==" => Self::Equal,
            "~=" => Self::NotEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            "~~" => Self::Matches,
            "~*" => Self::MatchesCaseless,
            "in" => Self::In,
            "has" => Self::Has,
            "ipmatch" => Self::IpMatch,
            _ => return None,
        })
    }

    /// Whether the answer is that of the test turned around.
    pub(crate) fn negates(self) -> bool {
        self == Self::NotEqual
    }

    /// The test against `right`, where `null` stands for a right side left out. Errors have pointers relative to it.
    pub(crate) fn test(self, right: &Value) -> Result<Test, Vec<ConfigError>> {
        Ok(match self {
            Self::Equal | Self::NotEqual => equal(right),
            Self::Greater => compare(f64::gt, right),
            Self::GreaterOrEqual => compare(f64::ge, right),
            Self::Less => compare(f64::lt, right),
            Self::LessOrEqual => compare(f64::le, right),
            Self::Matches => regex(right, false)?,
            Self::MatchesCaseless => regex(right, true)?,
            Self::In => one_of(right),
            Self::Has => Test::Contains(right.clone()),
            Self::IpMatch => within(right)?,
        })
    }
}

impl Test {
    /// The answer for `var` as `source` has it.
    pub(crate) fn holds<S: VarSource + ?Sized>(&self, var: &Var, source: &S) -> bool {
        if var.is_structured() {
            return self.holds_for_json(source.json(var).as_deref());
        }
        if matches!(self, Self::Never) {
            return false;
        }
        match source.var(var) {
            None => matches!(self, Self::Absent),
            Some(value) => self.holds_for_text(&value),
        }
    }

    fn holds_for_text(&self, value: &[u8]) -> bool {
        match self {
            Self::Absent | Self::Never | Self::Contains(_) | Self::Bool(_) => false,
            Self::Text(text) => *value == **text,
            Self::Number(number) => to_number(value) == Some(*number),
            Self::Compare(relation, than) => to_number(value).is_some_and(|number| relation(&number, than)),
            // A match that runs into its limit is an error of PCRE2, and no match.
            Self::Pattern(regex) => regex.is_match(value).unwrap_or(false),
            // A number in the list is no text to Lua, which holds `"1"` and `1` apart.
            Self::OneOf(all) => {
                all.iter().any(|one| one.as_str().is_some_and(|text| text.as_bytes() == value))
            }
            Self::Within(networks) => {
                std::str::from_utf8(value).ok().and_then(parse_ip).is_some_and(|ip| networks.contains(ip))
            }
        }
    }

    /// The answer for a value that has a type; `null` counts as absent.
    fn holds_for_json(&self, value: Option<&Value>) -> bool {
        let Some(value) = value.filter(|value| !value.is_null()) else { return matches!(self, Self::Absent) };
        match self {
            Self::Absent | Self::Never => false,
            Self::Text(text) => value.as_str().is_some_and(|value| value.as_bytes() == &**text),
            Self::Bool(wanted) => value.as_bool() == Some(*wanted),
            Self::OneOf(all) => all.iter().any(|one| same(one, value)),
            Self::Contains(element) => {
                value.as_array().is_some_and(|list| list.iter().any(|one| same(one, element)))
            }
            Self::Number(_) | Self::Compare(..) | Self::Pattern(_) | Self::Within(_) => {
                // A number is the text that spells it; tables and booleans are neither.
                let text = match value {
                    Value::String(text) => Cow::Borrowed(text.as_str()),
                    Value::Number(number) => Cow::Owned(number.to_string()),
                    _ => return false,
                };
                self.holds_for_text(text.as_bytes())
            }
        }
    }
}

/// Whether two values are the same to Lua: of one type, and 1 is 1.0; two tables never are.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(_) | Value::Object(_), _) | (_, Value::Null) => false,
        (a, b) => a == b,
    }
}

fn equal(right: &Value) -> Test {
    match right {
        Value::Null => Test::Absent,
        Value::String(text) => Test::Text(text.as_bytes().into()),
        Value::Number(number) => number.as_f64().map_or(Test::Never, Test::Number),
        Value::Bool(wanted) => Test::Bool(*wanted),
        // To Lua no two tables are equal.
        Value::Array(_) | Value::Object(_) => Test::Never,
    }
}

fn compare(relation: fn(&f64, &f64) -> bool, right: &Value) -> Test {
    let number = match right {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => to_number(text.as_bytes()),
        _ => None,
    };
    number.map_or(Test::Never, |number| Test::Compare(relation, number))
}

fn regex(right: &Value, caseless: bool) -> Result<Test, Vec<ConfigError>> {
    let text = match right {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(vec![ConfigError::new("", "invalid regular expression: a string is expected")]),
    };
    let options = PatternOptions { caseless, jit: true, steps_max: MATCH_LIMIT };
    pattern::compile(&text, options).map(Test::Pattern).map_err(|error| {
        let message = error.to_string();
        let message = message.strip_prefix("PCRE2: ").unwrap_or(&message);
        vec![ConfigError::new("", format!("invalid regular expression: {message}"))]
    })
}

fn one_of(right: &Value) -> Test {
    let Value::Array(elements) = right else { return Test::Never };
    Test::OneOf(elements.as_slice().into())
}

fn within(right: &Value) -> Result<Test, Vec<ConfigError>> {
    let invalid = |path: String, message: String| ConfigError::new(path, message);
    let written = match right {
        Value::Array(elements) if !elements.is_empty() => elements.as_slice(),
        Value::String(text) if !text.is_empty() => std::slice::from_ref(right),
        _ => return Err(vec![invalid(String::new(), "invalid ip address".to_owned())]),
    };
    let (mut networks, mut errors) = (Vec::new(), Vec::new());
    for (at, element) in written.iter().enumerate() {
        let path = if right.is_array() { format!("/{at}") } else { String::new() };
        match element.as_str().map(parse_network) {
            Some(Ok(network)) => networks.push(network),
            Some(Err(message)) => errors.push(invalid(path, message)),
            None => errors.push(invalid(path, "invalid ip address: a string is expected".to_owned())),
        }
    }
    if errors.is_empty() { Ok(Test::Within(Networks::new(networks))) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::borrow::Cow;

    /// A source in which every variable has one value.
    struct All(Option<&'static [u8]>);
    impl VarSource for All {
        fn var(&self, _: &Var) -> Option<Cow<'_, [u8]>> {
            self.0.map(Cow::Borrowed)
        }
        fn json(&self, _: &Var) -> Option<Cow<'_, Value>> {
            self.0.and_then(|text| serde_json::from_slice(text).ok()).map(Cow::Owned)
        }
    }

    fn answer(operator: &str, right: &Value, value: Option<&'static str>) -> bool {
        let operator = Operator::parse(operator).expect("an operator");
        let test = operator.test(right).expect("a valid right side");
        test.holds(&Var::Host, &All(value.map(str::as_bytes))) != operator.negates()
    }

    #[test]
    fn operators_answer_as_lua_resty_expr() {
        let table = json!([
            // operator, right side, value, answer
            ["==", "v", "v", true],
            ["==", "v", "w", false],
            ["==", "v", null, false],
            ["==", 18, "18", true],
            ["==", 18, "18.0", true],
            ["==", 18, "0x12", true],
            ["==", 18, "a", false],
            ["==", 18, null, false],
            ["==", "18", "18.0", false],
            ["==", null, null, true],
            ["==", null, "", false],
            ["==", true, "true", false],
            ["==", ["v"], "v", false],
            ["~=", "v", "w", true],
            ["~=", "v", "v", false],
            ["~=", "v", null, true],
            ["~=", 18, "18", false],
            ["~=", 18, "aa", true],
            ["~=", 18, null, true],
            ["~=", null, null, false],
            ["~=", null, "x", true],
            [">", 10, "11", true],
            [">", "10", "11", true],
            [">", 10, "9", false],
            [">", 10, "a", false],
            [">", 10, null, false],
            [">", "b", "11", false],
            [">", true, "11", false],
            [">=", "2", "2", true],
            [">=", 3, "2", false],
            ["<", 3, "2", true],
            ["<", 2, "nan", false],
            ["<=", "2", "3", false],
            ["<=", 3, "3", true],
            ["~~", "[a-z]+", "xy", true],
            ["~~", "[a-z]+", "XY", false],
            ["~~", "[a-z]*", null, false],
            ["~~", 1, "21", true],
            ["~*", "A", "a", true],
            ["~*", "A", "", false],
            ["~*", "A", null, false],
            ["in", ["1", "2"], "1", true],
            ["in", [1, 2], "1", false],
            ["in", [null], null, false],
            ["in", "1", "1", false],
            ["IN", {"a": "1"}, "1", false],
            ["HAS", "b", "b", false],
            ["has", 1, "1", false],
            ["ipmatch", "127.0.0.0/16", "127.0.0.1", true],
            ["ipmatch", ["127.0.0.2", "127.0.0.1"], "127.0.0.1", true],
            ["ipmatch", ["127.0.0.2"], "127.0.0.1", false],
            ["ipmatch", ["::1"], "[::1]", true],
            ["ipmatch", "127.0.0.1", "x", false],
            ["ipmatch", "0.0.0.0/0", null, false]
        ]);
        for row in table.as_array().expect("rows") {
            let value = row[2].as_str().map(|text| &*text.to_owned().leak());
            let operator = row[0].as_str().expect("text");
            assert_eq!(answer(operator, &row[1], value), row[3], "{row}");
        }
    }

    #[test]
    fn values_from_json_have_types() {
        let table = json!([
            // operator, right side, value, answer
            ["==", "v", "v", true],
            ["==", "1", 1, false],
            ["==", 1, 1, true],
            ["==", 1, "1", true],
            ["==", true, true, true],
            ["==", true, "true", false],
            ["==", null, null, true],
            ["==", ["v"], ["v"], false],
            ["~=", "v", ["v"], true],
            [">", 1, 2, true],
            [">", "1", 2.5, true],
            [">", 1, [2], false],
            ["~~", "^a", "ab", true],
            ["~~", "^1", 12, true],
            ["~~", "t", true, false],
            ["in", ["a", 1], 1, true],
            ["in", ["a", 1], "1", false],
            ["in", [["a"]], ["a"], false],
            ["has", "a", ["b", "a"], true],
            ["has", 1, ["1", 1.0], true],
            ["has", "a", ["b"], false],
            ["has", "a", "a", false],
            ["has", null, [null], false],
            ["ipmatch", "10.0.0.0/8", "10.1.1.1", true]
        ]);
        let var = Var::try_parse("post_arg.x").expect("a path");
        for row in table.as_array().expect("rows") {
            let operator = Operator::parse(row[0].as_str().expect("text")).expect("an operator");
            let test = operator.test(&row[1]).expect("a valid right side");
            let value: &'static [u8] = row[2].to_string().into_bytes().leak();
            assert_eq!(test.holds(&var, &All(Some(value))) != operator.negates(), row[3], "{row}");
        }
    }

    #[test]
    fn a_hostile_pattern_gives_up_instead_of_hanging() {
        let text = format!("{}b", "a".repeat(5000));
        for pattern in ["^(a+)+$", "(*NO_JIT)^(a|aa)+$", "(*UTF)^(a+)+$"] {
            let Ok(Test::Pattern(regex)) = Operator::Matches.test(&json!(pattern)) else {
                panic!("{pattern}")
            };
            // The error, not just the missing match: it says that the limit was what ended the search.
            let error = regex.is_match(text.as_bytes()).expect_err(pattern);
            assert!(error.to_string().contains("match limit exceeded"), "{pattern}: {error}");
            assert!(!answer("~~", &json!(pattern), Some(text.clone().leak())), "{pattern}");
        }
        for pattern in ["(*LIMIT_MATCH=4000000000)a", "(*UTF)(*LIMIT_MATCH=9)a"] {
            let errors = Operator::Matches.test(&json!(pattern)).expect_err(pattern);
            assert!(errors[0].message.contains("LIMIT_MATCH"), "{pattern}");
        }
    }

    #[test]
    fn right_sides_that_make_no_sense_are_refused() {
        for (operator, right, path, message) in [
            (
                "~~",
                json!("("),
                "",
                "invalid regular expression: error compiling pattern at offset 1: missing closing parenthesis",
            ),
            ("~*", json!(null), "", "invalid regular expression: a string is expected"),
            ("ipmatch", json!(null), "", "invalid ip address"),
            ("ipmatch", json!(""), "", "invalid ip address"),
            ("ipmatch", json!([]), "", "invalid ip address"),
            ("ipmatch", json!("x"), "", "invalid ip address: x"),
            ("ipmatch", json!(["::1", ""]), "/1", "invalid ip address: "),
            ("ipmatch", json!([1]), "/0", "invalid ip address: a string is expected"),
        ] {
            let errors = Operator::parse(operator).expect("an operator").test(&right).expect_err("refused");
            assert_eq!(errors, [ConfigError::new(path, message)], "{operator} {right}");
        }
    }
}
