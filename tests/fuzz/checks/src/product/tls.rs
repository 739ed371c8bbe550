//! Certificates' DER and cipher lists.

use ::tls::fuzzing::{certificate as shown, cipher_list as suites, element};

/// DER: an element lies within what was given and needs all of it; what is shown of a certificate is clean ASCII.
pub fn certificate(bytes: &[u8]) {
    if let Some((tag, content, rest)) = element(bytes) {
        let whole = bytes.len() - rest.len();
        assert_eq!(tag, bytes[0]);
        assert!((2..=6).contains(&(whole - content.len())), "a tag, a length of up to five bytes");
        assert_eq!(&bytes[whole - content.len()..whole], content);
        assert_eq!(&bytes[whole..], rest);
        assert_eq!(element(&bytes[..whole]), Some((tag, content, &[][..])), "what follows says nothing");
        for end in [0, 1, whole / 2, whole - 1] {
            assert_eq!(element(&bytes[..end]), None, "cut at {end} of {whole}");
        }
    }
    let Some(shown) = shown(bytes) else { return };
    assert!(shown.serial.bytes().all(|digit| digit.is_ascii_hexdigit()));
    for name in [&shown.issuer, &shown.subject] {
        // They become the values of headers and fields of the log.
        assert!(name.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{name:?}");
    }
}

/// A cipher list: no suite twice, what is excluded is out, and a refusal quotes the list.
pub fn cipher_list(bytes: &[u8]) {
    let Ok(list) = std::str::from_utf8(bytes) else { return };
    let (chosen, refused) = suites(list);
    for (at, suite) in chosen.iter().enumerate() {
        assert!(!suite.is_empty() && !chosen[..at].contains(suite), "{suite} stands once");
        let (left, _) = suites(&format!("{list}:!{suite}"));
        assert!(!left.contains(suite) && left.len() == chosen.len() - 1, "{suite} is excluded");
    }
    assert!(refused.iter().all(|refusal| list.contains(&refusal.what) && !refusal.why.is_empty()));
    assert_eq!(suites(&format!("{list}:!ALL")).0, [""; 0]);
    let (again, none) = suites(&chosen.join(":"));
    assert_eq!((again, none.len()), (chosen, 0), "the suites' names select them, in their order");
}
