//! Distinguished names as text (RFC 4514).

/// `value` as the value of an attribute in a distinguished name: the characters that would end it, or mean something else,
/// are escaped (section 2.4).
pub(crate) fn escape_rdn(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (at, c) in value.chars().enumerate() {
        match c {
            ' ' if at == 0 || at == last => escaped.push_str("\\ "),
            '#' if at == 0 => escaped.push_str("\\#"),
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '\0' => escaped.push_str("\\00"),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_one_value() {
        for (value, escaped) in [
            ("jack", "jack"),
            ("jack,ou=admins", "jack\\,ou\\=admins"),
            ("a+b", "a\\+b"),
            ("#1 ", "\\#1\\ "),
            (" ", "\\ "),
            ("a\\,b", "a\\\\\\,b"),
            ("<\">;", "\\<\\\"\\>\\;"),
            ("a\0b", "a\\00b"),
            ("l\u{fc}tze", "l\u{fc}tze"),
        ] {
            assert_eq!(escape_rdn(value), escaped);
        }
    }
}
