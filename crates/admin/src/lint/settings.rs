//! `well-known-key`.

use crate::{AdminSettings, is_well_known};
use document::{Diagnostic, codes};

/// What is found in the Admin API's own settings.
pub(super) fn check(settings: &AdminSettings) -> Vec<Diagnostic> {
    let known = settings.keys.iter().enumerate().filter(|(_, key)| is_well_known(&key.key));
    let finding = |at: usize, name: &str| {
        let message = format!(
            "the key of {name} stands in public examples: whoever has an account on this machine owns the gateway"
        );
        Diagnostic::warning(codes::WELL_KNOWN_KEY, message)
            .file("config.yaml")
            .path(format!("deployment.admin.admin_key[{at}].key"))
            .hint("write a key of your own, or leave it empty to have one generated")
    };
    known.map(|(at, key)| finding(at, &key.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdminKey, Role};

    #[test]
    fn keys_that_everybody_knows_are_found() {
        let key = |key: &str| AdminKey { name: "a".to_owned(), key: key.to_owned(), role: Role::Admin };
        let keys = vec![key("my own"), key("edd1c9f034335f136f87ad84b625c8f1")];
        let found = check(&AdminSettings { keys, ..AdminSettings::default() });
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "deployment.admin.admin_key[1].key");
        assert_eq!(found[0].to_json()["file"], "config.yaml");
    }
}
