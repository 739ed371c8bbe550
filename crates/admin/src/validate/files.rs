//! Whether a `static` origin can be one: what its schema can't say.

use crate::validate::mistakes::Mistakes;
use files::Site;
use model::resource::StaticFiles;
use serde_json::{Map, Value};
use stdx::Folders;

/// Checks the `static` of a route or service whose schema holds.
pub(crate) fn check(allowed: &Folders, fields: &Map<String, Value>, found: &mut Mistakes) {
    let Some(written) = fields.get("static") else { return };
    let read = serde_json::from_value::<StaticFiles>(written.clone());
    match read.map(|written| Site::compile(&written, allowed)) {
        Ok(Ok(_)) => {}
        Ok(Err(errors)) => {
            let errors: Vec<_> = errors.into_iter().map(|error| error.under("/static")).collect();
            let first = errors.first().map(|error| format!("{}: {}", error.path, error.message));
            found.push_as(first.unwrap_or_default(), errors);
        }
        // The schema holds, so this is a number that is out of its type's range.
        Err(error) => found.push("/static", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_mistake_has_its_place() {
        for (site, places) in [
            (json!({ "root": "/srv" }), &[][..]),
            (json!({ "root": "srv" }), &["/static/root"]),
            (json!({ "root": "/" }), &["/static/root"]),
            (json!({ "root": "/srv/../etc" }), &["/static/root"]),
            (json!({ "root": "/srv", "try_files": ["$host", "=404"] }), &["/static/try_files/0"]),
            (json!({ "root": "/srv", "expires": "soon" }), &["/static/expires"]),
            (
                json!({ "root": "x", "error_pages": { "404": "x" } }),
                &["/static/root", "/static/error_pages/404"],
            ),
            (json!({ "root": "/srv", "open_file_cache": { "max": -1 } }), &["/static"]),
        ] {
            let mut found = Mistakes::default();
            let fields = json!({ "uri": "/*", "static": site });
            check(&Folders::below(["/srv".into()]), fields.as_object().unwrap(), &mut found);
            let listed = found.listed("");
            let paths: Vec<_> = listed.iter().map(|error| error["path"].as_str().unwrap()).collect();
            assert_eq!(paths, places, "{site}");
        }
    }
}
