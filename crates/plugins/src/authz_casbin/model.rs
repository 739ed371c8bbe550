//! The text of a model: sections with definitions.

use std::collections::HashMap;

/// A model's definitions.
pub(super) struct Model {
    /// The names of a request's parts.
    pub(super) request: Vec<String>,
    /// The names of a rule's parts.
    pub(super) policy: Vec<String>,
    /// The kinds of roles: `g`, `g2`, each with the number of its parts.
    pub(super) roles: Vec<(String, usize)>,
    pub(super) effect: Effect,
    pub(super) matcher: String,
}

/// How the rules that match decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// One allowing rule is enough.
    Allow,
    /// One denying rule is enough to refuse, else the request is allowed.
    NoDeny,
    /// An allowing rule, and no denying one.
    AllowAndNoDeny,
    /// The first rule that matches.
    Priority,
}

impl Effect {
    fn parse(text: &str) -> Option<Self> {
        let bare: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        Some(match bare.as_str() {
            "some(where(p.eft==allow))" => Self::Allow,
            "!some(where(p.eft==deny))" => Self::NoDeny,
            "some(where(p.eft==allow))&&!some(where(p.eft==deny))" => Self::AllowAndNoDeny,
            "priority(p.eft)||deny" => Self::Priority,
            _ => return None,
        })
    }
}

impl Model {
    /// Reads a model's text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut sections = sections(text)?;
        let mut take = |section: &str, name: &str| {
            let found = sections.get_mut(section).and_then(|definitions| definitions.remove(name));
            found.ok_or_else(|| format!("the model has no `{name}` in [{section}]"))
        };
        let names = |text: &str| text.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
        let request = names(&take("request_definition", "r")?);
        if request.len() != 3 {
            return Err("a request has three parts: user, path and method".to_owned());
        }
        let policy = names(&take("policy_definition", "p")?);
        let effect = take("policy_effect", "e")?;
        let effect = Effect::parse(&effect).ok_or_else(|| format!("unknown policy effect: {effect}"))?;
        let matcher = take("matchers", "m")?;
        let mut roles: Vec<_> = sections
            .remove("role_definition")
            .into_iter()
            .flatten()
            .map(|(name, parts)| (name, parts.split(',').count()))
            .collect();
        roles.sort();
        if let Some((name, _)) =
            roles.iter().find(|(name, parts)| !name.starts_with('g') || !(2..=3).contains(parts))
        {
            return Err(format!("the role definition `{name}` is not supported"));
        }
        let rest = sections.iter().find_map(|(section, rest)| Some((section, rest.keys().next()?)));
        match rest {
            Some((section, name)) => Err(format!("`{name}` in [{section}] is not supported")),
            None => Ok(Self { request, policy, roles, effect, matcher }),
        }
    }
}

/// The definitions of each section. A line that ends in a backslash goes on in the next one.
fn sections(text: &str) -> Result<HashMap<String, HashMap<String, String>>, String> {
    let mut sections: HashMap<String, HashMap<String, String>> = HashMap::new();
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut section = String::new();
    for line in joined.lines().map(|line| without_comment(line).trim()).filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim().to_owned();
        } else if let Some((name, value)) = line.split_once('=') {
            let definitions = sections.entry(section.clone()).or_default();
            definitions.insert(name.trim().to_owned(), value.trim().to_owned());
        } else {
            return Err(format!("the model has a line that is neither a section nor a definition: {line}"));
        }
    }
    Ok(sections)
}

/// The line up to a `#` that stands in no quotation marks, or nothing where it begins with `;`.
fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with(';') {
        return "";
    }
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (c, quote) {
            ('#', None) => return &line[..at],
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
    }
    line
}
