//! The kinds of resource, with the names that keys, URLs and messages use.

/// A kind of resource. The order is the order in which a dump lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `/routes/{id}`
    Route,
    /// `/services/{id}`
    Service,
    /// `/upstreams/{id}`
    Upstream,
    /// `/consumers/{username}`
    Consumer,
    /// `/consumers/{username}/credentials/{id}`; its id is all of that after `/consumers/`.
    Credential,
    /// `/consumer_groups/{id}`
    ConsumerGroup,
    /// `/ssls/{id}`
    Ssl,
    /// `/stream_routes/{id}`
    StreamRoute,
    /// `/plugin_configs/{id}`
    PluginConfig,
    /// `/global_rules/{id}`
    GlobalRule,
    /// `/plugin_metadata/{plugin name}`
    PluginMetadata,
    /// `/protos/{id}`
    Proto,
    /// `/secrets/{manager}/{id}`; its id is `{manager}/{id}`.
    Secret,
    /// `/services/{service id}/graphql_cost_decorations/{id}`; its id is all of that after `/services/`.
    GraphqlCost,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::Route,
        Self::Service,
        Self::Upstream,
        Self::Consumer,
        Self::Credential,
        Self::ConsumerGroup,
        Self::Ssl,
        Self::StreamRoute,
        Self::PluginConfig,
        Self::GlobalRule,
        Self::PluginMetadata,
        Self::Proto,
        Self::Secret,
        Self::GraphqlCost,
    ];

    /// The name in URLs, and in keys except for those that stand below another resource: `routes`.
    #[must_use]
    pub fn collection(self) -> &'static str {
        match self {
            Self::Route => "routes",
            Self::Service => "services",
            Self::Upstream => "upstreams",
            Self::Consumer => "consumers",
            Self::Credential => "credentials",
            Self::ConsumerGroup => "consumer_groups",
            Self::Ssl => "ssls",
            Self::StreamRoute => "stream_routes",
            Self::PluginConfig => "plugin_configs",
            Self::GlobalRule => "global_rules",
            Self::PluginMetadata => "plugin_metadata",
            Self::Proto => "protos",
            Self::Secret => "secrets",
            Self::GraphqlCost => "graphql_cost_decorations",
        }
    }

    /// The name in messages, as APISIX words it: `global rule`.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Service => "service",
            Self::Upstream => "upstream",
            Self::Consumer => "consumer",
            Self::Credential => "credential",
            Self::ConsumerGroup => "consumer group",
            Self::Ssl => "ssl",
            Self::StreamRoute => "stream route",
            Self::PluginConfig => "plugin config",
            Self::GlobalRule => "global rule",
            Self::PluginMetadata => "plugin_metadata",
            Self::Proto => "proto",
            Self::Secret => "secret",
            Self::GraphqlCost => "graphql cost decoration",
        }
    }

    /// The kind below whose resources this kind's stand: a credential belongs to a consumer.
    #[must_use]
    pub fn parent(self) -> Option<Self> {
        match self {
            Self::Credential => Some(Self::Consumer),
            Self::GraphqlCost => Some(Self::Service),
            _ => None,
        }
    }

    /// The kind whose collection is called `name`.
    #[must_use]
    pub fn from_collection(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.collection() == name)
    }

    /// The store key of one resource of this kind: `/routes/1`. Of a kind with a parent the id names that too:
    /// `alice/credentials/1`; [`Self::id_below`] makes such an id.
    #[must_use]
    pub fn key(self, id: &str) -> String {
        format!("/{}/{id}", self.parent().unwrap_or(self).collection())
    }

    /// The id of a resource that stands below `parent`: `alice/credentials/1` of a consumer's credential.
    #[must_use]
    pub fn id_below(self, parent: &str, id: &str) -> String {
        format!("{parent}/{}/{id}", self.collection())
    }

    /// Parent's id and own id of what [`Self::id_below`] made; `None` where this kind has no parent or `id` no such
    /// form.
    #[must_use]
    pub fn split_id(self, id: &str) -> Option<(&str, &str)> {
        self.parent()?;
        let (parent, rest) = id.split_once('/')?;
        let own = rest.strip_prefix(self.collection())?.strip_prefix('/')?;
        (!parent.is_empty() && !own.is_empty() && !own.contains('/')).then_some((parent, own))
    }

    /// The kind and id that a store key names; `None` for keys of other programs' making.
    #[must_use]
    pub fn parse_key(key: &str) -> Option<(Self, &str)> {
        let (collection, id) = key.strip_prefix('/')?.split_once('/')?;
        let kind = Self::from_collection(collection).filter(|kind| kind.parent().is_none())?;
        let mut below = Self::ALL.into_iter().filter(|child| child.parent() == Some(kind));
        if let Some(child) = below.find(|child| child.split_id(id).is_some()) {
            return Some((child, id));
        }
        let parts = if kind == Self::Secret { 2 } else { 1 };
        let whole = id.split('/').count() == parts && id.split('/').all(|part| !part.is_empty());
        whole.then_some((kind, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_apisix_s_and_read_back() {
        for (kind, id, key) in [
            (Kind::Route, "1", "/routes/1"),
            (Kind::Consumer, "alice", "/consumers/alice"),
            (Kind::Credential, "alice/credentials/c.1", "/consumers/alice/credentials/c.1"),
            (Kind::ConsumerGroup, "g", "/consumer_groups/g"),
            (Kind::Ssl, "1", "/ssls/1"),
            (Kind::Secret, "vault/1", "/secrets/vault/1"),
            (Kind::PluginMetadata, "http-logger", "/plugin_metadata/http-logger"),
            (Kind::GraphqlCost, "1/graphql_cost_decorations/2", "/services/1/graphql_cost_decorations/2"),
        ] {
            assert_eq!(kind.key(id), key);
            assert_eq!(Kind::parse_key(key), Some((kind, id)), "{key}");
        }
        assert_eq!(Kind::Credential.id_below("alice", "1"), "alice/credentials/1");
        assert_eq!(Kind::Credential.split_id("alice/credentials/1"), Some(("alice", "1")));
    }

    #[test]
    fn what_is_no_resource_s_key_names_none() {
        for key in [
            "",
            "/",
            "/routes",
            "/routes/",
            "/routes/1/2",
            "/gen_id",
            "/plugins",
            "/secrets/vault",
            "/secrets/vault/",
            "/secrets/vault/1/2",
            "/credentials/1",
            "/consumers/a/credentials",
            "/consumers/a/credentials/",
            "/consumers/a/credentials/b/c",
            "/services/1/credentials/2",
            "routes/1",
        ] {
            assert_eq!(Kind::parse_key(key), None, "{key}");
        }
    }
}
