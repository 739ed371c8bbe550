//! The rest of a path pattern after its fixed beginning: what must fit there, and what its parameters stand for.

/// The rest of a pattern from its first segment that is not fixed on: `*/edit` of `/doc/*/edit`, `:id` of `/user/:id`.
/// Segments that begin with `*` stand for any text, slashes and all; those that begin with `:` for one segment that is
/// not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob(Box<[Segment]>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// With its name, empty where it has none.
    Any(Box<str>),
    /// With its name.
    One(Box<str>),
    Text(Box<[u8]>),
}

/// How lua-resty-radixtree calls a `*` without a name.
const UNNAMED: &str = ":ext";

impl Glob {
    pub(crate) fn parse(tail: &str) -> Self {
        let segment = |text: &str| match text.as_bytes() {
            [b'*', ..] => Segment::Any(text[1..].into()),
            [b':', ..] => Segment::One(text[1..].into()),
            text => Segment::Text(text.into()),
        };
        Self(tail.split('/').map(segment).collect())
    }

    /// Whether `rest`, the path from the pattern's first open segment on, fits. Of several `*` only the last one met is
    /// ever taken back, so this takes at most segments times segments steps.
    pub(crate) fn matches(&self, rest: &[u8]) -> bool {
        let (mut segments, mut want) = (Some(rest), 0);
        let mut retry: Option<(usize, Option<&[u8]>)> = None;
        loop {
            let (head, tail) = match segments {
                Some(text) => split_segment(text),
                None if want == self.0.len() => return true,
                // The path is used up: giving a `*` more of it leaves even less for the rest.
                None => return false,
            };
            let fits = match self.0.get(want) {
                Some(Segment::Any(_)) => {
                    retry = Some((want + 1, tail));
                    true
                }
                Some(segment) => segment.fits(head),
                None => false,
            };
            if fits {
                (segments, want) = (tail, want + 1);
                continue;
            }
            // The last `*` takes one segment more.
            let Some((after, Some(from))) = retry else { return false };
            let (_, tail) = split_segment(from);
            (segments, want) = (tail, after);
            retry = Some((after, tail));
        }
    }

    /// What the parameter `name` stands for in `rest`, which fits. Where several `*` could share the text in more than
    /// one way the first takes as much as it can, as in a regular expression. Of parameters of one name the last counts.
    pub(crate) fn param<'p>(&self, rest: &'p [u8], name: &str) -> Option<&'p [u8]> {
        let (mut from, mut value) = (0, None);
        let path: Vec<&[u8]> = rest.split(|byte| *byte == b'/').collect();
        let starts: Vec<usize> =
            path.iter().scan(0, |at, part| Some(std::mem::replace(at, *at + part.len() + 1))).collect();
        let fits = self.suffixes(&path);
        for (want, segment) in self.0.iter().enumerate() {
            let to = match segment {
                // As far as the rest still fits behind it.
                Segment::Any(_) => (from + 1..=path.len()).rev().find(|to| fits[want + 1][*to])?,
                _ => from + 1,
            };
            let (start, last) = (*starts.get(from)?, to.checked_sub(1)?);
            let text = rest.get(start..starts.get(last)? + path.get(last)?.len())?;
            let own = match segment {
                Segment::Any(own) if own.is_empty() => UNNAMED,
                Segment::Any(own) | Segment::One(own) => own,
                Segment::Text(_) => "",
            };
            if own == name && !name.is_empty() {
                value = Some(text);
            }
            from = to;
        }
        value
    }

    /// Whether the pattern from a segment on (first index) fits the path from a segment on (second index).
    fn suffixes(&self, path: &[&[u8]]) -> Vec<Vec<bool>> {
        let mut fits = vec![vec![false; path.len() + 1]; self.0.len() + 1];
        fits[self.0.len()][path.len()] = true;
        for (want, segment) in self.0.iter().enumerate().rev() {
            for at in (0..path.len()).rev() {
                fits[want][at] = match segment {
                    Segment::Any(_) => fits[want + 1][at + 1] || fits[want][at + 1],
                    _ => segment.fits(path[at]) && fits[want + 1][at + 1],
                };
            }
        }
        fits
    }
}

impl Segment {
    fn fits(&self, segment: &[u8]) -> bool {
        match self {
            Self::Any(_) => true,
            Self::One(_) => !segment.is_empty(),
            Self::Text(text) => segment == &**text,
        }
    }
}

/// The first segment, and what follows its slash if it has one.
fn split_segment(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b'/') {
        Some(slash) => (&text[..slash], Some(&text[slash + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parameters_stand_for_what_they_took() {
        for (glob, rest, name, expected) in [
            (":id", "7", "id", Some("7")),
            (":id", "7", "no", None),
            (":id/b/:type", "7/b/x%2Fy", "type", Some("x%2Fy")),
            ("*", "a/b", ":ext", Some("a/b")),
            ("*rest", "a/b", "rest", Some("a/b")),
            ("*rest", "", "rest", Some("")),
            ("*/b/:id", "x/b/b/7", "id", Some("7")),
            ("*a/b/*c", "1/b/2/b/3", "a", Some("1/b/2")),
            ("*a/b/*c", "1/b/2/b/3", "c", Some("3")),
            (":id/", "7/", "id", Some("7")),
        ] {
            let found = Glob::parse(glob).param(rest.as_bytes(), name);
            assert_eq!(found, expected.map(str::as_bytes), "{glob} {rest} {name}");
        }
    }

    proptest! {
        #[test]
        fn both_ways_of_matching_agree(glob in "[*:][ab]?(/([ab*]|:a)){0,4}", rest in "[ab/]{0,8}") {
            let glob = Glob::parse(&glob);
            let path: Vec<&[u8]> = rest.as_bytes().split(|byte| *byte == b'/').collect();
            prop_assert_eq!(glob.matches(rest.as_bytes()), glob.suffixes(&path)[0][0]);
            let _ = glob.param(rest.as_bytes(), "a");
        }
    }
}
