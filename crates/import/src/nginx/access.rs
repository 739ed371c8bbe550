//! `allow` and `deny`: who may ask.

use super::tree::Directive;
use serde_json::{Value, json};

/// Rules in their order: the first that names the client decides; a client that none names may ask.
#[derive(Debug, Clone, Default)]
pub(super) struct Access(Vec<Rule>);

#[derive(Debug, Clone)]
struct Rule {
    allows: bool,
    who: String,
}

impl Access {
    /// Adds an `allow` or a `deny` behind the others.
    pub(super) fn add(&mut self, directive: &Directive) {
        self.0.push(Rule { allows: directive.name == "allow", who: directive.arg(0).to_owned() });
    }

    /// The plugin that admits the same clients, with its settings; `None` where all are.
    ///
    /// # Errors
    /// Rules that take turns: a plugin has one list, of those who may ask or of those who may not.
    pub(super) fn plugin(&self) -> Result<Option<(&'static str, Value)>, &'static str> {
        let end = self.0.iter().position(|rule| rule.who == "all");
        let others = end.is_none_or(|at| self.0[at].allows);
        let mut rules = &self.0[..end.unwrap_or(self.0.len())];
        // What is so for all others needs no rule, unless one behind it says otherwise.
        while rules.last().is_some_and(|last| last.allows == others) {
            rules = &rules[..rules.len() - 1];
        }
        if rules.iter().any(|rule| rule.allows == others) {
            return Err("`allow` and `deny` take turns, which no plugin expresses");
        }
        // No client comes through a unix socket.
        let list: Vec<_> = rules.iter().map(|rule| &rule.who).filter(|who| *who != "unix:").collect();
        Ok(match (others, list.is_empty()) {
            (true, true) => None,
            (true, false) => Some(("ip-restriction", json!({ "blacklist": list }))),
            (false, true) => Some(("fault-injection", json!({ "abort": { "http_status": 403 } }))),
            (false, false) => Some(("ip-restriction", json!({ "whitelist": list }))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_names_a_client_decides() {
        let forbidden = json!({ "abort": { "http_status": 403 } });
        let black = |list: &[&str]| Ok(Some(("ip-restriction", json!({ "blacklist": list }))));
        let white = |list: &[&str]| Ok(Some(("ip-restriction", json!({ "whitelist": list }))));
        for (rules, expected) in [
            ("", Ok(None)),
            ("+a +all -b", Ok(None)),
            ("+all -all", Ok(None)),
            ("-all +a", Ok(Some(("fault-injection", forbidden.clone())))),
            ("-a -all", Ok(Some(("fault-injection", forbidden.clone())))),
            ("-a -b", black(&["a", "b"])),
            ("-a +b", black(&["a"])),
            ("-a +all -b", black(&["a"])),
            ("+a +unix: -b -all", white(&["a"])),
            ("+a -b", Err(())),
            ("-a +b -all", Err(())),
        ] {
            let rule = |text: &str| Rule { allows: text.starts_with('+'), who: text[1..].to_owned() };
            let access = Access(rules.split_whitespace().map(rule).collect());
            assert_eq!(access.plugin().map_err(drop), expected, "{rules}");
        }
    }
}
