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

/// Whether one of the tags in `field` (or `*`) is `tag` by weak comparison.
pub(crate) fn any_weak(field: &[u8], tag: &str) -> bool {
    let tag = tag.strip_prefix("W/").unwrap_or(tag).as_bytes();
    tags(field).any(|other| other == b"*" || other.strip_prefix(b"W/").unwrap_or(other) == tag)
}

/// Whether one of the tags in `field` (or `*`) is `tag` by strong comparison: neither may be weak.
pub(crate) fn any_strong(field: &[u8], tag: &str) -> bool {
    tags(field).any(|other| other == b"*" || (!tag.starts_with("W/") && other == tag.as_bytes()))
}

/// The tags of a list. Our own tags hold no comma, so a tag of somebody else's that does is cut, and matches none.
fn tags(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    field.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
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
