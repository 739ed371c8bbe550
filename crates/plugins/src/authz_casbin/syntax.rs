//! The expressions of matchers.

use super::model::Model;

/// How deep an expression may be nested.
const DEPTH_MAX: usize = 64;

/// An expression, its names looked up in the model.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ast {
    Or(Vec<Self>),
    And(Vec<Self>),
    Not(Box<Self>),
    Compare(Comparison, Box<Self>, Box<Self>),
    In(Box<Self>, Vec<Self>),
    Text(String),
    Number(f64),
    Bool(bool),
    /// A part of the request.
    Request(usize),
    /// A part of the rule.
    Policy(usize),
    Call(String, Vec<Self>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// Reads an expression.
pub(super) fn parse(text: &str, model: &Model) -> Result<Ast, String> {
    let mut parser = Parser { rest: text, model, depth: 0 };
    let ast = parser.or()?;
    parser.skip();
    if parser.rest.is_empty() { Ok(ast) } else { Err(parser.unexpected()) }
}

struct Parser<'t> {
    rest: &'t str,
    model: &'t Model,
    depth: usize,
}

impl Parser<'_> {
    fn or(&mut self) -> Result<Ast, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("an expression of the model is nested too deeply".to_owned());
        }
        let mut parts = vec![self.and()?];
        while self.takes("||") {
            parts.push(self.and()?);
        }
        self.depth -= 1;
        Ok(if parts.len() == 1 { parts.remove(0) } else { Ast::Or(parts) })
    }

    fn and(&mut self) -> Result<Ast, String> {
        let mut parts = vec![self.not()?];
        while self.takes("&&") {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Ast::And(parts) })
    }

    fn not(&mut self) -> Result<Ast, String> {
        let mut negated = false;
        while !self.rest.trim_start().starts_with("!=") && self.takes("!") {
            negated = !negated;
        }
        let inner = self.comparison()?;
        Ok(if negated { Ast::Not(Box::new(inner)) } else { inner })
    }

    fn comparison(&mut self) -> Result<Ast, String> {
        let left = self.operand()?;
        for (sign, comparison) in COMPARISONS {
            if self.takes(sign) {
                return Ok(Ast::Compare(comparison, Box::new(left), Box::new(self.operand()?)));
            }
        }
        self.skip();
        let is_in = self.rest.strip_prefix("in").is_some_and(|rest| rest.starts_with([' ', '(', '\t']));
        if !is_in {
            return Ok(left);
        }
        self.rest = &self.rest[2..];
        if !self.takes("(") {
            return Err("`in` is followed by a list in parentheses".to_owned());
        }
        Ok(Ast::In(Box::new(left), self.list()?))
    }

    fn operand(&mut self) -> Result<Ast, String> {
        self.skip();
        if self.takes("(") {
            let inner = self.or()?;
            return if self.takes(")") { Ok(inner) } else { Err(self.unexpected()) };
        }
        if let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            let (text, rest) = self.rest[1..].split_once(quote).ok_or("a text of the model has no end")?;
            self.rest = rest;
            return Ok(Ast::Text(text.to_owned()));
        }
        let end = self
            .rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.')))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return Err(self.unexpected());
        }
        self.rest = rest;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().map(Ast::Number).map_err(|_| format!("not a number: {word}"));
        }
        if self.takes("(") {
            return Ok(Ast::Call(word.to_owned(), self.list()?));
        }
        self.named(word)
    }

    fn named(&self, word: &str) -> Result<Ast, String> {
        let at = |names: &[String], name: &str| names.iter().position(|other| other == name);
        let found = match (word, word.split_once('.')) {
            ("true", _) => Some(Ast::Bool(true)),
            ("false", _) => Some(Ast::Bool(false)),
            (_, Some(("r", name))) => at(&self.model.request, name).map(Ast::Request),
            (_, Some(("p", name))) => at(&self.model.policy, name).map(Ast::Policy),
            _ => None,
        };
        found.ok_or_else(|| format!("the model knows no `{word}`"))
    }

    /// The rest of a list in parentheses.
    fn list(&mut self) -> Result<Vec<Ast>, String> {
        let mut items = Vec::new();
        if self.takes(")") {
            return Ok(items);
        }
        loop {
            items.push(self.or()?);
            if self.takes(")") {
                return Ok(items);
            }
            if !self.takes(",") {
                return Err(self.unexpected());
            }
        }
    }

    fn takes(&mut self, sign: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn unexpected(&self) -> String {
        let shown: String = self.rest.chars().take(20).collect();
        if shown.is_empty() {
            "an expression of the model ends too early".to_owned()
        } else {
            format!("an expression of the model has something unexpected at: {shown}")
        }
    }
}
