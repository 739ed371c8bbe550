//! Where in the file a part of a resource stands.

use document::Position;
use document::{Node, Value};
use std::sync::Arc;

/// A resource's node, and what was renamed on the way.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    node: Arc<Node>,
    /// Beginnings of pointers into the resource, and what they are in the file.
    renamed: Vec<(String, String)>,
}

impl Origin {
    /// A resource that is written as it is meant.
    pub(crate) fn new(node: Node) -> Self {
        Self { node: Arc::new(node), renamed: Vec::new() }
    }

    /// What stands at `meant` in the resource stands at `written` in the file.
    pub(crate) fn rename(&mut self, meant: impl Into<String>, written: impl Into<String>) {
        self.renamed.push((meant.into(), written.into()));
    }

    /// The place of a JSON pointer into the resource, or of the innermost part of it that the file has.
    pub(crate) fn locate(&self, pointer: &str) -> Position {
        let below = |meant: &str| {
            let rest = pointer.strip_prefix(meant)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        };
        let renamed =
            self.renamed.iter().find_map(|(meant, written)| Some(format!("{written}{}", below(meant)?)));
        let pointer = renamed.as_deref().unwrap_or(pointer);
        let (mut node, mut at) = (&*self.node, self.node.at);
        for part in pointer.split('/').skip(1) {
            let name = part.replace("~1", "/").replace("~0", "~");
            let next = match &node.value {
                Value::Map(entries) => {
                    entries.iter().find(|entry| entry.key == name).map(|entry| (&entry.value, entry.at))
                }
                Value::List(items) => {
                    name.parse::<usize>().ok().and_then(|index| items.get(index)).map(|item| (item, item.at))
                }
                _ => None,
            };
            let Some(next) = next else { break };
            (node, at) = next;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::parse_yaml as parse;

    #[test]
    fn pointers_lead_to_lines() {
        let mut origin = Origin::new(parse("uri: /a\ndescription: x\nnodes:\n- host: b\n").unwrap());
        origin.rename("/desc", "/description");
        for (pointer, line, column) in [
            ("", 1, 1),
            ("/uri", 1, 1),
            ("/desc", 2, 1),
            ("/nodes/0/host", 4, 3),
            ("/nodes/0/port", 4, 3),
            ("/none", 1, 1),
        ] {
            assert_eq!(origin.locate(pointer), Position { line, column }, "{pointer}");
        }
    }
}
