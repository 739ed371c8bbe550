//! A whole configuration that the command line gives: settings and resources, kept in memory for one run.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use admin::Resource;
use import::Note;
use plugin::Registry;
use serde_json::{Map, Value};
use store::file::Document;
use store::{Embedded, EmbeddedConfig};

use config::settings::Files;
use config::{Loaded, Settings};
use document::{Report, Severity};

/// Settings and resources that stand in no file of ours.
#[derive(Clone)]
pub struct Given {
    /// Where they come from, for messages.
    pub origin: String,
    /// What would stand in `config.yaml`.
    pub config: Value,
    /// The resources by collection, as in a standalone file.
    pub resources: Map<String, Value>,
    /// What is served, for the line that is printed when it is.
    pub serves: String,
    /// Directives that it goes without.
    pub refused: Vec<Note>,
}

impl std::fmt::Debug for Given {
    /// Without settings and resources, which hold private keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Given")
            .field("origin", &self.origin)
            .field("serves", &self.serves)
            .finish_non_exhaustive()
    }
}

impl Given {
    /// The settings: with no port that nobody asked for, which would be in the way of the next such run.
    ///
    /// # Errors
    /// Every mistake in them, by the keys of `config.yaml`.
    pub fn settings(&self) -> Result<Loaded, Report> {
        // JSON is YAML.
        let text = self.config.to_string();
        let mut loaded = config::read_text(&self.origin, &text, &|name| std::env::var(name).ok())?;
        let settings = &mut loaded.settings;
        (settings.control, settings.status, settings.metrics.listen) = (None, None, None);
        // Nothing is stored, so there is nothing to encrypt and no key to keep.
        settings.data_encryption.keyring.get_or_insert_with(Vec::new);
        // Without an Admin API the command line gives every resource, and may name every folder.
        if settings.admin.is_none() {
            settings.files = Files { static_roots: None, log_roots: None };
        }
        Ok(loaded)
    }

    /// A store in memory that holds the resources.
    ///
    /// # Errors
    /// A resource that no store takes.
    pub async fn store(&self) -> anyhow::Result<Arc<Embedded>> {
        let memory = Embedded::in_memory(EmbeddedConfig::new(&self.origin))?;
        self.fill(&memory).await?;
        Ok(Arc::new(memory))
    }

    /// Makes the resources all that `memory` holds. Answers the revision that has them.
    ///
    /// # Errors
    /// A resource that no store takes.
    pub async fn fill(&self, memory: &Embedded) -> anyhow::Result<u64> {
        let document = Document::of_value(self.resources.clone());
        Report::of_file(&self.origin, document.mistakes).entries().for_each(|line| tracing::error!("{line}"));
        Ok(memory.replace(document.entries, None).await?)
    }

    /// The errors of the resources, as the Admin API would find them.
    pub async fn errors(&self, registry: Arc<Registry>) -> Report {
        let entries = Document::of_value(self.resources.clone()).entries;
        let resources: Vec<Resource> = entries
            .into_iter()
            .filter_map(|(key, value)| Some(Resource { key, fields: serde_json::from_slice(&value).ok()? }))
            .collect();
        let mut found = admin::check_whole(registry, &resources).await;
        found.retain(|diagnostic| diagnostic.severity == Severity::Error);
        Report::of_file(&self.origin, found)
    }

    /// What is printed once it is served: the addresses to open.
    pub fn greeting(&self, settings: &Settings) -> String {
        let plain = settings.proxy.listen.iter().map(|listen| ("http", listen));
        let tls = settings.tls.listen.iter().map(|listen| ("https", listen));
        let shown = plain.chain(tls).filter(|(_, listen)| !listen.implied);
        let lines = shown.map(|(scheme, listen)| format!("  {}\n", url(scheme, listen.address)));
        format!("serving {} at\n{}", self.serves, lines.collect::<String>())
    }
}

/// The address as a browser on this machine would open it.
fn url(scheme: &str, address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    match (scheme, address.port()) {
        ("http", 80) | ("https", 443) => {
            let host = SocketAddr::new(ip, 0).to_string();
            format!("{scheme}://{}/", host.trim_end_matches(":0"))
        }
        (_, port) => format!("{scheme}://{}/", SocketAddr::new(ip, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use store::Store;

    fn given(config: Value) -> Given {
        Given {
            origin: "here".into(),
            config,
            resources: Map::new(),
            serves: "files".into(),
            refused: Vec::new(),
        }
    }

    #[test]
    fn the_greeting_has_what_can_be_opened() {
        let config = json!({ "apisix": {
            "node_listen": [{ "ip": "127.0.0.1", "port": 80 }, 8080],
            "ssl": { "listen": [{ "ip": "::1", "port": 8443 }, { "port": 443 }] },
        } });
        let given = given(config);
        let greeting = given.greeting(&given.settings().unwrap().settings);
        let expected = "serving files at\n  http://127.0.0.1/\n  http://127.0.0.1:8080/\n  https://[::1]:8443/\n  \
                        https://127.0.0.1/\n";
        assert_eq!(greeting, expected);
    }

    #[test]
    fn mistakes_name_their_origin() {
        let report = given(json!({ "apisix": { "enable_ipv6": 3 } })).settings().unwrap_err();
        assert!(report.to_string().contains("here"), "{report}");
    }

    #[test]
    fn private_keys_are_not_shown() {
        let mut given = given(json!({}));
        given.resources.insert("ssls".into(), json!([{ "key": "s3cret" }]));
        assert!(!format!("{given:?}").contains("s3cret"), "{given:?}");
    }

    #[tokio::test]
    async fn the_store_has_the_resources() {
        let mut given = given(json!({}));
        given
            .resources
            .insert("routes".into(), json!([{ "id": "a", "uri": "/*", "static": { "root": "/srv" } }]));
        let entry = given.store().await.unwrap().get("/routes/a").await.unwrap();
        assert!(entry.is_some());
    }
}
