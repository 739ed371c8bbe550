//! Paths into a JSON document: the part of JSONPath that conditions on a request's body need.
//!
//! `model`, `messages[0].role`, `messages[*].content[*].type`, `..name`, `['a key']`. Filters and slices are not part
//! of it.

use serde_json::Value;
use std::borrow::Cow;

/// Values that one path may find; what lies beyond is left out. A body of the largest size accepted can hold millions
/// of matches, and a condition that needs more than this many of them is a mistake.
pub const FOUND_MAX: usize = 10_000;

/// A path, parsed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JsonPath {
    steps: Box<[Step]>,
    /// The path without its `$.`, as written.
    text: Box<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    /// A member of an object.
    Name(Box<str>),
    /// An element of an array, from 0; negative ones count from its end.
    Index(i64),
    /// All members or elements.
    All,
    /// The value itself and everything below it.
    Descend,
}

impl JsonPath {
    /// Parses a path that begins at the document's root, whose `$` is left out.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let (step, after) = bracket(inside).ok_or_else(|| format!("bad index at '{rest}'"))?;
                steps.push(step);
                rest = after;
                continue;
            }
            if let Some(after) = rest.strip_prefix("..") {
                steps.push(Step::Descend);
                rest = after;
                if rest.starts_with('[') {
                    continue;
                }
            } else if let Some(after) = rest.strip_prefix('.').filter(|_| !steps.is_empty()) {
                rest = after;
            } else if !steps.is_empty() {
                return Err(format!("'.' is expected at '{rest}'"));
            }
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            match name {
                "" => return Err(format!("a name is expected at '{rest}'")),
                "*" => steps.push(Step::All),
                name => steps.push(Step::Name(name.into())),
            }
            rest = after;
        }
        match steps.last() {
            None | Some(Step::Descend) => Err("the path is empty".to_owned()),
            Some(_) => Ok(Self { steps: steps.into(), text: text.into() }),
        }
    }

    /// The path as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What the path leads to; `None` for nothing and for `null`. A path that can lead to several places gives the
    /// list of what stands there.
    #[must_use]
    pub fn find<'v>(&self, document: &'v Value) -> Option<Cow<'v, Value>> {
        if self.steps.iter().all(|step| matches!(step, Step::Name(_))) {
            let found = self.steps.iter().try_fold(document, |value, step| match step {
                Step::Name(name) => value.get(&**name),
                _ => None,
            });
            return found.filter(|value| !value.is_null()).map(Cow::Borrowed);
        }
        let mut found = vec![document];
        for step in &self.steps {
            found = step.apply(&found);
        }
        (!found.is_empty()).then(|| Cow::Owned(found.into_iter().cloned().collect()))
    }
}

impl Step {
    fn apply<'v>(&self, values: &[&'v Value]) -> Vec<&'v Value> {
        let mut found = Vec::new();
        for value in values {
            match (self, value) {
                (Self::Name(name), value) => found.extend(value.get(&**name)),
                (Self::Index(at), Value::Array(elements)) => found.extend(element(elements, *at)),
                (Self::All, Value::Array(elements)) => found.extend(elements),
                (Self::All, Value::Object(members)) => found.extend(members.values()),
                (Self::Descend, value) => descend(value, &mut found),
                _ => {}
            }
            if found.len() > FOUND_MAX {
                found.truncate(FOUND_MAX);
                break;
            }
        }
        found
    }
}

fn element(elements: &[Value], at: i64) -> Option<&Value> {
    let at = if at < 0 { i64::try_from(elements.len()).ok()?.checked_add(at)? } else { at };
    elements.get(usize::try_from(at).ok()?)
}

/// `top` and all below it. Without recursion, though the depth is bounded by what parsed it.
fn descend<'v>(top: &'v Value, found: &mut Vec<&'v Value>) {
    let mut pending = vec![top];
    while let Some(value) = pending.pop() {
        if found.len() > FOUND_MAX {
            return;
        }
        found.push(value);
        match value {
            Value::Array(elements) => pending.extend(elements.iter().rev()),
            Value::Object(members) => pending.extend(members.values().rev()),
            _ => {}
        }
    }
}

/// The step that `inside`, the text after a `[`, begins with, and what follows its `]`.
fn bracket(inside: &str) -> Option<(Step, &str)> {
    for quote in ['\'', '"'] {
        if let Some(quoted) = inside.strip_prefix(quote) {
            let (name, after) = quoted.split_once(quote)?;
            return Some((Step::Name(name.into()), after.strip_prefix(']')?));
        }
    }
    let (written, after) = inside.split_once(']')?;
    let step = if written == "*" { Step::All } else { Step::Index(written.parse().ok()?) };
    Some((step, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn paths_lead_where_they_say() {
        let document = json!({
            "model": "m", "none": null, "a key": 1, "deep": {"model": {"model": "d"}},
            "messages": [{"role": "user", "content": [{"type": "text"}, {"type": "image_url"}]}, {"role": "bot"}]
        });
        for (path, expected) in [
            ("model", Some(json!("m"))),
            ("none", None),
            ("absent", None),
            ("model.name", None),
            ("deep.model.model", Some(json!("d"))),
            ("messages[0].role", Some(json!(["user"]))),
            ("messages[-1].role", Some(json!(["bot"]))),
            ("messages[2].role", None),
            ("messages[*].role", Some(json!(["user", "bot"]))),
            ("messages[*].content[*].type", Some(json!(["text", "image_url"]))),
            ("messages[*].*", Some(json!(["user", [{"type": "text"}, {"type": "image_url"}], "bot"]))),
            ("..type", Some(json!(["text", "image_url"]))),
            ("messages..type", Some(json!(["text", "image_url"]))),
            ("['a key']", Some(json!(1))),
            ("deep[\"model\"].model", Some(json!("d"))),
            ("[0]", None),
        ] {
            let parsed = JsonPath::parse(path).expect(path);
            assert_eq!(parsed.find(&document).map(Cow::into_owned), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [
            "",
            ".",
            "a.",
            "a..",
            "a[",
            "a[]",
            "a[b]",
            "a[0",
            "messages[.content[*].type",
            "a]",
            "a[0]b",
            "a['b]",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(path in "[a.*\\[\\]0'-]{0,12}") {
            if let Ok(path) = JsonPath::parse(&path) {
                let _ = path.find(&json!({"a": [{"a": 1}, [2, 3], {"a": {"a": []}}]}));
            }
        }
    }
}
