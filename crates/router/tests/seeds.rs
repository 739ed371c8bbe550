//! The seeds of the fuzz targets through their checks.

#[path = "../../../tests/fuzz/checks/src/router/mod.rs"]
#[allow(unreachable_pub, reason = "a module of the library of fuzz targets")]
mod checks;

use std::path::Path;

/// Every seed of a target runs through its check.
fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/seeds").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the seeds are there") {
        check(&std::fs::read(entry.expect("readable").path()).expect("readable"));
        count += 1;
    }
    assert!(count > 0, "no seeds in {}", folder.display());
}

#[test]
fn seeds_of_the_fuzz_targets() {
    replay("router", checks::routes::check);
    replay("vars_expression", checks::vars_expression::check);
}
