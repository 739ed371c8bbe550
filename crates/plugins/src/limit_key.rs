//! What requests are counted by.

use model::var::{Template, Var, VarSource};
use serde::Deserialize;
use std::borrow::Cow;

/// How a key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyType {
    Var,
    VarCombination,
    Constant,
}

/// A key, compiled.
pub(crate) enum Key {
    /// `remote_addr`, what nearly everyone counts by: the connection has it as text.
    RemoteAddr,
    Var(Var),
    /// Text with variables; absent where none of them has a value.
    Template(Template),
    Constant(Box<[u8]>),
}

impl Key {
    pub(crate) fn compile(key_type: KeyType, key: &str) -> Self {
        match key_type {
            KeyType::Constant => Self::Constant(key.as_bytes().into()),
            KeyType::VarCombination => Self::template(key),
            KeyType::Var => match Var::parse(key) {
                Var::RemoteAddr => Self::RemoteAddr,
                var => Self::Var(var),
            },
        }
    }

    pub(crate) fn template(key: &str) -> Self {
        Self::Template(Template::parse(key))
    }

    /// The key of this request or session, the client's address `ip_text` where it has none.
    pub(crate) fn or_remote_addr<'s>(
        &'s self,
        source: &'s impl VarSource,
        ip_text: &'s str,
    ) -> Cow<'s, [u8]> {
        let own = match self {
            Self::RemoteAddr => None,
            Self::Var(var) => source.var(var),
            Self::Template(_) => self.resolved(source).map(Cow::Owned),
            Self::Constant(text) => Some(Cow::Borrowed(&**text)),
        };
        own.unwrap_or(Cow::Borrowed(ip_text.as_bytes()))
    }

    /// The text of a template of which at least one variable has a value.
    pub(crate) fn resolved(&self, source: &impl VarSource) -> Option<Vec<u8>> {
        let Self::Template(template) = self else { return None };
        let mut text = Vec::new();
        (template.render(source, &mut text) > 0).then_some(text)
    }
}
