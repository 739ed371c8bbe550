//! The rules on strings and numbers.

use super::walk::{First, Verdict, Walk};
use crate::pattern::{self, PatternError, PatternOptions};
use crate::schema::lua;
use pcre2::bytes::Regex;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

/// Steps a pattern may take on one string, as PCRE2 counts them (its own default is 10,000,000): a pattern that needs
/// more on a configuration value is one that runs away. 1,000,000 steps take some 10 ms...
const STEPS_MAX: u32 = 1_000_000;

/// ...so that this many tests of one check may take as many: 160 ms.
const LONG_TESTS_MAX: u32 = 16;

/// Steps of the tests after these. A body of a request may hold 10,000 strings, which take 1 s at the worst.
const BRIEF_STEPS_MAX: u32 = 10_000;

/// What the tests of one check have used.
#[derive(Debug, Default)]
pub(super) struct Budget {
    tests: u32,
    exhausted: bool,
}

impl Budget {
    /// Whether a pattern ran into its limit: what was checked is not known to be valid then.
    pub(super) fn exhausted(&self) -> bool {
        self.exhausted
    }
}

/// A regular expression in PCRE's language, as APISIX's schemas use it: on bytes, so `\d` and `\s` are ASCII.
#[derive(Debug)]
pub(super) struct Pattern {
    long: Regex,
    /// The same with fewer steps, compiled when it is first needed.
    brief: OnceLock<Option<Regex>>,
    text: String,
}

impl Pattern {
    pub(super) fn compile(text: &str) -> Result<Self, PatternError> {
        Ok(Self { long: with_steps(text, STEPS_MAX)?, brief: OnceLock::new(), text: text.to_owned() })
    }

    /// Whether it matches anywhere in `text`. A pattern that runs into the limit exhausts the budget; it does not
    /// match, and no further one does.
    pub(super) fn matches(&self, text: &str, budget: &mut Budget) -> bool {
        if budget.exhausted {
            return false;
        }
        budget.tests = budget.tests.saturating_add(1);
        let brief = || self.brief.get_or_init(|| with_steps(&self.text, BRIEF_STEPS_MAX).ok()).as_ref();
        let regex = if budget.tests > LONG_TESTS_MAX { brief().unwrap_or(&self.long) } else { &self.long };
        regex.is_match(text.as_bytes()).unwrap_or_else(|_| {
            budget.exhausted = true;
            false
        })
    }

    /// The pattern as written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// No JIT: a pattern of a schema runs once per configuration change, which does not earn back its compilation.
fn with_steps(text: &str, steps_max: u32) -> Result<Regex, PatternError> {
    pattern::compile(text, PatternOptions { caseless: false, jit: false, steps_max })
}

/// `minLength`, `maxLength` (in characters) and `pattern`.
#[derive(Debug, Default)]
pub(super) struct TextRules {
    pub(super) min: Option<usize>,
    pub(super) max: Option<usize>,
    pub(super) pattern: Option<Pattern>,
}

impl TextRules {
    pub(super) fn check(&self, text: &str, walk: &mut Walk) -> Verdict {
        let mut first = First::default();
        let length = text.chars().count();
        if let Some(min) = self.min.filter(|min| length < *min) {
            let message = format!("string too short, expected at least {min}, got {length}");
            first.note(walk.fault(message), walk)?;
        }
        if let Some(max) = self.max.filter(|max| length > *max) {
            let message = format!("string too long, expected at most {max}, got {length}");
            first.note(walk.fault(message), walk)?;
        }
        if let Some(pattern) = &self.pattern
            && !pattern.matches(text, &mut walk.budget)
        {
            let (pattern, text) = (lua::quoted(pattern.text()), lua::quoted(text));
            first.note(walk.fault(format!("failed to match pattern {pattern} with {text}")), walk)?;
        }
        first.verdict()
    }
}

/// `minimum`, `exclusiveMinimum`, `maximum`, `exclusiveMaximum` and `multipleOf`.
#[derive(Debug, Default)]
pub(super) struct NumberRules {
    pub(super) min: Option<f64>,
    pub(super) above: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) below: Option<f64>,
    /// Greater than 0.
    pub(super) step: Option<f64>,
}

impl NumberRules {
    pub(super) fn check(&self, number: f64, walk: &mut Walk) -> Verdict {
        let bounds = [
            (self.min.filter(|min| number < *min), "at least"),
            (self.above.filter(|above| number <= *above), "greater than"),
            (self.max.filter(|max| number > *max), "at most"),
            (self.below.filter(|below| number >= *below), "smaller than"),
            (self.step.filter(|step| !is_multiple(number, *step)), "a multiple of"),
        ];
        let mut first = First::default();
        for (violated, words) in bounds {
            if let Some(bound) = violated {
                let (number, bound) = (lua::number(number), lua::number(bound));
                first.note(walk.fault(format!("expected {number} to be {words} {bound}")), walk)?;
            }
        }
        first.verdict()
    }
}

/// Exact for whole steps; for others as near as doubles tell (1.13 is a multiple of 0.01).
fn is_multiple(number: f64, step: f64) -> bool {
    if step.fract() == 0.0 {
        return number % step == 0.0;
    }
    let quotient = number / step;
    let rounded = (quotient + 0.5).floor();
    (quotient - rounded).abs() <= 1e-12 * if rounded == 0.0 { 1.0 } else { rounded.abs() }
}

/// `format`, those that APISIX enforces; all others are annotations.
#[derive(Debug)]
pub(super) enum Format {
    Ipv4,
    Ipv6,
    /// Those that are a pattern, with their name.
    Pattern(&'static str, Pattern),
}

impl Format {
    /// The format called `name`; `None` for an annotation.
    pub(super) fn from_name(name: &str) -> Result<Option<Self>, PatternError> {
        let (name, pattern) = match name {
            "ipv4" => return Ok(Some(Self::Ipv4)),
            "ipv6" => return Ok(Some(Self::Ipv6)),
            "email" => ("email", r"^[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+\.[A-Za-z]{2,4}$"),
            "hostname" => ("hostname", r"^[a-zA-Z0-9.-]+$"),
            "uuid" => ("uuid", r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"),
            "date" => ("date", r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$"),
            "date-time" => (
                "date-time",
                r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]([01]\d|2[0-3])(:[0-5]\d){2}(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$",
            ),
            "uri" => ("uri", r"^[a-zA-Z][a-zA-Z0-9+.-]*:\S*$"),
            _ => return Ok(None),
        };
        Pattern::compile(pattern).map(|pattern| Some(Self::Pattern(name, pattern)))
    }

    pub(super) fn check(&self, text: &str, walk: &mut Walk) -> Verdict {
        let (name, valid) = match self {
            Self::Ipv4 => ("ipv4", text.parse::<Ipv4Addr>().is_ok()),
            Self::Ipv6 => ("ipv6", text.parse::<Ipv6Addr>().is_ok()),
            Self::Pattern(name, pattern) => (*name, pattern.matches(text, &mut walk.budget)),
        };
        if valid { Ok(()) } else { walk.fault(format!("expect valid {name} format but got: {text}")) }
    }
}
