//! The codes of diagnostics, declared once. docs/reference/errors.md is made from this table.
//!
//! A code keeps its number and its meaning for ever; one that is no longer used is not given to another mistake.

use std::fmt;

/// The kind of a mistake: `TG` and four digits, with a name and an explanation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code(&'static Text);

/// What the table says of a code.
#[derive(Debug, PartialEq, Eq)]
pub struct Text {
    number: u16,
    name: &'static str,
    /// What it means, in one or two sentences.
    pub meaning: &'static str,
    /// What to do about it, in one or two sentences.
    pub action: &'static str,
}

impl Code {
    /// Returns the name, in lower case with hyphens.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the code that is written so, such as `TG0101`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let number: u16 = text.strip_prefix("TG")?.parse().ok()?;
        GROUPS.iter().flat_map(|group| group.codes).find(|code| code.0.number == number).copied()
    }

    /// Returns the table's entry.
    #[must_use]
    pub fn text(self) -> &'static Text {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TG{:04}", self.0.number)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {}", self.0.name)
    }
}

/// Codes about one subject.
#[derive(Debug)]
pub struct Group {
    /// The heading.
    pub title: &'static str,
    /// The codes, in ascending order.
    pub codes: &'static [Code],
}

/// Every code.
pub const GROUPS: &[Group] = &[
    Group {
        title: "Documents",
        codes: &[
            UNREADABLE_FILE,
            SYNTAX,
            DUPLICATE_KEY,
            LIMIT_EXCEEDED,
            VARIABLE_NOT_SET,
            INCOMPLETE_FILE,
            NOT_A_MAPPING,
        ],
    },
    Group {
        title: "config.yaml",
        codes: &[
            UNKNOWN_KEY,
            NO_EFFECT,
            WRONG_TYPE,
            INVALID_VALUE,
            PORT_CONFLICT,
            MISSING_SETTING,
            INSECURE_SETTING,
            UNKNOWN_PLUGIN,
            UNKNOWN_VARIABLE,
        ],
    },
    Group {
        title: "Resources",
        codes: &[
            UNKNOWN_COLLECTION,
            WRONG_SHAPE,
            DUPLICATE_ID,
            INVALID_ID,
            INVALID_RESOURCE,
            UNKNOWN_FIELD,
            MISSING_PARENT,
            WRONG_FORM,
            OLD_CERTIFICATE,
        ],
    },
    Group { title: "Start", codes: &[START_WOULD_FAIL] },
    Group {
        title: "Lint",
        codes: &[
            DANGLING_REFERENCE,
            NO_NODE,
            CERTIFICATE_EXPIRED,
            CERTIFICATE_EXPIRES,
            CERTIFICATE_NOT_YET_VALID,
            UNREACHABLE_ROUTE,
            MISSING_AUTHENTICATION,
            IDLE_PLUGIN,
            UNUSED,
            WELL_KNOWN_KEY,
        ],
    },
    Group { title: "nginx configurations", codes: &[NGINX_SYNTAX, NGINX_REFUSED] },
];

/// A file can't be opened, is no regular file, or isn't UTF-8 text.
pub const UNREADABLE_FILE: Code = Code(&Text {
    number: 101,
    name: "unreadable-file",
    meaning: "The file does not exist, may not be read, is not a regular file, is too large, or is not UTF-8 text.",
    action: "Check the path and the permissions of the file for the user who runs the command.",
});

/// The text is not valid YAML or JSON.
pub const SYNTAX: Code = Code(&Text {
    number: 102,
    name: "syntax",
    meaning: "The text is not valid YAML or JSON. The parser stops at the first syntax error, so there may be more.",
    action: "Check indentation, quotes, commas and brackets at the position and in the line before it.",
});

/// A mapping has a key twice.
pub const DUPLICATE_KEY: Code = Code(&Text {
    number: 103,
    name: "duplicate-key",
    meaning: "A mapping has the same key twice.",
    action: "Remove one of the two, or merge their values.",
});

