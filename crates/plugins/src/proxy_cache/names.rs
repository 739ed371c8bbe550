//! What a configured key names.

/// What of a configured key matters to whom its responses may be given.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Names {
    /// It has the credentials themselves.
    pub(super) credentials: bool,
    /// It has the consumer or its group.
    pub(super) consumer: bool,
    /// It has the path.
    pub(super) path: bool,
    /// It has the host.
    pub(super) host: bool,
}

impl Names {
    /// What the variables of a `cache_key` are.
    pub(super) fn of(cache_key: &[String]) -> Self {
        // Variables may stand among text. One taken for another tells apart more than it must, which does no harm.
        let has = |names: &[&str]| {
            let variable = |part: &String| part.contains('$') && names.iter().any(|name| part.contains(name));
            cache_key.iter().any(variable)
        };
        Self {
            credentials: has(&["http_authorization"]),
            consumer: has(&["consumer_name", "consumer_group_id"]),
            path: has(&["uri"]),
            host: has(&["host", "server_name"]),
        }
    }
}
