//! Static files: what clients say of encodings, and paths.

use ::files::accept::{choose, wanted};
use ::files::path::below_root;
use model::resource::Encoding;
use std::path::Component;

const ALL: [Encoding; 3] = [Encoding::Br, Encoding::Zstd, Encoding::Gzip];

/// `Accept-Encoding`: neither case nor white space changes the choice, and it is among what is offered.
pub fn accept_encoding(field: &[u8]) {
    for offered in [&ALL[..], &ALL[1..], &[Encoding::Gzip, Encoding::Br], &[]] {
        let chosen = choose(field, offered);
        assert!(chosen.is_none_or(|chosen| offered.contains(&chosen)));
        assert_eq!(chosen, choose(&field.to_ascii_uppercase(), offered), "names and `q` have no case");
        let spaced: Vec<u8> = field
            .iter()
            .flat_map(|byte| if matches!(byte, b',' | b';') { vec![b' ', *byte, b'\t'] } else { vec![*byte] })
            .collect();
        assert_eq!(chosen, choose(&spaced, offered), "white space around separators says nothing");
        assert_eq!(chosen, choose(&[field, b",,"].concat(), offered), "empty elements say nothing");
    }
    for encoding in ALL {
        let weight = wanted(field, encoding);
        assert!(weight.is_none_or(|weight| (1..=1000).contains(&weight)));
        assert_eq!(weight.is_some(), choose(field, &[encoding]).is_some());
    }
}

/// A path of a request: what is accepted stays below the root, and is nothing hidden unless that is wanted.
pub fn path(path: &[u8]) {
    for hidden in [false, true] {
        let Ok(below) = below_root(path, hidden) else { continue };
        assert!(!below.as_os_str().is_empty());
        if path == b"/" {
            continue;
        }
        let mut count = 0;
        for component in below.components() {
            let Component::Normal(name) = component else { panic!("{below:?} has {component:?}") };
            let name = name.as_encoded_bytes();
            assert!(!name.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\'), "{below:?}");
            assert!(hidden || !name.starts_with(b".") || name == b".well-known", "{below:?} is hidden");
            count += 1;
        }
        let inner = path.strip_prefix(b"/").expect("absolute");
        let segments = inner.strip_suffix(b"/").unwrap_or(inner).split(|byte| *byte == b'/').count();
        assert_eq!(count, segments, "no segment is merged or dropped");
    }
}
