//! The page that lists a folder: nginx's `autoindex`.

use crate::redirect::{escaped, href};
use std::fs::File;
use std::io;

/// The most names on one page. A folder with more is better served by something that can search.
const NAMES_MAX: usize = 10_000;

/// The page for `folder`, which is seen at the decoded path `at`. Hidden names are left out unless `hidden`.
pub(crate) fn page(folder: &File, at: &[u8], hidden: bool) -> io::Result<Vec<u8>> {
    let mut names = Vec::new();
    let mut more = false;
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") || (!hidden && name.starts_with(b".")) {
            continue;
        }
        if names.len() == NAMES_MAX {
            more = true;
            break;
        }
        let slash = entry.file_type() == rustix::fs::FileType::Directory;
        names.push((!slash, name.to_vec()));
    }
    // Folders first, then by name.
    names.sort();
    let title = escaped(at);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Index of {title}</title></head>\n\
         <body>\n<h1>Index of {title}</h1>\n<ul>\n"
    );
    if at != b"/" {
        html.push_str("<li><a href=\"../\">../</a></li>\n");
    }
    for (file, name) in &names {
        let slash = if *file { "" } else { "/" };
        // "./" keeps a name with a colon from being read as a scheme.
        html.push_str(&format!(
            "<li><a href=\"./{}{slash}\">{}{slash}</a></li>\n",
            href(name),
            escaped(name)
        ));
    }
    html.push_str("</ul>\n");
    if more {
        html.push_str(&format!("<p>Only the first {NAMES_MAX} names are shown.</p>\n"));
    }
    html.push_str("</body>\n</html>\n");
    Ok(html.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_are_sorted_escaped_and_hidden() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.txt", "a&b <c>.txt", "javascript:alert(1)", ".secret", "100%"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("zoo")).unwrap();
        let at = b"/<x>/";
        let html = String::from_utf8(page(&File::open(folder.path()).unwrap(), at, false).unwrap()).unwrap();
        assert!(html.contains("Index of /&lt;x&gt;/"), "{html}");
        assert!(!html.contains("secret") && html.contains("../"), "{html}");
        let links: Vec<_> = html.lines().filter(|line| line.contains("./")).skip(1).collect();
        assert_eq!(links[0], "<li><a href=\"./zoo/\">zoo/</a></li>");
        assert_eq!(links[1], "<li><a href=\"./100%25\">100%</a></li>");
        assert!(links[2].contains("a%26b%20%3Cc%3E.txt\">a&amp;b &lt;c&gt;.txt<"), "{}", links[2]);
        let shown =
            String::from_utf8(page(&File::open(folder.path()).unwrap(), b"/", true).unwrap()).unwrap();
        assert!(shown.contains(".secret") && !shown.contains("\"../\""), "{shown}");
    }
}