/// The document exceeds a limit.
pub const LIMIT_EXCEEDED: Code = Code(&Text {
    number: 104,
    name: "limit-exceeded",
    meaning: "The document is nested too deep, has too many keys and values, or repeats too much through aliases.",
    action: "Split the document, or write fewer aliases. The limits are in `crates/document/src/limits.rs`.",
});

/// An environment variable has no value.
pub const VARIABLE_NOT_SET: Code = Code(&Text {
    number: 105,
    name: "variable-not-set",
    meaning: "The document refers to an environment variable, `${{NAME}}`, that is not set and has no default.",
    action: "Set the variable for the process, or write a default: `${{NAME:=value}}`.",
});

/// A standalone YAML file has no end mark, or no collection.
pub const INCOMPLETE_FILE: Code = Code(&Text {
    number: 106,
    name: "incomplete-file",
    meaning: "A standalone YAML file does not end in `#END`, or it names no collection. It may be only partly written.",
    action: "End the file with a line `#END`. To remove every resource, name an empty collection: `routes: []`.",
});

/// The document is not a mapping.
pub const NOT_A_MAPPING: Code = Code(&Text {
    number: 107,
    name: "not-a-mapping",
    meaning: "The document is a list or a single value, and a mapping of collections is expected.",
    action: "Write the names of collections (`routes:`, `upstreams:`) as keys and lists as their values.",
});

/// A key of config.yaml is unknown.
pub const UNKNOWN_KEY: Code = Code(&Text {
    number: 201,
    name: "unknown-key",
    meaning: "`config.yaml` has a key that neither APISIX nor Tidegate knows. It is ignored.",
    action: "Correct the key or remove it. `docs/reference/config.md` lists all keys.",
});

/// A setting changes nothing.
pub const NO_EFFECT: Code = Code(&Text {
    number: 202,
    name: "no-effect",
    meaning: "The setting is known and accepted, and it changes nothing: Tidegate works differently, or another setting \
              makes it meaningless.",
    action: "Remove the setting, or follow the hint.",
});

/// A value has the wrong type.
pub const WRONG_TYPE: Code = Code(&Text {
    number: 203,
    name: "wrong-type",
    meaning: "A value of `config.yaml` has another type than the key takes, or a number is out of range.",
    action: "Write a value as the message describes it; `docs/reference/config.md` has the type of every key.",
});

/// A value is not acceptable.
pub const INVALID_VALUE: Code = Code(&Text {
    number: 204,
    name: "invalid-value",
    meaning: "A value of `config.yaml` has the right type and can't be used: an unknown word, a malformed address, a \
              combination that can't work.",
    action: "Write a value as the message describes it.",
});

/// Two servers want one port.
pub const PORT_CONFLICT: Code = Code(&Text {
    number: 205,
    name: "port-conflict",
    meaning: "Two servers of the gateway are configured to listen on the same address and port.",
    action: "Give one of them another port.",
});

/// A setting needs another one.
pub const MISSING_SETTING: Code = Code(&Text {
    number: 206,
    name: "missing-setting",
    meaning: "A setting needs another one that is not there, such as HTTPS without a certificate.",
    action: "Add the setting that the message names.",
});

/// A setting opens the gateway to others.
pub const INSECURE_SETTING: Code = Code(&Text {
    number: 207,
    name: "insecure-setting",
    meaning: "The setting lets others change the configuration or read secrets: a published admin key, an Admin API \
              without keys, secrets in etcd without encryption.",
    action: "Configure a key of your own.",
});

/// A plugin list names a plugin that the binary doesn't have.
pub const UNKNOWN_PLUGIN: Code = Code(&Text {
    number: 208,
    name: "unknown-plugin",
    meaning: "`plugins` or `stream_plugins` names a plugin that is not built in. It is left out.",
    action: "Correct the name or remove it. A resource that uses the plugin is refused.",
});

/// A log format has an unknown variable.
pub const UNKNOWN_VARIABLE: Code = Code(&Text {
    number: 209,
    name: "unknown-variable",
    meaning: "An access log format has a variable that only a plugin could set. Without one it is empty.",
    action: "Correct the variable's name.",
});

