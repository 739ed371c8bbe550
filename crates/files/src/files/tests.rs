use super::*;
use crate::body::Body;
use model::resource::StaticFiles;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use wire::conditional::Conditions;

struct Fixture {
    folder: tempfile::TempDir,
    site: Site,
    files: Files,
    now_ms: u64,
}

/// A folder with `files` below `root`, a secret beside it, and a site with these settings.
fn fixture(files: &[(&str, &str)], settings: Value) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    let root = folder.path().join("root");
    for (name, text) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut settings = settings;
    settings["root"] = json!(root.to_str().unwrap());
    let written: StaticFiles = serde_json::from_value(settings).unwrap();
    let site = Site { uid: 1, ..Site::compile(&written, &stdx::Folders::everything()).unwrap() };
    Fixture { folder, site, files: Files::new(Arc::default(), 1000), now_ms: 0 }
}

impl Fixture {
    fn ask(&mut self, query: &Query<'_>) -> Answer {
        match self.files.answer(&self.site, query, self.now_ms, false).unwrap() {
            Outcome::Answer(answer) => answer,
            Outcome::Job(_) => unreachable!("nobody waits"),
        }
    }

    /// Status and body of a plain GET.
    fn get(&mut self, path: &str) -> (u16, String) {
        let answer = self.ask(&Query { path: path.as_bytes(), ..Query::default() });
        (answer.status, String::from_utf8(bytes(&answer)).unwrap())
    }

    fn root(&self) -> &Path {
        self.site.root.folder()
    }
}

fn bytes(answer: &Answer) -> Vec<u8> {
    let mut out = Vec::new();
    for segment in answer.body.segments() {
        let mut buffer = [0; 4096];
        let mut at = 0;
        while at < segment.length() {
            let piece = segment.piece(at, &mut buffer).unwrap();
            out.extend_from_slice(piece);
            at += piece.len() as u64;
        }
    }
    assert_eq!(out.len() as u64, answer.body.length());
    out
}

fn range(field: &[u8]) -> Conditions<'_> {
    Conditions { range: Some(field), ..Conditions::default() }
}

fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

const SITE: &[(&str, &str)] = &[
    ("index.html", "home"),
    ("a.txt", "0123456789"),
    ("dir/index.html", "in dir"),
    ("bare/x.txt", "x"),
    (".git/config", "hidden"),
    ("empty", ""),
];

#[test]
fn paths_lead_to_files_folders_and_refusals() {
    let mut site = fixture(SITE, json!({}));
    let cases = [
        ("/", 200, "home"),
        ("/a.txt", 200, "0123456789"),
        ("/dir/", 200, "in dir"),
        ("/dir", 301, ""),
        ("/bare/", 403, ""),
        ("/empty", 200, ""),
        ("/none", 404, ""),
        ("/a.txt/", 404, ""),
        ("/a.txt/x", 404, ""),
        ("/.git/config", 404, ""),
        ("/../secret.txt", 404, ""),
        ("/a.txt\0", 404, ""),
    ];
    for _ in 0..2 {
        for (path, status, body) in cases {
            assert_eq!(site.get(path), (status, body.to_owned()), "{path}");
        }
    }
    let answer = site.ask(&Query { path: b"/dir", query: b"?a=1", ..Query::default() });
    assert_eq!(field(&answer, "Location"), Some("/dir/?a=1"));
}

