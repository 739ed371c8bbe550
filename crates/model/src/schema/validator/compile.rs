//! Turns a JSON Schema document into the tree that is run.

use super::SCHEMA_DEPTH;
use super::array::Items;
use super::combine::{AnyOf, Combinations, Condition};
use super::keywords::{Keywords, strings};
use super::node::{Node, Rules, Type, Types};
use super::object::{Dependency, Fields, Others, Property};
use super::scalar::{Format, NumberRules, TextRules};
use super::walk::push_token;
use crate::ConfigError;
use crate::schema::lua;
use serde_json::Value;

/// Schemas in one document at most, references followed: a recursive one would never end, and a branching one would
/// fill the memory before the depth limit ends it. APISIX's largest has about 200.
const NODES: usize = 10_000;

type Result<T> = std::result::Result<T, ConfigError>;

/// Compiles a schema document.
pub(super) fn compile(root: &Value) -> Result<Node> {
    Compiler { root, path: String::new(), depth: 0, nodes: 0 }.node(root)
}

struct Compiler<'s> {
    root: &'s Value,
    /// JSON pointer of the schema being compiled.
    path: String,
    depth: usize,
    nodes: usize,
}

impl<'s> Compiler<'s> {
    fn node(&mut self, schema: &'s Value) -> Result<Node> {
        self.nodes += 1;
        if self.depth >= SCHEMA_DEPTH || self.nodes > NODES {
            let message = format!("nests deeper than {SCHEMA_DEPTH} levels or has more than {NODES} parts");
            return Err(ConfigError::new(self.path.as_str(), message));
        }
        let map = match schema {
            Value::Bool(true) => return Ok(Node::Anything),
            Value::Bool(false) => return Ok(Node::Nothing),
            Value::Object(map) => map,
            _ => return Err(ConfigError::new(self.path.as_str(), "a schema must be an object or a boolean")),
        };
        let keywords = Keywords { map, path: self.path.clone() };
        if let Some(reference) = keywords.text("$ref")? {
            return self.reference(&keywords, reference);
        }
        let rules = Rules {
            types: types(&keywords)?,
            fields: self.fields(&keywords)?,
            items: self.items(&keywords)?,
            text: text_rules(&keywords)?,
            number: number_rules(&keywords)?,
            values: keywords.list("enum")?.map(|values| values.iter().map(lua::canonical).collect()),
            combinations: self.combinations(&keywords)?,
            format: format(&keywords)?,
            constant: keywords.get("const").map(lua::canonical),
            contains: self.optional(&keywords, "contains")?,
        };
        Ok(Node::Rules(Box::new(rules)))
    }

    /// What a local reference names, compiled in its place.
    fn reference(&mut self, at: &Keywords<'s>, reference: &str) -> Result<Node> {
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let target = target.ok_or_else(|| at.wrong("$ref", "names nothing in this document"))?;
        self.under("$ref", |compiler| compiler.node(target))
    }

    /// Compiles a part of the schema being compiled.
    fn under<T>(&mut self, token: &str, compile: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let length = self.path.len();
        self.path.push('/');
        push_token(&mut self.path, token);
        self.depth += 1;
        let result = compile(self);
        self.depth -= 1;
        self.path.truncate(length);
        result
    }

    /// The schema at keyword `name`, where there is one.
    fn optional(&mut self, keywords: &Keywords<'s>, name: &str) -> Result<Option<Node>> {
        keywords.get(name).map(|schema| self.under(name, |compiler| compiler.node(schema))).transpose()
    }

    /// The schemas in the array at keyword `name`, where there is one.
    fn branches(&mut self, keywords: &Keywords<'s>, name: &str) -> Result<Option<Vec<Node>>> {
        let Some(list) = keywords.list(name)? else { return Ok(None) };
        let mut nodes = Vec::with_capacity(list.len());
        for (i, schema) in list.iter().enumerate() {
            let node = self.under(name, |c| c.under(&i.to_string(), |compiler| compiler.node(schema)))?;
            nodes.push(node);
        }
        Ok(Some(nodes))
    }

    fn fields(&mut self, keywords: &Keywords<'s>) -> Result<Option<Fields>> {
        const KEYWORDS: [&str; 7] = [
            "properties",
            "additionalProperties",
            "patternProperties",
            "minProperties",
            "maxProperties",
            "dependencies",
            "required",
        ];
        if !keywords.has_any(&KEYWORDS) {
            return Ok(None);
        }
        let required = keywords.names("required")?;
        let mut fields = Fields {
            lists_properties: keywords.has_any(&["properties"]),
            only_empty: required.as_ref().is_some_and(Vec::is_empty),
            required: required.unwrap_or_default(),
            min: keywords.size("minProperties")?,
            max: keywords.size("maxProperties")?,
            ..Fields::default()
        };
        for (name, schema) in keywords.entries("dependencies")? {
            let dependency = self.dependency(keywords, name, schema)?;
            fields.dependencies.push((name.clone(), dependency));
        }
        for (name, schema) in keywords.entries("properties")? {
            let node = self.under("properties", |c| c.under(name, |compiler| compiler.node(schema)))?;
            let dependent = fields.dependencies.iter().position(|(other, _)| other == name);
            let asked = fields.required.iter().position(|other| other == name);
            fields.properties.push(Property {
                name: name.clone(),
                node,
                required: asked.map(|i| fields.required.remove(i)).is_some(),
                default: schema.get("default").filter(|default| !default.is_null()).cloned(),
                dependency: dependent.map(|i| fields.dependencies.remove(i).1),
            });
        }
        for (pattern, schema) in keywords.entries("patternProperties")? {
            let node =
                self.under("patternProperties", |c| c.under(pattern, |compiler| compiler.node(schema)))?;
            fields.patterns.push((keywords.pattern("patternProperties", pattern)?, node));
        }
        fields.others = match self.optional(keywords, "additionalProperties")? {
            None => Others::Unmentioned,
            Some(Node::Anything) => Others::Welcome,
            Some(Node::Nothing) => Others::Forbidden,
            Some(node) => Others::Schema(node),
        };
        Ok(Some(fields))
    }

