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
    /// `/plugin_configs/{id}`
    PluginConfig,
    /// `/global_rules/{id}`
    GlobalRule,
    /// `/plugin_metadata/{plugin name}`
    PluginMetadata,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Route,
        Self::Service,
        Self::Upstream,
        Self::PluginConfig,
        Self::GlobalRule,
        Self::PluginMetadata,
    ];

    /// The name in keys and URLs: `routes`.
    #[must_use]
    pub fn collection(self) -> &'static str {
        match self {
            Self::Route => "routes",
            Self::Service => "services",
            Self::Upstream => "upstreams",
            Self::PluginConfig => "plugin_configs",
            Self::GlobalRule => "global_rules",
            Self::PluginMetadata => "plugin_metadata",
        }
    }

    /// The name in messages, as APISIX words it: `global rule`.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Service => "service",
            Self::Upstream => "upstream",
            Self::PluginConfig => "plugin config",
            Self::GlobalRule => "global rule",
            Self::PluginMetadata => "plugin_metadata",
        }
    }

    /// The kind whose collection is called `name`.
    #[must_use]
    pub fn from_collection(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.collection() == name)
    }

    /// The store key of one resource of this kind: `/routes/1`.
    #[must_use]
    pub fn key(self, id: &str) -> String {
        format!("/{}/{id}", self.collection())
    }

    /// The kind and id that a store key names; `None` for keys of other programs' making.
    #[must_use]
    pub fn parse_key(key: &str) -> Option<(Self, &str)> {
        let (collection, id) = key.strip_prefix('/')?.split_once('/')?;
        (!id.is_empty()).then_some(())?;
        Some((Self::from_collection(collection)?, id))
    }
}
