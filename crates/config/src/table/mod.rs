//! Every key of `config.yaml`, declared once: what the reader accepts, and what the example, the reference page and the
//! JSON Schema for editors are made of.
//!
//! Tests hold the table to the reader: each key with an effect is read, no other one is, and the defaults written here
//! are those that hold.

mod apisix;
mod deployment;
mod nginx;
mod plugins;
pub mod render;

/// A key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its path; `[]` stands for each item of a list.
    pub path: &'static str,
    /// What may stand there.
    pub kind: Kind,
    /// The default in YAML; empty where there is none.
    pub default: &'static str,
    /// A value for the example where the default shows nothing; empty: the default is the example.
    pub example: &'static str,
    /// What it changes, and when.
    pub effect: Effect,
    /// Whether APISIX doesn't have it.
    pub own: bool,
    /// The first version of Tidegate in which it has this effect.
    pub since: &'static str,
    /// What it means: a phrase without a full stop.
    pub about: &'static str,
}

/// What may stand at a key. In place of every value but a mapping or list there may be a variable: `${{NAME}}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A mapping whose keys are those of the table.
    Section,
    /// A mapping with those keys, and others.
    Open,
    /// Anything.
    Free,
    /// `true` or `false`.
    Bool,
    /// nginx's `on` or `off`.
    Switch,
    /// An integer from one to another.
    Integer(i64, i64),
    /// A number.
    Number,
    /// A string.
    Text,
    /// A time in nginx's notation; a number counts seconds.
    Time,
    /// A size in nginx's notation; a number counts bytes.
    Size,
    /// A port.
    Port,
    /// An IP address.
    Ip,
    /// An IP address or CIDR range.
    Network,
    /// One of some words.
    Words(&'static [&'static str]),
    /// A list.
    List(&'static Kind),
    /// Any of several.
    Any(&'static [Kind]),
}

/// What a key changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It counts from a reload on.
    Reload,
    /// A change of it waits for a restart.
    Restart,
    /// It is accepted because APISIX has it, and changes nothing.
    Nothing {
        /// What holds instead.
        why: &'static str,
        /// The values that ask for just that; any other one is warned of.
        fulfilled: &'static [&'static str],
    },
}

const fn key(path: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    let (effect, since) = (Effect::Reload, "0.1.0");
    Key { path, kind, default, example: "", effect, own: false, since, about }
}

/// A mapping.
const fn section(path: &'static str, about: &'static str) -> Key {
    key(path, Kind::Section, "", about)
}

/// A key of APISIX that changes nothing.
const fn nothing(
    path: &'static str,
    kind: Kind,
    why: &'static str,
    fulfilled: &'static [&'static str],
) -> Key {
    Key { effect: Effect::Nothing { why, fulfilled }, ..key(path, kind, "", why) }
}

impl Key {
    /// The same key, of which a change waits for a restart.
    const fn restart(self) -> Self {
        Self { effect: Effect::Restart, ..self }
    }

    /// The same key, which only Tidegate has.
    const fn own(self) -> Self {
        Self { own: true, ..self }
    }

    /// The same key with a value for the example.
    const fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    /// The last part of its path.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, name)| name)
    }

    /// The path of the mapping that holds it.
    #[must_use]
    pub fn parent(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(parent, _)| parent)
    }
}

/// The parts of the table, in the order of APISIX's example.
const PARTS: &[&[Key]] =
    &[apisix::KEYS, apisix::SSL, nginx::KEYS, nginx::HTTP, nginx::STREAM, plugins::KEYS, deployment::KEYS];

/// Every key; those of one mapping in the order in which they are shown.
pub fn all() -> impl Iterator<Item = &'static Key> {
    PARTS.iter().copied().flatten()
}

/// The key with this path.
#[must_use]
pub fn find(path: &str) -> Option<&'static Key> {
    all().find(|key| key.path == path)
}

/// The keys of the mapping at `path`; the empty path is the whole document.
pub fn below(path: &str) -> impl Iterator<Item = &'static Key> + use<'_> {
    all().filter(move |key| key.parent() == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn paths_are_unique_and_have_their_sections() {
        let mut seen = HashSet::new();
        for key in all() {
            assert!(seen.insert(key.path), "{} stands twice", key.path);
            let parent = key.parent();
            let list = parent.strip_suffix("[]");
            let held = match list.or((!parent.is_empty()).then_some(parent)).map(find) {
                None => true,
                Some(Some(holder)) => list.is_some() || matches!(holder.kind, Kind::Section | Kind::Open),
                Some(None) => false,
            };
            assert!(held, "{} stands in no section", key.path);
            assert!(!key.about.is_empty() && !key.about.ends_with('.'), "{}", key.path);
        }
    }
}
