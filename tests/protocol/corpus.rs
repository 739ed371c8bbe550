//! Reads the corpus files beside it; README.md says what they look like.
//!
//! A module for test crates: `#[path = "<to the root>/tests/protocol/corpus.rs"] mod corpus;`

use std::path::Path;

/// One message and what must become of it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// File and name, for messages of failed tests.
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    /// What is sent.
    pub(crate) bytes: Vec<u8>,
    /// The method of the request that a response answers (`to=`); GET where the case doesn't say.
    #[allow(dead_code, reason = "of use where responses are read")]
    pub(crate) to: String,
}

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is taken, and these facts hold: `(key, value)`.
    Accepted(Vec<(String, Vec<u8>)>),
    /// More bytes are awaited.
    Waits,
    /// It is answered with this status, and the connection closes.
    Refused(u16),
}

/// The cases of a corpus file.
pub(crate) fn read(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let mut cases: Vec<Case> = Vec::new();
    let mut verdict_follows = false;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("=== ") {
            let name = format!("{file}: {name}");
            cases.push(Case { name, verdict: Verdict::Waits, bytes: Vec::new(), to: "GET".to_owned() });
            verdict_follows = true;
            continue;
        }
        let case = cases.last_mut().unwrap_or_else(|| panic!("{file}: begin with a `===` line"));
        if verdict_follows {
            read_verdict(line, case);
            verdict_follows = false;
        } else {
            case.bytes
                .extend(unescape(line).unwrap_or_else(|| panic!("{}: bad escape in {line}", case.name)));
        }
    }
    assert!(!verdict_follows && !cases.is_empty(), "{file} ends with a case that says nothing");
    cases
}

fn read_verdict(line: &str, case: &mut Case) {
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let verdict = words.next().unwrap_or_default();
    let mut facts = Vec::new();
    for word in words {
        let fact = word.split_once('=').and_then(|(key, value)| Some((key.to_owned(), unescape(value)?)));
        let (key, value) = fact.unwrap_or_else(|| panic!("{}: `{word}` is no fact", case.name));
        match key.as_str() {
            "to" => case.to = String::from_utf8_lossy(&value).into_owned(),
            _ => facts.push((key, value)),
        }
    }
    case.verdict = match verdict {
        "accepted" => Verdict::Accepted(facts),
        "waits" => Verdict::Waits,
        status => Verdict::Refused(
            status.parse().unwrap_or_else(|_| panic!("{}: `{status}` is no verdict", case.name)),
        ),
    };
}

/// The bytes that `text` stands for; `None` where an escape is none.
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let kind = rest[at + 1..].chars().next()?;
        rest = &rest[at + 1 + kind.len_utf8()..];
        match kind {
            'r' => out.push(b'\r'),
            'n' => out.push(b'\n'),
            't' => out.push(b'\t'),
            's' => out.push(b' '),
            '0' => out.push(0),
            '\\' => out.push(b'\\'),
            'x' => {
                out.push(u8::from_str_radix(rest.get(..2)?, 16).ok()?);
                rest = &rest[2..];
            }
            '{' => {
                let (inside, after) = rest.split_once('}')?;
                let (unit, count) = inside.rsplit_once('*')?;
                out.extend(unescape(unit)?.repeat(count.parse().ok()?));
                rest = after;
            }
            _ => return None,
        }
    }
    out.extend_from_slice(rest.as_bytes());
    Some(out)
}