    fn dependency(&mut self, keywords: &Keywords<'s>, name: &str, schema: &'s Value) -> Result<Dependency> {
        match schema {
            Value::Array(names) => strings(names)
                .map(Dependency::Fields)
                .ok_or_else(|| keywords.wrong("dependencies", "must name fields or be schemas")),
            schema => self
                .under("dependencies", |c| c.under(name, |compiler| compiler.node(schema)))
                .map(Dependency::Schema),
        }
    }

    fn items(&mut self, keywords: &Keywords<'s>) -> Result<Option<Items>> {
        if !keywords.has_any(&["items", "minItems", "maxItems", "uniqueItems"]) {
            return Ok(None);
        }
        let tuple = keywords.get("items").is_some_and(Value::is_array);
        Ok(Some(Items {
            rest: self.optional(keywords, if tuple { "additionalItems" } else { "items" })?,
            tuple: if tuple { self.branches(keywords, "items")?.unwrap_or_default() } else { Vec::new() },
            min: keywords.size("minItems")?,
            max: keywords.size("maxItems")?,
            unique: keywords.flag("uniqueItems")?,
        }))
    }

    fn combinations(&mut self, keywords: &Keywords<'s>) -> Result<Combinations> {
        let condition = match self.optional(keywords, "if")? {
            Some(test) => Some(Condition {
                test,
                then: self.optional(keywords, "then")?,
                otherwise: self.optional(keywords, "else")?,
            }),
            None => None,
        };
        Ok(Combinations {
            all_of: self.branches(keywords, "allOf")?.unwrap_or_default(),
            any_of: self
                .branches(keywords, "anyOf")?
                .map(|branches| AnyOf { branches, hint: required_hint(keywords) }),
            one_of: self.branches(keywords, "oneOf")?,
            condition,
            not: self.optional(keywords, "not")?,
        })
    }
}

/// `: ["a"] or ["b","c"]` where branches of `anyOf` name required fields; slashes escaped as Lua's JSON library does.
fn required_hint(keywords: &Keywords<'_>) -> String {
    let branches = keywords.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let sets: Vec<_> = branches
        .filter_map(|branch| branch.get("required"))
        .map(|r| r.to_string().replace('/', "\\/"))
        .collect();
    if sets.is_empty() { String::new() } else { format!(": {}", sets.join(" or ")) }
}

fn types(keywords: &Keywords<'_>) -> Result<Option<Types>> {
    let (names, listed) = match keywords.get("type") {
        None => return Ok(None),
        Some(Value::Array(names)) => (names.iter().map(Value::as_str).collect(), true),
        Some(name) => (vec![name.as_str()], false),
    };
    let known = names.into_iter().map(|name| name.and_then(Type::from_name)).collect::<Option<Vec<_>>>();
    let any_of = known.ok_or_else(|| keywords.wrong("type", "names a type that JSON Schema doesn't have"))?;
    Ok(Some(Types { any_of, listed }))
}

fn text_rules(keywords: &Keywords<'_>) -> Result<Option<TextRules>> {
    if !keywords.has_any(&["minLength", "maxLength", "pattern"]) {
        return Ok(None);
    }
    let pattern = keywords.text("pattern")?.map(|text| keywords.pattern("pattern", text)).transpose()?;
    Ok(Some(TextRules { min: keywords.size("minLength")?, max: keywords.size("maxLength")?, pattern }))
}

fn number_rules(keywords: &Keywords<'_>) -> Result<Option<NumberRules>> {
    if !keywords.has_any(&["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"]) {
        return Ok(None);
    }
    let step = keywords.number("multipleOf")?;
    if step.is_some_and(|step| step <= 0.0) {
        return Err(keywords.wrong("multipleOf", "must be greater than 0"));
    }
    Ok(Some(NumberRules {
        min: keywords.number("minimum")?,
        above: keywords.number("exclusiveMinimum")?,
        max: keywords.number("maximum")?,
        below: keywords.number("exclusiveMaximum")?,
        step,
    }))
}

fn format(keywords: &Keywords<'_>) -> Result<Option<Format>> {
    let Some(name) = keywords.text("format")? else { return Ok(None) };
    Format::from_name(name).map_err(|error| keywords.wrong("format", error.to_string()))
}