/// A document has an unknown collection.
pub const UNKNOWN_COLLECTION: Code = Code(&Text {
    number: 301,
    name: "unknown-collection",
    meaning: "A key at the top of the document is not the name of a collection of resources.",
    action: "Correct the name. The collections are those of APISIX: `routes`, `services`, `upstreams` and so on.",
});

/// A collection is no list, or an item no mapping.
pub const WRONG_SHAPE: Code = Code(&Text {
    number: 302,
    name: "wrong-shape",
    meaning: "A collection is not a list, or one of its items is not a mapping.",
    action: "Write a list of mappings, each beginning with `- `.",
});

/// Two resources have one id.
pub const DUPLICATE_ID: Code = Code(&Text {
    number: 303,
    name: "duplicate-id",
    meaning: "Two resources of one collection have the same id.",
    action: "Give one of them another id, or remove it.",
});

/// A resource has no usable id.
pub const INVALID_ID: Code = Code(&Text {
    number: 304,
    name: "invalid-id",
    meaning: "A resource has an id that can't be one, or lacks the field that its id is made of.",
    action: "Use letters, digits, `.`, `-` and `_`, at most 64 of them. A consumer needs `username`.",
});

/// A resource breaks a rule of its schema.
pub const INVALID_RESOURCE: Code = Code(&Text {
    number: 305,
    name: "invalid-resource",
    meaning: "The resource is refused, by the Admin API as well as from a file: a field has a wrong value, a plugin's \
              configuration is invalid, or a resource that it refers to does not exist.",
    action: "Correct the value at the path in the message.",
});

/// A resource has a field that nobody knows.
pub const UNKNOWN_FIELD: Code = Code(&Text {
    number: 306,
    name: "unknown-field",
    meaning: "The resource has a field that no schema knows. APISIX accepts such fields, so it is kept and ignored.",
    action: "Correct the field's name or remove it. With `--strict` it is an error.",
});

/// A credential has no consumer.
pub const MISSING_PARENT: Code = Code(&Text {
    number: 307,
    name: "missing-parent",
    meaning: "A credential belongs to a consumer that does not exist.",
    action: "Add the consumer, or correct its name in the credential's id.",
});

/// The document is in a form that the gateway doesn't read.
pub const WRONG_FORM: Code = Code(&Text {
    number: 308,
    name: "wrong-form",
    meaning: "The file is in the form of ADC, and a gateway that reads its configuration from a file takes APISIX's \
              standalone form alone.",
    action: "End a YAML file with a line `#END`, or write it to a running gateway with `tidegate config sync`.",
});

/// A certificate authority has an X.509 version 1 certificate.
pub const OLD_CERTIFICATE: Code = Code(&Text {
    number: 309,
    name: "x509-version-1",
    meaning: "The certificate authority for client certificates is of X.509 version 1, which openssl makes when no \
              extensions are given. Client certificates made in the same way are refused in the handshake.",
    action: "Issue client certificates as version 3 (`openssl x509 -req -extfile`), and the authority with the \
             extension `basicConstraints = CA:TRUE`.",
});

/// A start would fail.
pub const START_WOULD_FAIL: Code = Code(&Text {
    number: 401,
    name: "start-would-fail",
    meaning: "The configuration itself is valid, and a start with it fails: a file that it names is missing or can't be \
              used, or a plugin refuses its attributes.",
    action: "Correct what the message names.",
});

/// A reference to a resource that isn't there.
pub const DANGLING_REFERENCE: Code = Code(&Text {
    number: 501,
    name: "dangling-reference",
    meaning: "A resource refers to another one that does not exist.",
    action: "Correct the id, or add the resource.",
});

/// An upstream whose nodes take no requests.
pub const NO_NODE: Code = Code(&Text {
    number: 502,
    name: "no-node",
    meaning: "An upstream has no node with a weight above zero, so every request fails.",
    action: "Add a node, or raise a weight.",
});

