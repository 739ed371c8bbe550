//! The replacement string of `ngx.re.sub`: text in which `$1` and `${1}` are groups, `$0` is the match and `$$` a dollar.

/// A replacement, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replacement(Vec<Part>);

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Group(usize),
}

impl Replacement {
    /// # Errors
    /// A `$` begins nothing that is known.
    pub(super) fn parse(template: &[u8]) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(at) = memchr::memchr(b'$', rest) {
            if at > 0 {
                parts.push(Part::Text(rest[..at].to_vec()));
            }
            let (part, length) = variable(&rest[at + 1..]).ok_or_else(|| {
                let shown = String::from_utf8_lossy(template);
                format!("failed to compile the replacement template: invalid capturing variable name found in \"{shown}\"")
            })?;
            parts.push(part);
            rest = &rest[at + 1 + length..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_vec()));
        }
        Ok(Self(parts))
    }

    /// Appends the replacement of a match to `out`. Groups that took no part, or that the pattern doesn't have, are empty.
    pub(super) fn expand(&self, subject: &[u8], groups: &[Option<(usize, usize)>], out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Group(number) => {
                    if let Some((start, end)) = groups.get(*number).copied().flatten() {
                        out.extend_from_slice(&subject[start..end]);
                    }
                }
            }
        }
    }
}

/// What follows a `$`, and its length.
fn variable(text: &[u8]) -> Option<(Part, usize)> {
    match text.first()? {
        b'$' => Some((Part::Text(b"$".to_vec()), 1)),
        b'{' => {
            let end = memchr::memchr(b'}', text)?;
            Some((Part::Group(number(&text[1..end])?), end + 1))
        }
        _ => {
            let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            Some((Part::Group(number(&text[..digits])?), digits))
        }
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    let digits =
        str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}