#[test]
fn pages_stand_for_every_status_and_say_nothing_of_themselves() {
    let files = &[("a.txt", "0123456789"), ("4.html", "<p>no"), ("big/x", "")];
    let pages =
        json!({"403": "/4.html", "404": "/4.html", "405": "/4.html", "412": "/4.html", "416": "/4.html"});
    let mut site = fixture(files, json!({"error_pages": pages, "expires": "30d"}));
    let a = Query { path: b"/a.txt", ..Query::default() };
    let conditions = Conditions { range: Some(b"bytes=99-"), ..Conditions::default() };
    let beyond = site.ask(&Query { conditions, ..a });
    let conditions = Conditions { if_match: Some(b"\"x\""), ..Conditions::default() };
    let gone = site.ask(&Query { conditions, ..a });
    let missing = site.ask(&Query { path: b"/none", ..a });
    let forbidden = site.ask(&Query { path: b"/big/", ..a });
    let page = site.files.page(&site.site, 405).unwrap();
    let answers = [(beyond, 416), (gone, 412), (missing, 404), (forbidden, 403), (page, 405)];
    for (answer, status) in answers {
        assert_eq!((answer.status, bytes(&answer)), (status, b"<p>no".to_vec()));
        let names: Vec<_> = answer.fields.iter().map(|(name, _)| name).collect();
        let expected: &[_] =
            if status == 416 { &["Content-Type", "Content-Range"] } else { &["Content-Type"] };
        assert_eq!(names, expected, "{status}");
    }
}

#[test]
fn no_more_files_are_open_than_there_may_be() {
    let names: Vec<String> = (0..60).map(|n| format!("{n}.txt")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "text")).collect();
    let mut site = fixture(&files, json!({}));
    site.files = Files::new(Arc::default(), 20);
    for name in &names {
        assert_eq!(site.get(&format!("/{name}")).0, 200);
        assert!(site.files.held.files() <= 21, "{}", site.files.held.files());
    }
}

#[test]
fn try_files_error_pages_and_prefixes_change_what_is_found() {
    let files = &[("index.html", "app"), ("a.html", "a"), ("404.html", "gone"), ("d/x", "x")];
    let mut app = fixture(files, json!({"try_files": ["$uri", "$uri.html", "/index.html"]}));
    assert_eq!(app.get("/deep/link"), (200, "app".to_owned()));
    assert_eq!(app.get("/a"), (200, "a".to_owned()));
    let mut pages = fixture(files, json!({"error_pages": {"404": "/404.html", "403": "/none.html"}}));
    assert_eq!(pages.get("/missing"), (404, "gone".to_owned()));
    assert_eq!(pages.get("/d/"), (403, String::new()), "a page that is missing is no page");
    let mut below = fixture(files, json!({"strip_prefix": "/static/"}));
    assert_eq!(below.get("/static/a.html"), (200, "a".to_owned()));
    assert_eq!(below.get("/static"), (200, "app".to_owned()));
    assert_eq!(below.get("/staticness/a.html"), (404, String::new()));
    assert_eq!(below.get("/a.html"), (404, String::new()));
}

#[test]
fn ranges_preconditions_and_fields_go_together() {
    let mut site = fixture(SITE, json!({"expires": "1h"}));
    let plain = Query { path: b"/a.txt", ..Query::default() };
    let whole = site.ask(&plain);
    let tag = field(&whole, "ETag").unwrap().to_owned();
    assert_eq!(field(&whole, "Cache-Control"), Some("max-age=3600"));
    assert_eq!(field(&whole, "Content-Type"), Some("text/plain; charset=utf-8"));
    let mut lines = Vec::new();
    whole.fields.write(&mut lines);
    assert!(String::from_utf8(lines).unwrap().contains("Accept-Ranges: bytes\r\n"));

    let part = site.ask(&Query { conditions: range(b"bytes=2-4"), ..plain });
    assert_eq!((part.status, bytes(&part)), (206, b"234".to_vec()));
    assert_eq!(field(&part, "Content-Range"), Some("bytes 2-4/10"));
    let none = site.ask(&Query { conditions: range(b"bytes=10-"), ..plain });
    assert_eq!((none.status, field(&none, "Content-Range")), (416, Some("bytes */10")));
    let stale = site.ask(&Query {
        conditions: Conditions {
            range: Some(b"bytes=2-4"),
            if_range: Some(b"\"old\""),
            ..Conditions::default()
        },
        ..plain
    });
    assert_eq!(stale.status, 200);

    let several = site.ask(&Query { conditions: range(b"bytes=0-1,8-9"), ..plain });
    let boundary = field(&several, "Content-Type").unwrap().split_once("boundary=").unwrap().1.to_owned();
    let expected = format!(
        "\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
         \r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes 8-9/10\r\n\r\n89\
         \r\n--{boundary}--\r\n"
    );
    assert_eq!(String::from_utf8(bytes(&several)).unwrap(), expected);

    let same = site.ask(&Query {
        conditions: Conditions { if_none_match: Some(tag.as_bytes()), ..Conditions::default() },
        ..plain
    });
    assert_eq!((same.status, same.body.length()), (304, 0));
    assert_eq!(field(&same, "ETag"), Some(tag.as_str()));
    assert_eq!(field(&same, "Content-Type"), None);
    let other = site.ask(&Query {
        conditions: Conditions { if_match: Some(b"\"x\""), ..Conditions::default() },
        ..plain
    });
    assert_eq!(other.status, 412);
}

