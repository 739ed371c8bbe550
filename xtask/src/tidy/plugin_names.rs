//! No plugin's name appears outside `crates/plugins`: everything about a plugin is in its file.
//!
//! The names are read from the plugins' own definitions, so a new plugin is covered from its first line.

use super::{Findings, Tree, report};

/// Where the plugins live.
const PLUGINS: &str = "crates/plugins/src/";

/// Where a name may stand nevertheless, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/config/src", "the default of the `plugins` list in config.yaml is a list of names"),
    ("crates/import/src/nginx", "a translation writes configurations, and those name plugins"),
];

/// Names that are those of something else as well, with what that is.
const HOMONYMS: &[(&str, &str)] = &[("gzip", "a content coding")];

/// What every definition starts with.
const DEFINITION: &str = "PluginDef::new";

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    let names = names(tree);
    for (file, rust) in tree.rust() {
        let excepted = EXCEPTIONS.iter().any(|(path, _)| file.path.starts_with(path));
        if !file.path.starts_with("crates/") || file.path.starts_with(PLUGINS) || excepted {
            continue;
        }
        for (line, literal) in rust.product_literals().filter(|(_, literal)| names.contains(literal)) {
            let message = format!(
                "the name of plugin `{literal}` belongs in {PLUGINS}; ask the registry for what it declares"
            );
            report(findings, &file.path, line, message);
        }
    }
}

/// The first literal after each definition is the plugin's name.
fn names(tree: &Tree) -> Vec<&str> {
    let plugins = tree.rust().filter(|(file, _)| file.path.starts_with(PLUGINS));
    plugins
        .flat_map(|(_, rust)| {
            let definitions = rust.product_code().filter(|(_, code)| code.contains(DEFINITION));
            definitions
                .filter_map(|(line, _)| rust.product_literals().find(|(at, _)| *at >= line))
                .map(|(_, name)| name)
        })
        .filter(|name| !HOMONYMS.iter().any(|(homonym, _)| homonym == name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    const PLUGIN: (&str, &str) = (
        "crates/plugins/src/echo.rs",
        "use a;\npub const DEF: X =\n    PluginDef::new::<Echo>(\n\"echo\", 1).build();\n",
    );

    #[test]
    fn a_name_outside_its_file_is_found() {
        let text = "// \"echo\"\nfn f() { g(\"echo\"); g(\"echoes\"); }\n#[cfg(test)]\nmod tests { const A: &str = \"echo\"; }\n";
        assert_eq!(places(check, &[PLUGIN, ("crates/engine/src/a.rs", text)]), ["crates/engine/src/a.rs:2"]);
        assert_eq!(places(check, &[PLUGIN, ("crates/config/src/sections/plugins.rs", text)]).len(), 0);
        assert_eq!(places(check, &[("crates/engine/src/a.rs", text)]).len(), 0);
    }
}
