//! What `deny.toml` says, as far as it is checked here. What isn't understood is refused, so that no rule is left out in
//! silence.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;

/// The rules.
#[derive(Debug, Default)]
pub(super) struct Policy {
    /// The platforms for which dependencies count.
    pub(super) targets: Vec<String>,
    /// Whether all features are on.
    pub(super) all_features: bool,
    /// SPDX identifiers, with their exceptions.
    pub(super) licences: BTreeSet<String>,
    /// Packages by name, with the reason.
    pub(super) banned: BTreeMap<String, String>,
    /// Whether a dependency of any version is refused.
    pub(super) no_wildcards: bool,
    /// Whether other registries than crates.io are refused.
    pub(super) only_known_registries: bool,
    /// Whether repositories are refused as sources.
    pub(super) only_known_git: bool,
}

impl Policy {
    /// Reads the file.
    ///
    /// # Errors
    /// When it has something that is not understood here.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let mut policy = Self::default();
        let mut section = String::new();
        let mut pending = String::new();
        for line in text.lines() {
            let line = without_comment(line);
            if pending.is_empty()
                && let Some(heading) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'))
            {
                heading.clone_into(&mut section);
                continue;
            }
            pending.push_str(line);
            pending.push(' ');
            let open = pending.matches(['[', '{']).count();
            if pending.trim().is_empty() {
                pending.clear();
            } else if open == pending.matches([']', '}']).count() {
                policy.take(&section, pending.trim())?;
                pending.clear();
            }
        }
        if !pending.is_empty() {
            bail!("deny.toml: a list doesn't end: {pending}");
        }
        Ok(policy)
    }

    fn take(&mut self, section: &str, entry: &str) -> anyhow::Result<()> {
        let Some((key, value)) = entry.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
            bail!("deny.toml: `{entry}` is no entry");
        };
        let denied = |value: &str| -> anyhow::Result<bool> {
            match value {
                "\"deny\"" => Ok(true),
                "\"warn\"" | "\"allow\"" => Ok(false),
                other => bail!("deny.toml: `{key} = {other}` is not understood"),
            }
        };
        match (section, key) {
            ("graph", "targets") => self.targets = strings(value),
            ("graph", "all-features") => self.all_features = value == "true",
            ("licenses", "allow") => self.licences = strings(value).into_iter().collect(),
            ("bans", "deny") => {
                for table in value.split('{').skip(1) {
                    let Some(name) = member(table, "name") else {
                        bail!("deny.toml: a ban without a name: {table}");
                    };
                    if table.matches(" = ").count() > 1 + usize::from(table.contains("reason = ")) {
                        bail!("deny.toml: the ban of {name} has more than a name and a reason");
                    }
                    self.banned.insert(name, member(table, "reason").unwrap_or_default());
                }
            }
            ("bans", "wildcards") => self.no_wildcards = denied(value)?,
            ("sources", "unknown-registry") => self.only_known_registries = denied(value)?,
            ("sources", "unknown-git") => self.only_known_git = denied(value)?,
            // Several versions are counted; the others are about texts of licences, and about paths, which have no version.
            ("bans", "multiple-versions") if !denied(value)? => {}
            ("licenses", "version" | "confidence-threshold") | ("bans", "allow-wildcard-paths") => {}
            // Needs a database.
            ("advisories", _) => {}
            _ => bail!("deny.toml: `{key}` of [{section}] is not understood without cargo-deny"),
        }
        Ok(())
    }
}

/// A line without its comment; a `#` in a text stays.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let end = line.find(|c| {
        quoted ^= c == '"';
        c == '#' && !quoted
    });
    line[..end.unwrap_or(line.len())].trim()
}

/// The texts of a list.
fn strings(list: &str) -> Vec<String> {
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A text of an inline table.
fn member(table: &str, key: &str) -> Option<String> {
    let (_, rest) = table.split_once(&format!("{key} = \""))?;
    rest.split_once('"').map(|(text, _)| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projects_own_policy_is_understood() {
        let policy = Policy::read(include_str!("../../../deny.toml")).unwrap();
        assert!(
            policy.licences.contains("MIT") && policy.licences.contains("Apache-2.0 WITH LLVM-exception")
        );
        assert_eq!(policy.banned["serde_yaml"], "unmaintained: YAML is read with serde-saphyr");
        assert!(policy.all_features && policy.targets.len() == 4);
        assert!(policy.no_wildcards && policy.only_known_registries && policy.only_known_git);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in [
            "[licenses]\nexceptions = []\n",
            "[bans]\ndeny = [{ name = \"a\", version = \"<2\" }]\n",
            "[bans]\ndeny = [{ reason = \"a\" }]\n",
            "[bans]\nmultiple-versions = \"deny\"\n",
            "[bans]\nwildcards = \"perhaps\"\n",
            "[new]\nx = 1\n",
            "[licenses]\nallow = [\n",
            "words\n",
        ] {
            assert!(Policy::read(text).is_err(), "{text}");
        }
        let policy = Policy::read("[licenses]\nallow = [ # \"A\"\n  \"B#\", # \"C\"\n]\n").unwrap();
        assert_eq!(policy.licences, BTreeSet::from(["B#".to_owned()]));
    }
}
