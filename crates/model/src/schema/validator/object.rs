//! The rules on an object's fields.

use super::node::Node;
use super::scalar::Pattern;
use super::walk::{First, Verdict, Walk};
use serde_json::{Map, Value};

/// `properties`, `required`, `dependencies`, `patternProperties`, `additionalProperties`, `minProperties` and
/// `maxProperties`.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// The properties named, in the schema's order.
    pub(super) properties: Vec<Property>,
    /// The keyword is there, be it empty: what isn't in it is unknown.
    pub(super) lists_properties: bool,
    /// Required fields that `properties` doesn't name.
    pub(super) required: Vec<String>,
    /// `required: []`, which APISIX reads as "nothing but an empty object".
    pub(super) only_empty: bool,
    /// Dependencies of fields that `properties` doesn't name.
    pub(super) dependencies: Vec<(String, Dependency)>,
    /// Rules for fields whose names match.
    pub(super) patterns: Vec<(Pattern, Node)>,
    /// What about all other fields.
    pub(super) others: Others,
    pub(super) min: Option<usize>,
    pub(super) max: Option<usize>,
}

/// One of `properties`.
#[derive(Debug)]
pub(super) struct Property {
    pub(super) name: String,
    pub(super) node: Node,
    pub(super) required: bool,
    /// Put in place where the field is absent; never `null`, which APISIX passes over.
    pub(super) default: Option<Value>,
    pub(super) dependency: Option<Dependency>,
}

/// What the presence of a field asks for.
#[derive(Debug)]
pub(super) enum Dependency {
    /// That these are there as well.
    Fields(Vec<String>),
    /// That the whole object satisfies a schema.
    Schema(Node),
}

/// `additionalProperties`.
#[derive(Debug, Default)]
pub(super) enum Others {
    /// Not mentioned: accepted.
    #[default]
    Unmentioned,
    /// `true`: accepted explicitly.
    Welcome,
    /// `false`
    Forbidden,
    /// They satisfy a schema.
    Schema(Node),
}

impl Fields {
    /// `empty`: the value is an empty table.
    pub(super) fn check(&self, value: &mut Value, empty: bool, walk: &mut Walk) -> Verdict {
        let mut first = First::default();
        if value.is_object() || empty {
            for property in &self.properties {
                first.note(property.check(value, walk), walk)?;
            }
            for name in &self.required {
                if value.get(name).is_none() {
                    first.note(missing(name, walk), walk)?;
                }
            }
            for (name, dependency) in &self.dependencies {
                if value.get(name).is_some() {
                    first.note(dependency.check(name, value, walk), walk)?;
                }
            }
            if let Value::Object(fields) = value {
                first.note(self.check_others(fields, walk), walk)?;
            }
            first.note(self.check_count(value.as_object().map_or(0, Map::len), walk), walk)?;
        }
        if self.only_empty && !empty {
            first.note(walk.fault("the input data should be an empty table"), walk)?;
        }
        first.verdict()
    }

    /// The property called `name`, where there is one.
    pub(super) fn property(&self, name: &str) -> Option<&Property> {
        self.properties.iter().find(|property| property.name == name)
    }

    /// Schemas that the presence of a field asks the whole object to satisfy.
    pub(super) fn dependent_schemas(&self) -> impl Iterator<Item = &Node> {
        let of_properties = self.properties.iter().filter_map(|property| property.dependency.as_ref());
        of_properties.chain(self.dependencies.iter().map(|(_, dependency)| dependency)).filter_map(
            |dependency| match dependency {
                Dependency::Schema(node) => Some(node),
                Dependency::Fields(_) => None,
            },
        )
    }

    fn check_others(&self, fields: &mut Map<String, Value>, walk: &mut Walk) -> Verdict {
        if self.patterns.is_empty() && matches!(self.others, Others::Unmentioned | Others::Welcome) {
            return Ok(());
        }
        let mut first = First::default();
        for (name, value) in fields {
            let mut matched = false;
            for (pattern, node) in &self.patterns {
                if !pattern.matches(name, &mut walk.budget) {
                    continue;
                }
                matched = true;
                let verdict = walk.at(name, |walk| node.check(value, walk)).map_err(|line| {
                    format!("failed to validate {name} (matching \"{}\"): {line}", pattern.text())
                });
                first.note(verdict, walk)?;
            }
            if matched || self.property(name).is_some() {
                continue;
            }
            let verdict = match &self.others {
                Others::Unmentioned | Others::Welcome => Ok(()),
                Others::Forbidden => {
                    walk.at(name, |walk| walk.fault(format!("additional properties forbidden, found {name}")))
                }
                Others::Schema(node) => walk
                    .at(name, |walk| node.check(value, walk))
                    .map_err(|line| format!("failed to validate additional property {name}: {line}")),
            };
            first.note(verdict, walk)?;
        }
        first.verdict()
    }

    fn check_count(&self, count: usize, walk: &mut Walk) -> Verdict {
        if let Some(min) = self.min.filter(|min| count < *min) {
            return walk.fault(format!("expect object to have at least {min} properties"));
        }
        if let Some(max) = self.max.filter(|max| count > *max) {
            return walk.fault(format!("expect object to have at most {max} properties"));
        }
        Ok(())
    }
}

impl Property {
    fn check(&self, object: &mut Value, walk: &mut Walk) -> Verdict {
        let name = &self.name;
        let Some(value) = object.get_mut(name) else {
            if self.required {
                return missing(name, walk);
            }
            if let Some(default) = &self.default {
                insert(object, name, default.clone());
            }
            return Ok(());
        };
        let mut first = First::default();
        let verdict = walk
            .at(name, |walk| self.node.check(value, walk))
            .map_err(|line| format!("property \"{name}\" validation failed: {line}"));
        first.note(verdict, walk)?;
        if let Some(dependency) = &self.dependency {
            first.note(dependency.check(name, object, walk), walk)?;
        }
        first.verdict()
    }
}

impl Dependency {
    fn check(&self, name: &str, object: &mut Value, walk: &mut Walk) -> Verdict {
        match self {
            Self::Fields(needed) => {
                let mut first = First::default();
                for other in needed.iter().filter(|other| object.get(other.as_str()).is_none()) {
                    let message = format!("property \"{other}\" is required when \"{name}\" is set");
                    first.note(walk.fault(message), walk)?;
                }
                first.verdict()
            }
            Self::Schema(node) => node
                .check(object, walk)
                .map_err(|line| format!("failed to validate dependent schema for \"{name}\": {line}")),
        }
    }
}

fn missing(name: &str, walk: &mut Walk) -> Verdict {
    walk.fault(format!("property \"{name}\" is required"))
}

/// Only called with an object or an empty array, which thereby becomes an object.
fn insert(object: &mut Value, name: &str, field: Value) {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if let Value::Object(fields) = object {
        fields.insert(name.to_owned(), field);
    }
}
