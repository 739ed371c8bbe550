//! The map in ARCHITECTURE.md names every crate there is.

use super::manifest::Manifest;
use super::{Findings, Tree, report};

const MAP: &str = "ARCHITECTURE.md";

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    let map = tree.file(MAP).map_or("", |file| file.text.as_str());
    for manifest in Manifest::of_crates(tree) {
        let entry = format!("`crates/{}`", manifest.folder);
        if !map.contains(&entry) {
            report(
                findings,
                MAP,
                0,
                format!("the map lacks {entry}: say in two lines what it does and what it doesn't"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn a_crate_that_the_map_lacks_is_found() {
        let manifest = ("crates/wire/Cargo.toml", "");
        assert_eq!(places(check, &[manifest, (MAP, "### `crates/wire`\n")]).len(), 0);
        assert_eq!(places(check, &[manifest, (MAP, "the crate wire\n")]).len(), 1);
        assert_eq!(places(check, &[manifest]).len(), 1);
    }
}