#[test]
fn files_are_trusted_for_a_while_and_then_looked_at_again() {
    let mut site = fixture(SITE, json!({"open_file_cache": {"valid": 10}}));
    assert_eq!(site.get("/a.txt").1, "0123456789");
    fs::write(site.root().join("new"), "replaced").unwrap();
    fs::rename(site.root().join("new"), site.root().join("a.txt")).unwrap();
    site.now_ms = 9_999;
    assert_eq!(site.get("/a.txt").1, "0123456789");
    site.now_ms = 10_000;
    assert_eq!(site.get("/a.txt").1, "replaced");
    fs::remove_file(site.root().join("a.txt")).unwrap();
    site.now_ms = 20_000;
    assert_eq!(site.get("/a.txt").0, 404);
}

#[test]
fn encodings_are_precompressed_or_made_once() {
    let text = "words and words. ".repeat(500);
    let files = &[("a.txt", text.as_str()), ("b.txt", &text), ("b.txt.br", "brotli!"), ("c.png", &text)];
    let mut site = fixture(files, json!({"compress": {"encodings": ["gzip"], "types": ["text/plain"]}}));
    let ask = |path: &'static [u8], accept: &'static [u8]| Query {
        path,
        accept_encoding: Some(accept),
        ..Query::default()
    };
    for round in 0..2 {
        let gzip = site.ask(&ask(b"/a.txt", b"gzip, br"));
        assert_eq!(field(&gzip, "Content-Encoding"), Some("gzip"), "{round}");
        assert_eq!(field(&gzip, "Vary"), Some("Accept-Encoding"));
        assert!(field(&gzip, "ETag").unwrap().starts_with("W/"));
        let mut plain = String::new();
        flate2::read::GzDecoder::new(bytes(&gzip).as_slice()).read_to_string(&mut plain).unwrap();
        assert_eq!(plain, text);
        let beside = site.ask(&ask(b"/b.txt", b"gzip, br"));
        assert_eq!(field(&beside, "Content-Encoding"), Some("br"));
        assert_eq!(bytes(&beside), b"brotli!");
        let identity = site.ask(&ask(b"/a.txt", b"identity"));
        assert_eq!(
            (field(&identity, "Content-Encoding"), field(&identity, "Vary")),
            (None, Some("Accept-Encoding"))
        );
        let image = site.ask(&ask(b"/c.png", b"gzip"));
        assert_eq!((field(&image, "Content-Encoding"), field(&image, "Vary")), (None, None));
        let part = site.ask(&Query { conditions: range(b"bytes=0-3"), ..ask(b"/a.txt", b"gzip") });
        assert_eq!(bytes(&part), b"word");
    }
}

