//! Who has which role, also by way of other roles.

use std::collections::{HashMap, HashSet};

/// Steps from a user to a role, Casbin's figure.
const STEPS_MAX: usize = 10;

/// The roles of one kind. Without domains the domain is empty.
#[derive(Debug, Default)]
pub(super) struct Roles {
    direct: HashMap<String, HashMap<String, Vec<String>>>,
}

impl Roles {
    /// `user` has `role` in `domain`.
    pub(super) fn add(&mut self, user: &str, role: &str, domain: &str) {
        let users = self.direct.entry(domain.to_owned()).or_default();
        users.entry(user.to_owned()).or_default().push(role.to_owned());
    }

    /// Whether `user` is `role` or has it in `domain`.
    pub(super) fn has(&self, user: &str, role: &str, domain: &str) -> bool {
        if user == role {
            return true;
        }
        let Some(direct) = self.direct.get(domain) else { return false };
        let (mut seen, mut step) = (HashSet::from([user]), vec![user]);
        for _ in 0..STEPS_MAX {
            let roles = step.iter().filter_map(|name| direct.get(*name)).flatten();
            step = roles.map(String::as_str).filter(|name| seen.insert(name)).collect();
            if step.contains(&role) {
                return true;
            }
            if step.is_empty() {
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_had_by_way_of_roles_and_in_their_domain() {
        let mut roles = Roles::default();
        for (user, role) in [("a", "b"), ("b", "c"), ("c", "a"), ("a", "x")] {
            roles.add(user, role, "d");
        }
        assert!(roles.has("a", "c", "d") && roles.has("c", "x", "d") && roles.has("z", "z", "none"));
        assert!(!roles.has("x", "a", "d") && !roles.has("a", "c", "") && !roles.has("a", "y", "d"));
        for number in 0..20 {
            roles.add(&format!("u{number}"), &format!("u{}", number + 1), "");
        }
        assert!(roles.has("u0", "u10", "") && !roles.has("u0", "u11", ""));
    }
}
