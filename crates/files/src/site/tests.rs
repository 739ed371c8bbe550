use super::*;
use serde_json::json;

fn compile(value: serde_json::Value) -> Result<Site, Vec<ConfigError>> {
    Site::compile(&serde_json::from_value(value).unwrap(), &Folders::everything())
}

#[test]
fn mistakes_are_named_all_at_once() {
    let written = json!({
        "root": "html", "strip_prefix": "x", "index": ["a/b"], "try_files": ["$uri", "$host", "=404"],
        "error_pages": {"404": "page", "200": "/x", "x": "/y"}, "expires": "soon",
        "open_file_cache": {"valid": -1},
    });
    let places: Vec<_> = compile(written).unwrap_err().into_iter().map(|error| error.path).collect();
    let expected = [
        "/root",
        "/strip_prefix",
        "/index/0",
        "/try_files/1",
        "/error_pages",
        "/error_pages/404",
        "/error_pages",
        "/expires",
        "/open_file_cache/valid",
    ];
    assert_eq!(places, expected);
}

#[test]
fn try_files_are_read_as_nginx_reads_them() {
    let own = || Try::Around(vec![], vec![]);
    let folder = || Try::Around(vec![], b"/".to_vec());
    type Case<'a> = (&'a [&'a str], (Vec<Try>, Last));
    let cases: &[Case<'_>] = &[
        (&[], (vec![own(), folder()], Last::Status(404))),
        (&["$uri", "=403"], (vec![own()], Last::Status(403))),
        (&["$uri", "$uri/", "/index.html"], (vec![own(), folder()], Last::Path(b"/index.html".to_vec()))),
        (&["$uri.html", "=404"], (vec![Try::Around(vec![], b".html".to_vec())], Last::Status(404))),
        (&["/a", "/b"], (vec![Try::Fixed(b"/a".to_vec())], Last::Path(b"/b".to_vec()))),
    ];
    for (written, expected) in cases {
        let written: Vec<String> = written.iter().map(|&text| text.to_owned()).collect();
        assert_eq!(tries(&written).as_ref(), Ok(expected), "{written:?}");
    }
    for broken in ["=200", "=x", "$request_uri", "relative", "$uri$uri"] {
        assert!(tries(&["$uri".to_owned(), broken.to_owned()]).is_err(), "{broken}");
    }
    assert_eq!(folder().path(b"/a"), b"/a/");
    assert_eq!(folder().path(b"/a/"), b"/a/");
}

#[test]
fn expires_becomes_cache_control() {
    let cases = [
        ("off", Ok(None)),
        ("epoch", Ok(Some("no-cache"))),
        ("-1", Ok(Some("no-cache"))),
        ("max", Ok(Some("max-age=315360000"))),
        ("0", Ok(Some("max-age=0"))),
        ("90", Ok(Some("max-age=90"))),
        ("30d", Ok(Some("max-age=2592000"))),
        ("1h 30m", Ok(Some("max-age=5400"))),
        ("", Err(())),
        ("d", Err(())),
        ("1x", Err(())),
        ("99999999999999999999d", Err(())),
    ];
    for (text, expected) in cases {
        let found = expires(text).map_err(|_| ());
        assert_eq!(found, expected.map(|value| value.map(str::to_owned)), "{text:?}");
    }
}

#[test]
fn types_come_from_the_site_then_from_the_table() {
    let site =
        compile(json!({"root": "/srv", "types": {"WASM": "application/wasm", "html": "text/html"}})).unwrap();
    let cases = [
        ("a.wasm", "application/wasm"),
        ("a.html", "text/html"),
        ("a.css", "text/css; charset=utf-8"),
        ("A.PNG", "image/png"),
        ("a.unknown-thing", "application/octet-stream"),
        ("Makefile", "application/octet-stream"),
    ];
    for (name, expected) in cases {
        assert_eq!(site.media_type(Path::new(name)), expected, "{name}");
    }
}
