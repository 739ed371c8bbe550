//! The page to which a client returns after its login.

/// Whether `target` stays on this site as the value of `Location`: a path, and neither `//host` nor what browsers read
/// as that.
pub(crate) fn is_local(target: &str) -> bool {
    target.starts_with('/')
        && !target.starts_with("//")
        && !target.contains('\\')
        && !target.bytes().any(|byte| byte.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_returns_to_this_site_alone() {
        for (target, local) in [
            ("/", true),
            ("/a?b=http://x.test", true),
            ("", false),
            ("//x.test/", false),
            ("/\\x.test", false),
            ("http://x.test/", false),
            ("/a\r\nSet-Cookie: b", false),
            ("/\t/x.test", false),
        ] {
            assert_eq!(is_local(target), local, "{target:?}");
        }
    }
}
