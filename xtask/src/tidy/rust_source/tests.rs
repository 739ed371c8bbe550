//! What the lexer keeps, blanks and measures.

use super::*;

fn code(text: &str) -> String {
    RustSource::new(text, false).code.join("\n")
}

#[test]
fn comments_and_literals_become_blanks() {
    for (text, expected) in [
        ("a // b", "a"),
        ("a /* b /* c */ d */ e", "a                   e"),
        (r#"f("a \" b") + 1"#, "f(        ) + 1"),
        (r##"f(r#"a " b"#) + 1"##, "f(          ) + 1"),
        (r#"f(br"\") + 1"#, "f(b    ) + 1"),
        ("'a' + 1", "    + 1"),
        (r"'\'' + 1", "     + 1"),
        (r"'\u{1f600}' + 1", "            + 1"),
        ("'é' + 1", "     + 1"),
        ("fn f<'a>(x: &'a str)", "fn f< a>(x: & a str)"),
        ("for \"x\"", "for"),
    ] {
        assert_eq!(code(text).trim_end(), expected, "{text}");
    }
}

#[test]
fn lines_are_kept_across_literals_and_comments() {
    let source = RustSource::new("a(\"1\n2\");\n/* x\n y */ b(\"3\");\n", false);
    assert_eq!(source.literals, [(1, "1\n2".to_owned()), (4, "3".to_owned())]);
    assert_eq!(source.all_code().count(), 4);
}

#[test]
fn unfinished_text_ends_the_file() {
    for text in ["\"", "r#\"", "/*", "'", "'\\", "b\"\\", "fn f(", "#[cfg(test)]"] {
        let source = RustSource::new(text, false);
        assert!(source.product_functions().is_empty(), "{text}");
    }
}

#[test]
fn code_under_cfg_test_is_no_product_code() {
    let text = "fn a() {}\n#[cfg(test)]\nfn helper() -> [u8; 2] {\n}\nfn b() {}\n#[cfg(test)]\nmod tests {\n  fn c() {}\n}\n";
    let source = RustSource::new(text, false);
    let names: Vec<String> = source.product_functions().into_iter().map(|f| f.name).collect();
    assert_eq!(names, ["a", "b"]);
    let lines: Vec<usize> = source.product_code().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 5]);
}

#[test]
fn functions_are_measured_from_fn_to_the_closing_brace() {
    let text = "trait T {\n    fn none(&self);\n}\nfn f(a: [u8; 4])\nwhere\n    A: B,\n{\n    g(|| {\n    });\n}\nlet p: fn (u8);\n";
    let functions = RustSource::new(text, false).product_functions();
    assert_eq!(functions, [Function { name: "f".to_owned(), line: 4, lines: 7 }]);
}

#[test]
fn words_are_whole() {
    assert!(has_word("unsafe { x }", "unsafe"));
    assert!(has_word("a(unsafe)", "unsafe"));
    assert!(!has_word("unsafe_code", "unsafe"));
    assert!(!has_word("is_unsafe", "unsafe"));
}
