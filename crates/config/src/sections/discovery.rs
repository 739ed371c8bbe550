//! `discovery`: where the nodes of services are known. Each kind of it has its own keys, which it reads itself.

use crate::reader::Section;
use discovery::Config;
use document::codes;
use serde_json::Value;

/// What of service discovery is configured.
pub(super) fn discovery(root: &Section<'_>) -> Config {
    let Some(field) = root.field("discovery") else { return Config::default() };
    let Value::Object(written) = field.json() else { return Config::default() };
    match Config::read(&written) {
        Ok(config) => {
            if !config.missing.is_empty() {
                let kinds = config.missing.join(", ");
                let message = format!(
                    "service discovery by {kinds} is not built yet: upstreams that use it have no nodes"
                );
                field.warn(codes::NO_EFFECT, message, "use dns or consul, or write the nodes");
            }
            config
        }
        Err(errors) => {
            for error in errors {
                let _: Option<()> = field.fail(error.to_string(), "see docs/guide/upstreams.md");
            }
            Config::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::read_text;

    #[test]
    fn kinds_that_are_not_built_are_named_and_mistakes_have_a_path() {
        let read = |text: &str| read_text("f", text, &|_| None);
        let loaded = read("discovery: {nacos: {host: [a]}, dns: {servers: [127.0.0.1]}}\n").unwrap();
        assert!(loaded.warnings.to_string().contains("nacos"), "{}", loaded.warnings);
        let report = read("discovery: {dns: {servers: [a.example]}}\n").unwrap_err();
        assert!(report.to_string().contains("/dns/servers"), "{report}");
    }
}
