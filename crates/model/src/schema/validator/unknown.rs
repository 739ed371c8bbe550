//! Which fields a schema accepts without knowing them.

use super::MISTAKES;
use super::node::{Node, Rules};
use super::object::Others;
use super::scalar::Budget;
use super::walk::push_token;
use serde_json::Value;

/// JSON pointers of the fields of `value` that `root` names nowhere although it accepts them.
pub(super) fn fields(root: &Node, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    look(&rules_of([root]), value, &mut String::new(), &mut found);
    found
}

/// All rules that speak about the same value: those of `nodes` and of the branches of their combinations.
fn rules_of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<&'a Rules> {
    let mut rules = Vec::new();
    let mut left: Vec<_> = nodes.into_iter().collect();
    while let Some(node) = left.pop() {
        if let Some(found) = node.rules() {
            left.extend(found.combinations.branches());
            left.extend(found.fields.iter().flat_map(|fields| fields.dependent_schemas()));
            rules.push(found);
        }
    }
    rules
}

/// Recursion is bounded by the value's depth, which the caller checked, and by the schema's.
fn look(rules: &[&Rules], value: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                path.push('/');
                push_token(path, name);
                let named = nodes_for(rules, name);
                if named.is_empty() {
                    if found.len() < MISTAKES && would_name(rules) {
                        found.push(path.clone());
                    }
                } else {
                    look(&rules_of(named), field, path, found);
                }
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                let nodes = rules.iter().filter_map(|rules| rules.items.as_ref());
                let nodes = rules_of(nodes.filter_map(|items| items.tuple.get(i).or(items.rest.as_ref())));
                if nodes.is_empty() {
                    continue;
                }
                path.push('/');
                path.push_str(&i.to_string());
                look(&nodes, item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// What the schema says about the field called `name`.
fn nodes_for<'a>(rules: &[&'a Rules], name: &str) -> Vec<&'a Node> {
    let mut nodes = Vec::new();
    for fields in rules.iter().filter_map(|rules| rules.fields.as_ref()) {
        nodes.extend(fields.property(name).map(|property| &property.node));
        let mut budget = Budget::default();
        let matching = fields.patterns.iter().filter(|(pattern, _)| pattern.matches(name, &mut budget));
        nodes.extend(matching.map(|(_, node)| node));
        if let Others::Schema(node) = &fields.others {
            nodes.push(node);
        }
    }
    nodes
}

/// Whether a field that isn't named is unknown: somewhere fields are listed, and nowhere are others welcome or
/// refused (refusing them is the check's affair).
fn would_name(rules: &[&Rules]) -> bool {
    let mut fields = rules.iter().filter_map(|rules| rules.fields.as_ref());
    let mut lists = false;
    fields.all(|fields| {
        lists |= fields.lists_properties;
        matches!(fields.others, Others::Unmentioned)
    }) && lists
}
