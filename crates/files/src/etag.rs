//! Entity tags: nginx's form, so that what browsers and caches have stays good when the server changes.

use crate::root::Identity;

/// The tag of a file as it is: its time and length in hexadecimal. Quoted.
pub(crate) fn of_file(identity: &Identity) -> String {
    format!("\"{:x}-{:x}\"", identity.modified_s, identity.length)
}

/// The weak form: of what was compressed here, since another version may compress otherwise.
pub(crate) fn weak(tag: &str) -> String {
    format!("W/{tag}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_nginxs() {
        let identity =
            Identity { device: 1, inode: 2, length: 53_000, modified_s: 0x5f5e_1000, modified_ns: 7 };
        assert_eq!(of_file(&identity), "\"5f5e1000-cf08\"");
        assert_eq!(weak("\"a\""), "W/\"a\"");
    }
}
