//! What a path below `/apisix/admin` names: a resource, or a collection of them.
//!
//! Credentials stand below their consumer, costs of GraphQL fields below their service, secrets below their manager.

use crate::AdminResponse;
use model::Kind;

/// A resource, or without its id a collection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The kind of resource.
    pub kind: Kind,
    /// What it stands below: a consumer's name, a service's id, a secret manager.
    pub parent: Option<&'a str>,
    /// The resource's own id.
    pub id: Option<&'a str>,
    /// What follows the id.
    pub sub_path: &'a [&'a str],
}

impl<'a> Target<'a> {
    /// Reads the path's segments from the collection's name on.
    pub(crate) fn parse(collection: &'a str, below: &'a [&'a str]) -> Result<Self, AdminResponse> {
        let kind = Kind::from_collection(collection).ok_or_else(|| unsupported(collection))?;
        if let Some(parent) = kind.parent() {
            return Err(AdminResponse::error(400, format!("missing {} id", parent.noun())));
        }
        let child = |name: &str| Kind::from_collection(name).filter(|child| child.parent() == Some(kind));
        let (kind, parent, below) = match below {
            [parent, name, below @ ..] if child(name).is_some() => {
                (child(name).unwrap_or(kind), Some(*parent), below)
            }
            [manager, below @ ..] if kind == Kind::Secret => (kind, Some(*manager), below),
            below => (kind, None, below),
        };
        let (id, sub_path) = match below {
            [id, sub_path @ ..] => (Some(*id), sub_path),
            [] => (None, below),
        };
        Ok(Self { kind, parent, id, sub_path })
    }

    /// What a store key names.
    pub(crate) fn of_key(key: &'a str) -> Option<Self> {
        let (kind, id) = Kind::parse_key(key)?;
        let (parent, own) = match kind {
            Kind::Secret => id.split_once('/').map(|(manager, own)| (Some(manager), own))?,
            _ => kind.split_id(id).map_or((None, id), |(parent, own)| (Some(parent), own)),
        };
        Some(Self { kind, parent, id: Some(own), sub_path: &[] })
    }

    /// The id that keys have, of the resource whose own id is `own`.
    pub(crate) fn whole_id(&self, own: &str) -> String {
        match self.parent {
            Some(manager) if self.kind == Kind::Secret => format!("{manager}/{own}"),
            Some(parent) => self.kind.id_below(parent, own),
            None => own.to_owned(),
        }
    }

    /// The store key of the resource whose own id is `own`.
    pub(crate) fn key_of(&self, own: &str) -> String {
        self.kind.key(&self.whole_id(own))
    }

    /// The resource's store key; refused where the path has no id.
    pub(crate) fn key(&self) -> Result<String, AdminResponse> {
        self.id.map(|id| self.key_of(id)).ok_or_else(|| self.without_id())
    }

    /// The refusal of a path without the id that it needs.
    pub(crate) fn without_id(&self) -> AdminResponse {
        AdminResponse::error(400, format!("missing {} id", self.kind.noun()))
    }

    /// Whether there is this method for such resources, as far as they are APISIX's.
    pub(crate) fn offers(&self, method: &str) -> bool {
        use Kind::{
            Consumer, ConsumerGroup, Credential, GlobalRule, PluginConfig, PluginMetadata, Proto, Secret,
            StreamRoute,
        };
        match method {
            "POST" => !matches!(
                self.kind,
                Consumer | Credential | ConsumerGroup | GlobalRule | PluginConfig | PluginMetadata | Secret
            ),
            "PATCH" => !matches!(self.kind, Consumer | Credential | PluginMetadata | Proto | StreamRoute),
            _ => true,
        }
    }
}

/// The answer for a collection that isn't there.
pub(crate) fn unsupported(collection: &str) -> AdminResponse {
    AdminResponse::error(404, format!("Unsupported resource type: {collection}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_resources_and_collections() {
        for (path, kind, parent, id, rest, key) in [
            (&["routes"][..], Kind::Route, None, None, 0, None),
            (&["routes", "1"], Kind::Route, None, Some("1"), 0, Some("/routes/1")),
            (&["routes", "1", "upstream", "nodes"], Kind::Route, None, Some("1"), 2, Some("/routes/1")),
            (&["consumers", "a"], Kind::Consumer, None, Some("a"), 0, Some("/consumers/a")),
            (&["consumers", "a", "credentials"], Kind::Credential, Some("a"), None, 0, None),
            (
                &["consumers", "a", "credentials", "c"],
                Kind::Credential,
                Some("a"),
                Some("c"),
                0,
                Some("/consumers/a/credentials/c"),
            ),
            (
                &["services", "1", "graphql_cost_decorations", "2", "x"],
                Kind::GraphqlCost,
                Some("1"),
                Some("2"),
                1,
                Some("/services/1/graphql_cost_decorations/2"),
            ),
            (&["services", "1", "credentials"], Kind::Service, None, Some("1"), 1, Some("/services/1")),
            (&["secrets"], Kind::Secret, None, None, 0, None),
            (&["secrets", "vault"], Kind::Secret, Some("vault"), None, 0, None),
            (&["secrets", "vault", "1"], Kind::Secret, Some("vault"), Some("1"), 0, Some("/secrets/vault/1")),
        ] {
            let target = Target::parse(path[0], &path[1..]).unwrap();
            assert_eq!((target.kind, target.parent, target.id), (kind, parent, id), "{path:?}");
            assert_eq!(target.sub_path.len(), rest, "{path:?}");
            assert_eq!(target.key().ok().as_deref(), key, "{path:?}");
        }
        for (collection, status) in [("nosuch", 404), ("credentials", 400), ("graphql_cost_decorations", 400)]
        {
            assert_eq!(Target::parse(collection, &["1"]).unwrap_err().status, status, "{collection}");
        }
    }

    #[test]
    fn keys_name_targets_and_back() {
        for key in ["/routes/1", "/consumers/a/credentials/b", "/secrets/vault/1", "/plugin_metadata/x"] {
            assert_eq!(Target::of_key(key).unwrap().key().unwrap(), key);
        }
        assert!(Target::of_key("/routes").is_none());
    }
}
