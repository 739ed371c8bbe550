//! Typed reading of the tree: every getter answers with what it found or a default, and keeps each mistake.

pub(crate) mod keys;

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use stdx::units;

use document::diagnostic::Code;
use document::variables::join;
use document::{Diagnostic, Found, Position, codes};
use document::{Node, Value};
use keys::nearest;

#[cfg(test)]
thread_local! {
    /// The paths that were asked for, with `[]` in place of indices.
    pub(crate) static ASKED: std::cell::RefCell<std::collections::BTreeSet<String>> = const {
        std::cell::RefCell::new(std::collections::BTreeSet::new())
    };
}

/// A mapping of the file, or the absence of one, which reads like an empty mapping.
#[derive(Clone)]
pub(crate) struct Section<'a> {
    node: Option<&'a Node>,
    path: String,
    found: &'a Found,
}

/// A value that stands in the file; null counts as absent.
#[derive(Clone)]
pub(crate) struct Field<'a> {
    node: &'a Node,
    path: String,
    found: &'a Found,
}

impl<'a> Section<'a> {
    /// The whole document.
    pub(crate) fn root(node: &'a Node, found: &'a Found) -> Self {
        let mut root = Self { node: None, path: String::new(), found };
        if node.value != Value::Null {
            root.node = Field { node, path: String::new(), found }.mapping();
        }
        root
    }

    /// The mapping at `key`.
    pub(crate) fn section(&self, key: &str) -> Section<'a> {
        let node = self.field(key).and_then(|field| field.mapping());
        Section { node, path: join(&self.path, key), found: self.found }
    }

    /// The value at `key`.
    pub(crate) fn field(&self, key: &str) -> Option<Field<'a>> {
        #[cfg(test)]
        ASKED.with_borrow_mut(|asked| asked.insert(pattern(&join(&self.path, key))));
        let node = self.node?.get(key)?;
        Some(Field { node, path: join(&self.path, key), found: self.found })
    }

    /// Whether `key` stands there with nothing or an empty list behind it: the operator emptied the default.
    pub(crate) fn is_emptied(&self, key: &str) -> bool {
        let Some(Value::Map(entries)) = self.node.map(|node| &node.value) else { return false };
        entries.iter().any(|entry| entry.key == key && entry.value.value == Value::Null)
    }

    /// A boolean.
    pub(crate) fn bool(&self, key: &str, default: bool) -> bool {
        self.field(key).and_then(|field| field.bool()).unwrap_or(default)
    }

    /// nginx's `on` and `off`, which YAML may have read as a boolean.
    pub(crate) fn switch(&self, key: &str, default: bool) -> bool {
        self.field(key).and_then(|field| field.switch()).unwrap_or(default)
    }

    /// An integer in a range.
    pub(crate) fn integer(&self, key: &str, range: RangeInclusive<i64>, default: i64) -> i64 {
        self.field(key).and_then(|field| field.integer(range)).unwrap_or(default)
    }

    /// A string.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.field(key).and_then(|field| field.text())
    }

    /// A time in nginx's notation; a plain number counts seconds.
    pub(crate) fn duration(&self, key: &str, default: Duration) -> Duration {
        self.field(key).and_then(|field| field.duration()).unwrap_or(default)
    }

    /// A size in nginx's notation; a plain number counts bytes.
    pub(crate) fn size(&self, key: &str, default: u64) -> u64 {
        self.field(key).and_then(|field| field.size()).unwrap_or(default)
    }

    /// One of a set of words.
    pub(crate) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)], default: T) -> T {
        self.field(key).and_then(|field| field.choice(choices)).unwrap_or(default)
    }

    /// The items of a list; `None` where there is none.
    pub(crate) fn list(&self, key: &str) -> Option<Vec<Field<'a>>> {
        self.field(key).and_then(|field| field.list())
    }

    /// A list of strings; `None` where there is none.
    pub(crate) fn texts(&self, key: &str) -> Option<Vec<String>> {
        Some(self.list(key)?.iter().filter_map(Field::text).map(str::to_owned).collect())
    }

    /// An address from the keys `ip` and `port` of this section, and the place where either is named.
    pub(crate) fn address(&self, default: SocketAddr) -> (SocketAddr, Option<Field<'a>>) {
        let (ip, port) = (self.field("ip"), self.field("port"));
        let address = SocketAddr::new(
            ip.as_ref().and_then(Field::ip).unwrap_or(default.ip()),
            port.as_ref().and_then(Field::port).unwrap_or(default.port()),
        );
        (address, port.or(ip))
    }
}