/// A certificate whose time is over.
pub const CERTIFICATE_EXPIRED: Code = Code(&Text {
    number: 503,
    name: "certificate-expired",
    meaning: "A certificate has expired. Clients refuse it.",
    action: "Renew it, and write the new one and its key in its place.",
});

/// A certificate whose time is nearly over.
pub const CERTIFICATE_EXPIRES: Code = Code(&Text {
    number: 504,
    name: "certificate-expires",
    meaning: "A certificate expires within 30 days.",
    action: "Renew it, and write the new one and its key in its place.",
});

/// A certificate whose time has not begun.
pub const CERTIFICATE_NOT_YET_VALID: Code = Code(&Text {
    number: 505,
    name: "certificate-not-yet-valid",
    meaning: "The validity of a certificate has not begun. Clients refuse it.",
    action: "Use the former certificate until then, or correct the clock.",
});

/// A route that no request reaches.
pub const UNREACHABLE_ROUTE: Code = Code(&Text {
    number: 506,
    name: "unreachable-route",
    meaning: "Another route takes every request that this route matches.",
    action: "Raise its priority, give it a narrower condition, or delete it.",
});

/// A route that lets everybody in, among others that don't.
pub const MISSING_AUTHENTICATION: Code = Code(&Text {
    number: 507,
    name: "missing-authentication",
    meaning: "Most routes of the same service or host authenticate clients, and this one does not.",
    action: "Add an authentication plugin, unless everybody may use the route.",
});

/// A plugin that does nothing.
pub const IDLE_PLUGIN: Code = Code(&Text {
    number: 508,
    name: "idle-plugin",
    meaning: "A plugin is configured and never runs.",
    action: "Remove it, or follow the hint.",
});

/// A resource that nobody refers to.
pub const UNUSED: Code = Code(&Text {
    number: 509,
    name: "unused",
    meaning: "No resource refers to this one.",
    action: "Delete it, or refer to it.",
});

/// An admin key from public examples.
pub const WELL_KNOWN_KEY: Code = Code(&Text {
    number: 510,
    name: "well-known-key",
    meaning: "An admin key is published in examples: everybody who can reach the Admin API controls the gateway.",
    action: "Write a key of your own, or leave it empty to have one generated.",
});

/// An nginx configuration that can't be parsed.
pub const NGINX_SYNTAX: Code = Code(&Text {
    number: 601,
    name: "nginx-syntax",
    meaning: "The nginx configuration can't be parsed, or a file that it includes can't be read.",
    action: "Correct it until `nginx -t` accepts it.",
});

/// A directive that can't be translated.
pub const NGINX_REFUSED: Code = Code(&Text {
    number: 602,
    name: "nginx-refused",
    meaning: "The directive has no translation: what it asks for will not happen.",
    action: "See the reason in the message, and configure the same by hand where it matters.",
});

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn listed() -> impl Iterator<Item = Code> {
        GROUPS.iter().flat_map(|group| group.codes.iter().copied())
    }

    #[test]
    fn numbers_ascend_and_names_are_unique() {
        let numbers: Vec<u16> = listed().map(|code| code.0.number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        let mut names: Vec<&str> = listed().map(Code::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), numbers.len());
        for Code(text) in listed() {
            assert!(text.meaning.ends_with('.') && text.action.ends_with('.'), "{text:?}");
        }
    }

    #[test]
    fn every_code_is_listed_and_used() {
        let declared: Vec<&str> = include_str!("codes.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("pub const ")?.split_once(": Code = ").map(|(name, _)| name))
            .collect();
        assert_eq!(declared.len(), listed().count(), "{declared:?}");
        let mut sources = String::new();
        let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let mut folders: Vec<_> =
            std::fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    sources.push_str(&std::fs::read_to_string(path).unwrap());
                }
            }
        }
        let unused: Vec<_> =
            declared.iter().filter(|name| !sources.contains(&format!("codes::{name}"))).collect();
        assert_eq!(unused, [&""; 0], "codes that nothing has");
    }
}