#[test]
fn a_worker_without_room_keeps_no_compressed_form_for_itself() {
    let text = "words and words. ".repeat(500);
    let mut site = fixture(&[("a.txt", &text)], json!({"compress": {"encodings": ["gzip"]}}));
    let query = Query { path: b"/a.txt", accept_encoding: Some(b"gzip"), ..Query::default() };
    let place = [&site.site.uid.to_ne_bytes()[..], query.path].concat();
    let is_kept = |site: &mut Fixture| {
        let kept = site.files.kept.get(place.as_slice()).unwrap();
        matches!(kept.document.slot(Encoding::Gzip), Slot::Ready(_))
    };
    site.files.held.fill();
    assert_eq!(field(&site.ask(&query), "Content-Encoding"), Some("gzip"));
    assert!(!is_kept(&mut site));
    site.files.held = Held::default();
    site.files.kept.clear();
    assert_eq!(field(&site.ask(&query), "Content-Encoding"), Some("gzip"));
    assert!(is_kept(&mut site));
}

#[test]
fn a_long_file_is_compressed_elsewhere_and_others_need_not_wait() {
    let text = "x".repeat(200_000);
    let mut site = fixture(&[("a.txt", &text)], json!({"compress": {"encodings": ["gzip"]}}));
    let query = Query { path: b"/a.txt", accept_encoding: Some(b"gzip"), ..Query::default() };
    assert_eq!(field(&site.ask(&query), "Content-Encoding"), None, "nobody waits");
    let Outcome::Job(job) = site.files.answer(&site.site, &query, 0, true).unwrap() else { panic!("a job") };
    let Outcome::Answer(other) = site.files.answer(&site.site, &query, 0, true).unwrap() else {
        panic!("an answer")
    };
    assert_eq!(field(&other, "Content-Encoding"), None);
    std::thread::spawn(move || job.run()).join().unwrap().unwrap();
    assert_eq!(field(&site.ask(&query), "Content-Encoding"), Some("gzip"));
    // Another worker has it too.
    let mut second = Files::new(Arc::clone(&site.files.variants), 1000);
    let Outcome::Answer(shared) = second.answer(&site.site, &query, 0, false).unwrap() else {
        panic!("an answer")
    };
    assert_eq!(field(&shared, "Content-Encoding"), Some("gzip"));
}

#[test]
fn listings_are_made_where_they_are_asked_for_and_links_stay_within() {
    let mut site = fixture(SITE, json!({"autoindex": true}));
    symlink("../secret.txt", site.root().join("bare/out")).unwrap();
    let (status, html) = site.get("/bare/");
    assert!(status == 200 && html.contains("x.txt"), "{html}");
    assert_eq!(site.get("/bare/out").0, 404);
    assert!(site.folder.path().join("secret.txt").exists());
}

#[test]
fn what_may_not_be_read_is_forbidden() {
    let mut site = fixture(SITE, json!({}));
    fs::set_permissions(site.root().join("a.txt"), fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser reads it all the same.
    let expected = if rustix::process::geteuid().is_root() { 200 } else { 403 };
    assert_eq!(site.get("/a.txt").0, expected);
}

#[test]
fn an_empty_file_has_no_ranges_and_no_body() {
    let mut site = fixture(SITE, json!({}));
    let answer = site.ask(&Query { path: b"/empty", conditions: range(b"bytes=0-"), ..Query::default() });
    assert_eq!(answer.status, 416);
    let answer = site.ask(&Query { path: b"/empty", ..Query::default() });
    assert!(matches!(answer.body, Body::None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_path_and_no_fields_show_the_secret(
        path in "/[./a-z%\\\\\0]{0,24}",
        range in "bytes=[0-9,-]{0,12}",
        accept in "[a-z*;=0-9., ]{0,16}",
    ) {
        let mut site = fixture(SITE, json!({"autoindex": true, "hidden": true, "compress": {"encodings": ["gzip"]}}));
        let query = Query {
            path: path.as_bytes(),
            conditions: self::range(range.as_bytes()),
            accept_encoding: Some(accept.as_bytes()),
            ..Query::default()
        };
        let answer = site.ask(&query);
        prop_assert!(!bytes(&answer).windows(6).any(|window| window == b"secret"));
    }
}