impl<'a> Field<'a> {
    /// Where the value begins.
    pub(crate) fn at(&self) -> Position {
        self.node.at
    }

    /// The value as it stands.
    pub(crate) fn value(&self) -> &'a Value {
        &self.node.value
    }

    /// This value as a section; only for one that is a mapping.
    pub(crate) fn as_section(&self) -> Section<'a> {
        Section { node: self.mapping(), path: self.path.clone(), found: self.found }
    }

    /// Reports [`codes::INVALID_VALUE`] for this value. Returns `None`, so that a reader can end with it.
    pub(crate) fn fail<T>(&self, message: impl Into<String>, hint: impl Into<String>) -> Option<T> {
        self.fail_as(codes::INVALID_VALUE, message, hint)
    }

    /// Reports an error for this value. Returns `None`.
    pub(crate) fn fail_as<T>(
        &self,
        code: Code,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Option<T> {
        self.found.add(self.placed(Diagnostic::error(code, message)).hint(hint));
        None
    }

    /// Reports a warning about this value.
    pub(crate) fn warn(&self, code: Code, message: impl Into<String>, hint: impl Into<String>) {
        self.found.add(self.placed(Diagnostic::warning(code, message)).hint(hint));
    }

    fn placed(&self, diagnostic: Diagnostic) -> Diagnostic {
        diagnostic.at(self.node.at).path(&self.path)
    }

    /// A boolean.
    pub(crate) fn bool(&self) -> Option<bool> {
        match &self.node.value {
            Value::Bool(value) => Some(*value),
            Value::Filled(text) if text == "true" => Some(true),
            Value::Filled(text) if text == "false" => Some(false),
            _ => self.mismatch("true or false", "write it without quotes"),
        }
    }

    /// nginx's `on` or `off`.
    pub(crate) fn switch(&self) -> Option<bool> {
        match &self.node.value {
            Value::Bool(value) => Some(*value),
            Value::Text(text) | Value::Filled(text) if matches!(text.as_str(), "on" | "true") => Some(true),
            Value::Text(text) | Value::Filled(text) if matches!(text.as_str(), "off" | "false") => {
                Some(false)
            }
            _ => self.mismatch("\"on\" or \"off\"", "write \"on\" or \"off\""),
        }
    }

    /// An integer in a range. A string of digits will do, as in APISIX.
    pub(crate) fn integer(&self, range: RangeInclusive<i64>) -> Option<i64> {
        let number = match &self.node.value {
            Value::Int(number) => Some(*number),
            Value::Text(text) | Value::Filled(text) => text.trim().parse().ok(),
            _ => None,
        };
        let (low, high) = (range.start(), range.end());
        let expected = match (*low, *high) {
            (0, i64::MAX) => "an integer of at least 0".to_owned(),
            (low, i64::MAX) => format!("an integer of at least {low}"),
            (low, high) => format!("an integer from {low} to {high}"),
        };
        match number {
            Some(number) if range.contains(&number) => Some(number),
            _ => self.mismatch(&expected, &format!("write {expected}, without a unit")),
        }
    }

    /// A port. 0 lets the kernel choose one.
    pub(crate) fn port(&self) -> Option<u16> {
        self.integer(0..=65_535).and_then(|port| u16::try_from(port).ok())
    }

    /// A string.
    pub(crate) fn text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) | Value::Filled(text) => Some(text),
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                self.mismatch("a string", "put the value in quotes")
            }
            _ => self.mismatch("a string", "write one value"),
        }
    }

    /// A time.
    pub(crate) fn duration(&self) -> Option<Duration> {
        const HINT: &str = "units are ms, s, m, h, d, w, M and y; a number without a unit counts seconds";
        match &self.node.value {
            Value::Int(seconds) if *seconds >= 0 => Some(Duration::from_secs(seconds.unsigned_abs())),
            Value::Float(seconds) => match Duration::try_from_secs_f64(*seconds) {
                Ok(duration) => Some(duration),
                Err(_) => self.mismatch("a time such as 60s", HINT),
            },
            Value::Text(text) | Value::Filled(text) => match units::duration(text) {
                Ok(duration) => Some(duration),
                Err(message) => self.fail(message, HINT),
            },
            _ => self.mismatch("a time such as 60s", HINT),
        }
    }

    /// A size in bytes.
    pub(crate) fn size(&self) -> Option<u64> {
        const HINT: &str = "units are k, m and g; a number without a unit counts bytes";
        match &self.node.value {
            Value::Int(bytes) if *bytes >= 0 => Some(bytes.unsigned_abs()),
            Value::Text(text) | Value::Filled(text) => match units::size(text) {
                Ok(size) => Some(size),
                Err(message) => self.fail(message, HINT),
            },
            _ => self.mismatch("a size such as 16k", HINT),
        }
    }

    /// One of a set of words.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(*choice);
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let hint = match nearest(text, &words) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("write one of {}", words.join(", ")),
        };
        self.fail(format!("expected one of {}, found {text:?}", words.join(", ")), hint)
    }

    /// An IP address, IPv6 with or without nginx's brackets.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        let text = self.text()?;
        let bare = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(text);
        match bare.parse() {
            Ok(ip) => Some(ip),
            Err(_) => {
                self.mismatch("an IP address", "write an address such as 127.0.0.1, 0.0.0.0 or \"[::]\"")
            }
        }
    }

    /// An address or a range of them.
    pub(crate) fn network(&self) -> Option<IpNet> {
        let text = self.text()?;
        let network = text.parse::<IpNet>().ok().or_else(|| Some(text.parse::<IpAddr>().ok()?.into()));
        match network {
            Some(network) => Some(network),
            None => self.mismatch("an IP address or CIDR range", "write it like 127.0.0.1 or 10.0.0.0/8"),
        }
    }

    /// The items of a list.
    pub(crate) fn list(&self) -> Option<Vec<Field<'a>>> {
        let Value::List(items) = &self.node.value else {
            return self.mismatch("a list", "begin each item with \"- \" on a line of its own");
        };
        let item = |(index, node)| Field { node, path: format!("{}[{index}]", self.path), found: self.found };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// Anything, as JSON. A string that holds a variable becomes a number or boolean where it looks like one.
    pub(crate) fn json(&self) -> serde_json::Value {
        self.node.to_json()
    }

    fn mapping(&self) -> Option<&'a Node> {
        match &self.node.value {
            Value::Map(_) => Some(self.node),
            _ => self.mismatch("a mapping", "write its keys below it, indented"),
        }
    }

    fn mismatch<T>(&self, expected: &str, hint: &str) -> Option<T> {
        self.fail_as(
            codes::WRONG_TYPE,
            format!("expected {expected}, found {}", describe(&self.node.value)),
            hint,
        )
    }
}

/// A path with `[]` in place of indices.
#[cfg(test)]
fn pattern(path: &str) -> String {
    let mut inside = false;
    let keep = |letter: &char| {
        inside = (inside || *letter == '[') && *letter != ']';
        !inside || *letter == '['
    };
    path.chars().filter(keep).collect()
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Int(number) => format!("the number {number}"),
        Value::Float(number) => format!("the number {number}"),
        Value::Text(text) | Value::Filled(text) => format!("the string {text:?}"),
        Value::List(_) => "a list".into(),
        Value::Map(_) => "a mapping".into(),
    }
}
